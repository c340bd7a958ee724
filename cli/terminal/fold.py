"""Rows cut to the terminal's columns: character by character, so that not even a blank is lost; or at words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ossia.cli.clean import pieces, widest

if TYPE_CHECKING:
    from ossia.cli.terminal.markdown.paint import Row


def folded(rows: Sequence[Row], width: int) -> list[Row]:
    """The rows folded to `width` columns. Their text must be clean, without tabs.

    Wrapping between words would lose blanks, but the user must see exactly what they agree to.
    """
    width = max(2, width)
    return [part for row in rows for part in ([row] if _fits(row, width) else _folded(row, width))]


def hanging(text: str, width: int, by: int = 2) -> list[str]:
    """A line, clean, broken between words: the first row is indented as the line is, the others `by` columns more."""
    from ossia.cli.terminal.markdown.paint import Painter

    indent = " " * (len(text) - len(text.lstrip()))
    whole = Painter(width, colour=False).text(text)
    broken = Painter(max(8, width - len(indent) - by), colour=False).text(text.lstrip(), fold=True)
    first, *rest = ["".join(segment.text for segment in row).strip() for row in (whole if len(whole) < 2 else broken)]
    return [f"{indent}{first}", *(f"{indent}{' ' * by}{row}" for row in rest)]


def _fits(row: Row, width: int) -> bool:
    """Does the row surely fit? A quick look: most rows do, and there may be 100,000 of them."""
    return sum(2 * len(text) if not text.isascii() else len(text) for text, _, _ in row) <= width


def _folded(row: Row, width: int) -> Iterator[Row]:
    from rich.segment import Segment

    part: Row = []
    used = 0
    for text, style, _ in row:
        for piece, cells in _pieces(text, width - used, width):
            if used + cells > width or (used and used == width):
                yield part
                part, used = [], 0
            if piece:
                part.append(Segment(piece, style))
            used += cells
    yield part


def _pieces(text: str, first: int, width: int) -> Iterator[tuple[str, int]]:
    """The text in pieces of at most `first` and then `width` columns, with the columns that each takes."""
    if text.isascii():
        first = first or width
        yield text[:first], len(text[:first])
        for at in range(first, len(text), width):
            yield text[at : at + width], len(text[at : at + width])
        return
    room, begin, used, at = first or width, 0, 0, 0
    for piece in pieces(text):
        cells = widest(piece)
        if used + cells > room:
            yield text[begin:at], used
            room, begin, used = width, at, 0
        used, at = used + cells, at + len(piece)
    yield text[begin:], used
