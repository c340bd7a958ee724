"""Chunks of Markdown → finished rows; the same rows become ANSI (finished) or fragments (the live part).

Only text, SGR of the 16 colours (no background) and links to clean addresses leave here. Rows have no blanks at their
end; code is neither wrapped nor indented.
"""

from __future__ import annotations

from ossia.cli.clean import clean_parts
from ossia.cli.terminal.markdown import _rows
from ossia.cli.terminal.markdown._blocks import block_lines
from ossia.cli.terminal.markdown._code import code_lines, fenced
from ossia.cli.terminal.markdown._inline import Look
from ossia.cli.terminal.markdown._rows import PLAIN, TAB, Row, Span, row, wrapped
from ossia.cli.terminal.markdown.segment import Chunk

__all__ = ["Painter", "Row"]


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
        """Its rows, an empty one first if it has a gap. Never raises: a chunk that can't be drawn is plain text."""
        try:
            rows = [row(line) for line in self._lines(chunk)]
        except Exception:  # a fault of a parser or a lexer must not take the answer away
            rows = self.text(chunk.source.removesuffix("\n"))
        return [[], *rows] if chunk.gap else rows

    def text(self, text: str, style: str = "", *, fold: bool = False) -> list[Row]:
        """Plain text in one style (rich's words: `dim`, `bold red`), cleaned, its lines broken at the width.

        A longer word keeps its length, unless `fold`.
        """
        look = _rows.style(style) if self.colour else PLAIN
        lines = clean_parts(text).expandtabs(TAB).split("\n")
        return [row(part) for line in lines for part in wrapped([(line, look)], self.width, fold=fold)]

    def echo(self, text: str) -> list[Row]:
        """A message of the user in bold, two columns in, behind `› `: pasted code keeps its shape."""
        look = _rows.style("bold") if self.colour else PLAIN
        rows = Painter(max(1, self.width - 2), colour=self.colour).text(text)
        texts = ("".join(part.text for part in row) for row in rows)
        return [row([("  " if number else "› ", look), (text, look)]) for number, text in enumerate(texts)]

    def ansi(self, row: Row) -> str:
        """The row for the terminal, without a line end: text, SGR and OSC 8 links; text alone without colour."""
        return _rows.ansi(row, colour=self.colour, links=self.links)

    def fragments(self, rows: list[Row]) -> list[tuple[str, str]]:
        r"""The rows as prompt_toolkit's fragments, joined by `\n`, without links."""
        return _rows.fragments(rows, colour=self.colour)

    def _lines(self, chunk: Chunk) -> list[list[Span]]:
        if chunk.kind == "code":
            lines = code_lines(chunk.source, chunk.info, context=chunk.context, colour=self.colour)
            return lines if self.colour else fenced(lines, chunk.info, begins=chunk.begins, ends=chunk.ends)
        item = chunk.context if chunk.kind.endswith("list_open") else ""
        return block_lines(chunk.source, self.width, Look(self.colour, self.links), item=item)
