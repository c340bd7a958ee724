"""What the chat's screen shows around the open block: what goes on, what waits, the bottom line."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from cli.chat.status import Status, one_row

if TYPE_CHECKING:
    from cli.chat.conversation import Conversation
    from cli.chat.face import Face
    from cli.terminal.markdown.paint import Row

_WAITING = 4
"""So many waiting lines are shown, and so many attachments. The rest is counted: what goes on stays in sight."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ChatPanes:
    """The chat as its screen sees it (`cli.terminal.screen.Panes`). `titled` gets the terminal's title."""

    def __init__(self, talk: Conversation, face: Face, *, titled: Callable[[str], object] = lambda title: None) -> None:
        self._talk, self._face, self._titled = talk, face, titled
        self._status = Status(talk, face)

    def frame(self) -> list[Row]:
        self._talk.take_in()
        self._titled(self._status.title)
        return self._face.view.take()

    def live(self, max_rows: int) -> list[Row]:
        return self._face.view.live(max_rows)

    def activity(self) -> list[Row]:
        talk, face, width = self._talk, self._face, self._face.painter.width
        rows: list[Row] = [[]]  # air between the answer and the input
        if self._doing:
            spin = _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
            rows.append(one_row(f"{spin} {self._doing}", width, "dim"))
        if face.replaces is not None:
            line = f"turn {face.replaces + 1}: Enter puts this in its place, Esc leaves all as it is"
            rows.append(one_row(line, width, "dim italic"))
        rows += _few([f"attached: {one.shown}" for one in talk.attaching.pending[:_WAITING]],
                     len(talk.attaching.pending), width, "dim")  # fmt: skip
        rows += _few([f"queued: {typed.shown}" for typed in islice(talk.queue, _WAITING)],
                     len(talk.queue), width, "dim italic")  # fmt: skip
        return rows

    def bottom(self) -> Row:
        return self._status.row()

    @property
    def animated(self) -> bool:
        return bool(self._doing)

    @property
    def _doing(self) -> str:
        talk, view = self._talk, self._face.view
        if self._face.asks and view.busy:
            return "waiting for your answer"
        if talk.attaching.reading:
            return f"reading {talk.attaching.reading}"
        return view.activity() or talk.notices.doing or talk.attaching.running


def _few(lines: list[str], total: int, width: int, style: str) -> list[Row]:
    more = [f"… and {total - len(lines):,} more"] if total > len(lines) else []
    return [one_row(line, width, style) for line in (*lines, *more)]
