"""Styled text → rows: lines broken between words.

A span is a piece of text in one style. Only rich's values are used here, never its console.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from ossia.cli.clean import CLUSTER, clean_row, pieces, unstacked, widest

Row: TypeAlias = list[Segment]
Span: TypeAlias = tuple[str, Style]

PLAIN = Style.null()
TAB = 4  # columns; a tab itself is drawn differently by each terminal, and not at all by the live view

_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60"
    "\uffe0-\uffe6\U0001f300-\U0001faff\U00020000-\U0003fffd"
)
_OPENING = "〈《「『【〔〖（［｛"
_CLINGING = (
    "、。，．！？：；）］｝〉》」』】〕〗ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ"
    "\u0300-\u036f\u3099\u309a\U0001f3fb-\U0001f3ff"
)
# Never broken: a word, or one wide character with the signs that must not begin or end a row.
_UNIT = re.compile(f"([{_OPENING}]*[{_WIDE}][{_CLINGING}]*|[^ {_WIDE}]+)( *)")
_JOINED_UNIT = re.compile(
    f"([{_OPENING}]*(?:{CLUSTER}|[{_WIDE}])[{_CLINGING}]*|(?:(?!{CLUSTER})[^ {_WIDE}])+)( *)"
)  # slower: only for text in which something is joined
_UNSAFE = str.maketrans("\n\t", "  ")


@lru_cache(256)
def style(words: str) -> Style:
    """rich's style of these words, e.g. `bold cyan`; "" is the plain one."""
    return Style.parse(words) if words else PLAIN


def wrapped(
    spans: list[Span], width: int, *, fold: bool = False, measure: Callable[[str], int] = widest
) -> list[list[Span]]:
    """The line as rows of at most `width` columns, broken between words and between wide characters.

    A longer word stands alone and keeps its length, so that an address is copied whole; with `fold` it is broken.
    """
    text = "".join(text for text, _ in spans)
    if len(text) * 2 <= width or measure(text) <= width:
        return [spans]
    return list(sliced(spans, _extents(text, max(1, width), fold, measure)))


def _extents(text: str, width: int, fold: bool, measure: Callable[[str], int]) -> Iterator[tuple[int, int]]:
    """Yields the begin and end of each row in the text."""
    start = end = 0
    column = len(text) - len(text.lstrip(" "))  # an indent stays on the first row
    units = _JOINED_UNIT if "\u200d" in text else _UNIT
    for unit in units.finditer(text):
        cells = measure(unit[1])
        if column + cells > width and end > start:
            yield start, end
            start, column = unit.start(), 0
        if fold and cells > width:
            at = unit.start()
            for piece in pieces(unit[1]):
                if column + (cells := measure(piece)) > width and at > start:
                    yield start, at
                    start, column = at, 0
                column, at = column + cells, at + len(piece)
            cells = 0
        column, end = column + cells + len(unit[2]), unit.end(1)
    yield start, end


def sliced(spans: list[Span], extents: Iterable[tuple[int, int]]) -> Iterator[list[Span]]:
    """Yields the spans between each start and stop; these are in ascending order."""
    first = before = 0  # the first span that matters, the characters before it
    for start, stop in extents:
        while first < len(spans) and before + len(spans[first][0]) <= start:
            before += len(spans[first][0])
            first += 1
        row, number, at = list[Span](), first, before
        while number < len(spans) and at < stop:
            text, look = spans[number]
            row.append((text[max(0, start - at) : stop - at], look))
            number, at = number + 1, at + len(text)
        yield row


def cells(spans: Iterable[Span]) -> int:
    """The columns of a line."""
    return sum(cell_len(text) for text, _ in spans)


def row(spans: Iterable[Span]) -> Row:
    """A finished row: clean text, no piles of combining marks, no blanks at its end, neighbours of one style joined."""
    joined = Segment.simplify(Segment(text, look) for text, look in spans if text)
    done = [Segment(safe(text), look) for text, look, _ in joined]
    while done:
        text = done[-1].text.rstrip(" ")
        if text:
            done[-1] = Segment(text, done[-1].style)
            break
        done.pop()
    return _unstacked(done)


def _unstacked(done: Row) -> Row:
    """Drop piles of combining marks, even across segments."""
    text = "".join(segment.text for segment in done)
    if text.isascii() or unstacked(text) == text:
        return done
    kept: Row = []
    before = ""
    for segment in done:
        after = unstacked(before + segment.text)
        kept.append(Segment(after[len(before) :], segment.style))
        before = after
    return [segment for segment in kept if segment.text]


def safe(text: str) -> str:
    """The text without controls, on one line: the last check before the terminal."""
    if text.isascii() and text.isprintable():
        return text
    return clean_row(text).translate(_UNSAFE)
