"""Rows cut to the terminal's columns: character by character, without losing a blank; or at words."""

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
    folded: list[Row] = []
    for row in rows:  # most surely fit, and there may be 100,000 of them
        fits = sum(len(text) if text.isascii() else 2 * len(text) for text, _, _ in row) <= width
        folded += [row] if fits else _folded(row, width)
    return folded


def hanging(text: str, width: int, by: int = 2) -> list[str]:
    """A line, clean, broken between words: the first row is indented as the line is, the others `by` columns more."""
    from ossia.cli.terminal.markdown.paint import Painter

    indent = " " * (len(text) - len(text.lstrip()))
    whole = Painter(width, colour=False).text(text)
    broken = Painter(max(8, width - len(indent) - by), colour=False).text(text.lstrip(), fold=True)
    first, *rest = ["".join(segment.text for segment in row).strip() for row in (whole if len(whole) < 2 else broken)]
    return [f"{indent}{first}", *(f"{indent}{' ' * by}{row}" for row in rest)]


def _folded(row: Row, width: int) -> Iterator[Row]:
    from rich.segment import Segment

    from ossia.cli.terminal.markdown._rows import PLAIN, sliced

    extents = _extents("".join(segment.text for segment in row), width)
    for part in sliced([(text, style or PLAIN) for text, style, _ in row], extents):
        yield [Segment(text, style) for text, style in part]


def _extents(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yields the begin and end of each part of at most `width` columns."""
    if text.isascii():
        yield from ((at, at + width) for at in range(0, len(text) or 1, width))
        return
    begin = used = at = 0
    for piece in pieces(text):
        cells = widest(piece)
        if used + cells > width:
            yield begin, at
            begin, used = at, 0
        used, at = used + cells, at + len(piece)
    yield begin, at
