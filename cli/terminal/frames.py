"""Frames on a terminal: when the next one is due, and what makes several writes one."""

from __future__ import annotations

FRAME_S = 1 / 12
"""The seconds from one frame to the next, at least."""
_COST_SHARE = 32
_LONGEST_PAUSE_S = 0.35
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""A synchronised update: the terminal draws what is between them at once. One that doesn't know them ignores them."""


def next_frame_at(begin: float, now: float, computed_s: float, frame_s: float = FRAME_S) -> float:
    """The time of the next frame, after one from `begin` to `now`, `computed_s` of it on the processor.

    After a frame comes a pause of `_COST_SHARE` times its computing, and at least of the whole frame (a slow connection
    holds writing up), at most `_LONGEST_PAUSE_S`: the model's threads take all processors and wait for each other.

        next_frame_at(10.0, 10.01, 0.005)     # 10.17
    """
    return max(begin + frame_s, now + min(max(_COST_SHARE * computed_s, now - begin), _LONGEST_PAUSE_S))


def erase_down(rows: int) -> str:
    """Erases from the cursor to the end of a screen of so many rows; the cursor stays.

    Row by row: tmux moves the rows into its history when ED (`CSI J`) comes at the top left corner.
    """
    return "\x1b7\x1b[K" + "\x1b[B\x1b[2K" * (rows - 1) + "\x1b8"
