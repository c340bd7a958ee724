"""How far something slow is, in words: `reading the prompt · 212 of 633 · 24 s`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ossia.agent.engine.base import Progress

_FIRST_S, _FIRST_SHARE = 2.0, 0.02
"""What is over within the first needs no forecast; with less than the second done, there is too little for one."""
_OFF_S, _OFF_SHARE = 2.0, 0.2
"""How wrong a forecast may be before it is taken back: the number counts down with the clock till then."""


class Pace:
    """How many seconds are left, told steadily: it counts down with the clock, and is changed only when well off.

    `clock`: seconds of monotonic time. Tell `seconds_left` how much is done, and out of how much, in any unit.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at: float | None = None
        self._began_with = 0.0
        self._ends_at: float | None = None

    def seconds_left(self, done: float, total: float) -> int | None:
        """Whole seconds, at least 1; None while nothing can be said, in the first two seconds above all."""
        now = self._clock()
        if self._began_at is None:
            self._began_at, self._began_with = now, done
        took, brought = now - self._began_at, done - self._began_with
        if took < _FIRST_S or brought < _FIRST_SHARE * (total - self._began_with) or not brought:
            return None
        left_s = (total - done) * took / brought
        if self._ends_at is None or abs(now + left_s - self._ends_at) > max(_OFF_S, _OFF_SHARE * left_s):
            self._ends_at = now + left_s
        return max(1, math.ceil(self._ends_at - now))


class Reading:
    """Words for a prefill: feed it each `Progress`, and ask for `text` as often as it is drawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pace = Pace(clock)
        self._progress: Progress | None = None

    def see(self, progress: Progress) -> None:
        """Take note of one; if nothing has been read yet, a new prompt begins."""
        if self._progress is None or progress.done == progress.reused:
            self._pace = Pace(self._clock)
            self._pace.seconds_left(0, progress.total)  # it begins now, and not when it is first drawn
        self._progress = progress

    def text(self) -> str:
        """`reading the prompt · 212 of 633 · 24 s`: what the cache holds already isn't counted."""
        progress = self._progress
        if progress is None:
            return ""
        done, total = progress.done - progress.reused, progress.total - progress.reused
        return worded("reading the prompt", f"{done:,} of {total:,}", self._pace.seconds_left(done, total))


def worded(what: str, so_far: str, left_s: int | None) -> str:
    """`reading the prompt · 212 of 633 · 24 s`, without the seconds where they aren't known."""
    left = "" if left_s is None else f" · {f'{left_s // 60} min {left_s % 60} s' if left_s >= 100 else f'{left_s} s'}"
    return f"{what} · {so_far}{left}"
