"""The chat's screen around the open block: the activity, waiting lines, the bottom line, the title."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from ossia.cli.chart import bar
from ossia.cli.clean import clean, fitted, one_line
from ossia.cli.settings.kinds import thinking_limit
from ossia.cli.visible import seen_line
from ossia.cli.words import short, speed_of

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.terminal.markdown.paint import Row

_WAITING = 4
"""The most rows of waiting lines, and of attachments: the activity stays in sight. The rest is counted."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BAR_CELLS = 8


class ChatPanes:
    """The chat as `cli.terminal.screen.Panes`. `titled` gets the terminal's title."""

    def __init__(self, talk: Chat, face: Face, *, titled: Callable[[str], object] = lambda title: None) -> None:
        self._talk, self._face, self._titled = talk, face, titled

    def frame(self) -> list[Row]:
        self._titled(self._title())
        return self._face.view.take()

    def live(self, max_rows: int) -> list[Row]:
        return self._face.view.live(max_rows)

    def activity(self) -> list[Row]:
        talk, face, width = self._talk, self._face, self._face.painter.width
        rows: list[Row] = [[]]  # air between the answer and the input
        if self._activity:
            spin = _SPINNER[int(time.monotonic() * 10) % len(_SPINNER)]
            rows.append(_one_row(f"{spin} {self._activity}", width, "dim"))
        if face.replaces is not None:
            rows.append(_one_row(_replacing(face.replaces, len(talk.session.ends), width), width, "dim italic"))
        rows += _few([f"attached: {one.shown}" for one in talk.outbox.attaching.pending], width, "dim")
        when = "after the next result" if talk.turn.calls_tools else "queued"
        waiting = [f"{when}: {line.shown}" for line in talk.outbox.steering]
        waiting += [f"queued: {line.shown}" for line in talk.outbox.queue]
        return rows + _few(waiting, width, "dim italic")

    def bottom(self) -> Row:
        """`gpt-oss-20b · medium · ▕██▎     ▏ 3.1k of 131k · 42 tok/s`, as many parts as fit."""
        chat, view = self._talk, self._face.view
        effort = chat.session.options.effort
        limit = thinking_limit(chat.settings.think_tokens, effort)
        thinking = f"{effort}, thinks at most {short(limit)}" if limit else effort
        loading = "no model" if chat.model.absent else chat.settings.model or "…"
        parts = [chat.loaded.model.name if chat.loaded else loading, thinking]
        if chat.settings.plan:
            parts.append("plan: only looking")
        if chat.conversation.ahead.progress:
            done, total = chat.conversation.ahead.progress
            parts.append(f"reading ahead {done:,} of {total:,}")
        if chat.use:
            total = chat.use.total_tokens
            used = min(view.context_tokens or chat.use.used_tokens, total)  # a prompt that didn't fit has more
            parts.append(f"▕{bar(used / max(total, 1), _BAR_CELLS).ljust(_BAR_CELLS)}▏ {short(used)} of {short(total)}")
        if chat.folder:
            parts.append(seen_line(chat.folder.workspace.root.name))
        if chat.store is None or chat.store.problem:
            parts.append("not stored")
        if view.tokens_per_s:
            parts.append(speed_of(view.tokens_per_s))
        text = ""
        for part in parts:
            longer = f"{text} · {part}" if text else part
            if len(longer) + 2 > self._face.painter.width:
                break
            text = longer
        return [Segment(f"  {text}", Style(dim=True))]

    def farewell(self) -> list[Row]:
        """The way back to a stored chat, but not before a loading error."""
        talk, view = self._talk, self._face.view
        if talk.store and not talk.store.problem and talk.session.entries and not talk.model.fault:
            view.note(f"ossia --resume {talk.opened.session_id} continues this chat")
        return view.take()

    @property
    def animated(self) -> bool:
        return bool(self._activity)

    @property
    def _activity(self) -> str:
        view, attaching = self._face.view, self._talk.outbox.attaching
        if self._face.asks and view.busy:
            return "waiting for your answer"
        if attaching.reading:
            return f"reading {attaching.reading}"
        return view.activity() or self._talk.notices.activity or attaching.running

    def _title(self) -> str:
        """`ossia: idle`, `ossia: thinking`, `ossia: asks`."""
        view = self._face.view
        if self._face.asks:
            return "ossia: asks"
        if view.busy:
            return f"ossia: {view.activity().partition(' ')[0]}"
        return "ossia: idle" if self._talk.loaded or self._talk.model.absent else "ossia: loading"


def _replacing(turn: int, turns: int, width: int) -> str:
    """The effect of Enter on an edited turn, counted from 0, in as many words as fit."""
    later = turns - turn - 1
    if not later:
        return f"Enter replaces turn {turn + 1} · Esc cancels"
    gone = "the turn" if later == 1 else f"the {later} turns"
    long = f"Enter replaces turn {turn + 1} and removes {gone} after it · Esc cancels"
    return long if len(long) < width else f"replaces turn {turn + 1}, removes {later} after it · Esc cancels"


def _few(lines: list[str], width: int, style: str) -> list[Row]:
    more = [f"… and {len(lines) - _WAITING:,} more"] if len(lines) > _WAITING else []
    return [_one_row(line, width, style) for line in (*lines[:_WAITING], *more)]


def _one_row(text: str, width: int, style: str) -> Row:
    """The text on one row, cut to `width` columns."""
    return [Segment(fitted(clean(one_line(text)), width - 1), Style.parse(style))]
