"""Chunks of Markdown → finished rows of the terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, TypeAlias

from cli.clean import clean
from cli.terminal.segment import Chunk, Segmenter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment

Row: TypeAlias = "list[Segment]"


class Painter:
    """Rows of one width."""

    def __init__(self, width: int, *, colour: bool = True) -> None:
        self.width = width
        self.colour = colour

    def chunk(self, chunk: Chunk) -> list[Row]:
        """The chunk's rows."""
        from rich.markdown import Markdown
        from rich.syntax import Syntax

        if chunk.kind == "code":
            lexer = (chunk.info.split() or ["text"])[0]
            rows = self.rows(Syntax(chunk.source, lexer, theme="ansi_dark", background_color="default"))
        else:
            rows = self.rows(Markdown(chunk.source))
        return [[], *rows] if chunk.gap else rows

    def text(self, text: str, style: str = "") -> list[Row]:
        """Plain text, wrapped."""
        from rich.text import Text

        return self.rows(Text(clean(text), style))

    def rows(self, renderable: Any) -> list[Row]:
        """What rich makes of it."""
        return [_stripped(line) for line in self._console().render_lines(renderable, pad=False)]

    def ansi(self, row: Row) -> str:
        """Text and SGR."""
        system = self._console()._color_system
        return "".join(s.style.render(s.text, color_system=system) if s.style else s.text for s in row)

    def fragments(self, rows: list[Row]) -> list[tuple[str, str]]:
        """prompt_toolkit's."""
        out: list[tuple[str, str]] = []
        for number, row in enumerate(rows):
            out += [("", "\n")] if number else []
            out += [("bold" if s.style and s.style.bold else "", s.text) for s in row]
        return out

    def _console(self) -> Console:
        from rich.console import Console

        return Console(
            file=io.StringIO(),
            force_terminal=True,
            width=self.width,
            color_system="standard" if self.colour else None,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
            _environ={},
        )


def _stripped(line: list[Segment]) -> Row:
    row = [s for s in line if s.text and not s.control]
    while row and not row[-1].text.strip():
        row.pop()
    return row


def render_markdown(text: str, *, width: int, colour: bool) -> list[Row]:
    """All rows of a text."""
    segmenter, painter = Segmenter(), Painter(width, colour=colour)
    return [row for chunk in [*segmenter.feed(clean(text)), *segmenter.finish()] for row in painter.chunk(chunk)]
