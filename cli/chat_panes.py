"""What the chat's screen shows around the open block: what goes on, what waits, the bottom line."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from cli.chat_status import Status, one_row

if TYPE_CHECKING:
    from cli.chat import Chat
    from cli.terminal.paint import Row

_WAITING = 4
"""So many lines that wait are shown, and so many attachments: the rest is counted, what goes on stays in sight."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ChatPanes:
    """The chat as its screen sees it (`cli.terminal.screen.Panes`)."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._status = Status(chat)

    def frame(self) -> list[Row]:
        self._chat.take_in()
        self._chat.screen.title(self._status.title)
        return self._chat.view.take()

    def live(self, max_rows: int) -> list[Row]:
        return self._chat.view.live(max_rows)

    def activity(self) -> list[Row]:
        chat, width = self._chat, self._chat.painter.width
        rows: list[Row] = [[]]  # air between the answer and the input
        if self._doing:
            spin = _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
            rows.append(one_row(f"{spin} {self._doing}", width, "dim"))
        if chat.editing is not None and not chat.editor.text:
            chat.editing = None  # the text was taken out of the line: nothing is changed
        if chat.editing is not None:
            line = f"turn {chat.editing + 1}: Enter puts this in its place, Esc leaves all as it is"
            rows.append(one_row(line, width, "dim italic"))
        rows += _few([f"attached: {one.shown}" for one in chat.attaching.pending[:_WAITING]],
                     len(chat.attaching.pending), width, "dim")  # fmt: skip
        rows += _few([f"queued: {typed.shown}" for typed in islice(chat.queue, _WAITING)],
                     len(chat.queue), width, "dim italic")  # fmt: skip
        return rows

    def bottom(self) -> Row:
        return self._status.row()

    @property
    def animated(self) -> bool:
        return bool(self._doing)

    @property
    def _doing(self) -> str:
        chat = self._chat
        if chat.question.open and chat.view.busy:
            return "waiting for your answer"
        if chat.attaching.reading:
            return f"reading {chat.attaching.reading}"
        return chat.view.activity() or chat.notices.doing or chat.attaching.running


def _few(lines: list[str], total: int, width: int, style: str) -> list[Row]:
    more = [f"… and {total - len(lines):,} more"] if total > len(lines) else []
    return [one_row(line, width, style) for line in (*lines, *more)]
