"""The line below the input, and the terminal's title: the model, how full the context is, how fast it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from cli.clean import clean, one_line
from cli.runtime.progress import fitted
from cli.words import bar, short, speed_of

if TYPE_CHECKING:
    from cli.chat.conversation import Conversation
    from cli.chat.face import Face
    from cli.terminal.markdown.paint import Row

_BAR_CELLS = 8


class Status:
    """Reads the chat; `row` is the bottom line, `title` the terminal's."""

    def __init__(self, talk: Conversation, face: Face) -> None:
        self._talk, self._face = talk, face

    @property
    def title(self) -> str:
        """`ossia: idle`, `ossia: thinking`, `ossia: asks`."""
        view = self._face.view
        if self._face.asks:
            return "ossia: asks"
        if view.busy:
            return f"ossia: {view.activity().partition(' ')[0]}"
        return "ossia: idle" if self._talk.assembly else "ossia: loading"

    def row(self) -> Row:
        """`gpt-oss-20b · medium · ▕██▎     ▏ 3.1k of 131k · 42 tok/s`, as much of it as the columns hold."""
        chat, view = self._talk, self._face.view
        effort = chat.session.options.effort
        parts = [chat.assembly.engine.name if chat.assembly else chat.settings.model or "…", effort]
        if chat.ahead.progress:
            done, total = chat.ahead.progress
            parts.append(f"reading ahead {done} of {total}")
        if chat.use:
            used, total = view.context_tokens or chat.use.used_tokens, chat.use.total_tokens
            parts.append(f"▕{bar(used / max(total, 1), _BAR_CELLS).ljust(_BAR_CELLS)}▏ {short(used)} of {short(total)}")
        if chat.folder:
            parts.append(one_line(clean(chat.folder.workspace.root.name)))
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


def one_row(text: str, width: int, style: str) -> Row:
    """The text on one row, cut to what `width` columns hold."""
    return [Segment(fitted(clean(one_line(text)), width - 1), Style.parse(style))]
