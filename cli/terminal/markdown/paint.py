"""Chunks of Markdown → finished rows; the same rows become ANSI (what scrolls away) or fragments (the live part).

Nothing but text, SGR of the 16 colours (no background) and links to clean addresses leaves here. Rows have no blanks at
their end; code is neither wrapped nor indented. Heavy libraries are loaded with the first row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ossia.cli.clean import clean_parts
from ossia.cli.terminal.markdown.segment import Chunk

if TYPE_CHECKING:
    from rich.segment import Segment

    from ossia.cli.terminal.markdown._rows import Span

Row: TypeAlias = "list[Segment]"


class Painter:
    """Rows for a terminal of `width` columns; `width` can be set at any time, finished rows stay as they are.

    `colour=False`: text alone, no SGR, no links; marks stay where they would be lost (`# Title`, `**bold**`,
    and the fences of code: lines that are copied from between them are the code).
    `links=False`: addresses are shown after their texts, for a terminal that knows no OSC 8.

        painter = Painter(80)
        [painter.ansi(row) for row in painter.chunk(Chunk("heading_open", "## Hi", gap=False))]   → ["\x1b[1mHi\x1b[0m"]
    """

    def __init__(self, width: int, *, colour: bool = True, links: bool = True) -> None:
        self.width = width
        self.colour = colour
        self.links = links

    def chunk(self, chunk: Chunk) -> list[Row]:
        """Its rows, an empty one first if it has a gap. Never raises: what can't be drawn comes as it was written."""
        from ossia.cli.terminal.markdown._rows import row

        try:
            rows = [row(line) for line in self._lines(chunk)]
        except Exception:  # a fault of a parser or a lexer must not take the answer away
            rows = self.text(chunk.source.removesuffix("\n"))
        return [[], *rows] if chunk.gap else rows

    def text(self, text: str, style: str = "", *, fold: bool = False) -> list[Row]:
        """Plain text in one style (rich's words: `dim`, `bold red`), cleaned, its lines broken at the width.

        A word that is longer than that keeps its length, unless `fold`.
        """
        from ossia.cli.terminal.markdown import _rows

        look = _rows.style(style) if self.colour else _rows.PLAIN
        lines = clean_parts(text).expandtabs(_rows.TAB).split("\n")
        return [_rows.row(part) for line in lines for part in _rows.wrapped([(line, look)], self.width, fold=fold)]

    def echo(self, text: str) -> list[Row]:
        """What the user sent, in bold behind `› `: as in the input line, all of it stands two columns in.

        So pasted code keeps its shape.
        """
        from ossia.cli.terminal.markdown import _rows

        look = _rows.style("bold") if self.colour else _rows.PLAIN
        rows = Painter(max(1, self.width - 2), colour=self.colour).text(text, "bold")
        texts = ("".join(part.text for part in row) for row in rows)
        return [_rows.row([("  " if number else "› ", look), (text, look)]) for number, text in enumerate(texts)]

    def ansi(self, row: Row) -> str:
        """The row for the terminal, without a line end: text, SGR and OSC 8 links; text alone without colour."""
        from ossia.cli.terminal.markdown import _rows

        return _rows.ansi(row, colour=self.colour, links=self.links)

    def fragments(self, rows: list[Row]) -> list[tuple[str, str]]:
        r"""The rows as prompt_toolkit's fragments, joined by `\n`, without links."""
        from ossia.cli.terminal.markdown import _rows

        return _rows.fragments(rows, colour=self.colour)

    def _lines(self, chunk: Chunk) -> list[list[Span]]:
        from ossia.cli.terminal.markdown import _blocks, _code
        from ossia.cli.terminal.markdown._inline import Look

        if chunk.kind == "code":
            lines = _code.code_lines(chunk.source, chunk.info, context=chunk.context, colour=self.colour)
            return lines if self.colour else _code.fenced(lines, chunk.info, begins=chunk.begins, ends=chunk.ends)
        item = chunk.context if chunk.kind.endswith("list_open") else ""
        return _blocks.block_lines(chunk.source, self.width, Look(self.colour, self.links), item=item)
