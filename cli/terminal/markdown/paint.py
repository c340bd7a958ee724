"""Chunks of Markdown → finished rows; the same rows become ANSI (finished) or fragments (the live part).

Only text, SGR of the 16 colours (no background) and links to clean addresses leave here. Rows have no blanks at their
end; code is neither wrapped nor indented.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style

from ossia.cli.clean import clean_flat, clean_parts, clean_url
from ossia.cli.terminal.markdown._blocks import block_lines
from ossia.cli.terminal.markdown._inline import Look
from ossia.cli.terminal.markdown._rows import PLAIN, TAB, Row, Span, row, safe, style, wrapped
from ossia.cli.terminal.markdown.code import code_lines, edged
from ossia.cli.terminal.markdown.segment import Chunk

__all__ = ["Painter", "Row"]

_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_BRIGHT = ("brightblack", *(f"bright{name}" for name in _COLOURS[1:-1]), "white")
_NAMES = [f"ansi{name}" for name in (*_COLOURS, *_BRIGHT)]  # prompt_toolkit's, in the order of the 16 colours


class Painter:
    """Rows for a terminal of `width` columns; `width` can be set at any time, finished rows stay as they are.

    `colour=False`: text alone, no SGR, no links; marks stay where they would be lost (`# Title`, `**bold**`).
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

    def text(self, text: str, look: str = "", *, fold: bool = False) -> list[Row]:
        """Plain text in one style (rich's words: `dim`, `bold red`), cleaned, its lines broken at the width.

        A longer word keeps its length, unless `fold`.
        """
        shown = style(look) if self.colour else PLAIN
        lines = clean_parts(text).expandtabs(TAB).split("\n")
        return [row(part) for line in lines for part in wrapped([(line, shown)], self.width, fold=fold)]

    def echo(self, text: str) -> list[Row]:
        """A message of the user in bold, two columns in, behind `› `: pasted code keeps its shape."""
        look = style("bold") if self.colour else PLAIN
        rows = Painter(max(1, self.width - 2), colour=self.colour).text(text)
        texts = ("".join(part.text for part in row) for row in rows)
        return [row([("  " if number else "› ", look), (text, look)]) for number, text in enumerate(texts)]

    def ansi(self, row: Row) -> str:
        """The row for the terminal, without a line end: text, SGR and OSC 8 links; text alone without colour."""
        if not self.colour:
            return "".join(safe(segment.text) for segment in row)
        return "".join(_ansi(segment, self.links) for segment in row)

    def fragments(self, rows: list[Row]) -> list[tuple[str, str]]:
        r"""The rows as prompt_toolkit's fragments, joined by `\n`, without links."""
        done: list[tuple[str, str]] = []
        for number, one in enumerate(rows):
            done += [("", "\n")] if number else []
            done += [(_words(look) if self.colour and look else "", clean_flat(safe(text))) for text, look, _ in one]
        return done

    def _lines(self, chunk: Chunk) -> list[list[Span]]:
        if chunk.kind == "code":
            source, context = chunk.source.expandtabs(TAB), chunk.context.expandtabs(TAB)
            lines = code_lines(source, chunk.info, context=context, colour=self.colour)
            faint = style("dim") if self.colour else PLAIN
            return edged(lines, chunk.info, self.width, faint, begins=chunk.begins, ends=chunk.ends)
        item = chunk.context if chunk.kind.endswith("list_open") else ""
        return block_lines(chunk.source, self.width, Look(self.colour, self.links), item=item)


def _ansi(segment: Segment, links: bool) -> str:
    text = safe(segment.text)
    if segment.style is None or segment.style is PLAIN:
        return text
    codes, link = _sgr(segment.style), segment.style.link
    text = f"\x1b[{codes}m{text}\x1b[0m" if codes else text
    address = clean_url(link) if links and link else None
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if address else text


@lru_cache(1000)
def _sgr(look: Style) -> str:
    """The style as parameters of SGR, never a background: `1;36`."""
    codes = [code for name, code in _ATTRIBUTES.items() if getattr(look, name)]
    number = _number(look.color)
    if number is not None:
        codes.append(str(30 + number if number < 8 else 82 + number))
    return ";".join(codes)


@lru_cache(1000)
def _words(look: Style) -> str:
    """The style in prompt_toolkit's words: `bold fg:ansicyan`."""
    words = [name for name in _ATTRIBUTES if getattr(look, name)]
    number = _number(look.color)
    return " ".join(words if number is None else [*words, f"fg:{_NAMES[number]}"])


def _number(color: Color | None) -> int | None:
    """One of the 16 colours; they follow the user's theme, light or dark."""
    return None if color is None or color.is_default else color.downgrade(ColorSystem.STANDARD).number
