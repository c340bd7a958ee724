"""Where blocks of Markdown can be cut: pure functions of their lines and of the parser's tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ossia.cli.terminal.markdown._chunk import BLOCK_CHARS, BLOCK_LINES, PARAGRAPH_CHARS, PARAGRAPH_LINES

if TYPE_CHECKING:
    from markdown_it.token import Token

ITEM = re.compile(r"( {0,3}(?:[-+*]|\d{1,9}[.)]))([ \t]*)")
_CLOSED_BY_BLANK = frozenset({"paragraph_open", "blockquote_open", "table_open", "maths_block"})
_CLOSED_AT_ONCE = frozenset({"heading_open", "hr"})
_CELL_CHARS = 10  # what a cell of a table counts beside its text: it costs as much to draw


def is_over(token: Token, *, blank_next: bool) -> bool:
    """Can nothing more be added to this last block?"""
    if token.type == "maths_block" and token.meta["closed"]:
        return True
    return token.type in _CLOSED_AT_ONCE or (token.type in _CLOSED_BY_BLANK and blank_next)


def is_text(token: Token, lines: int) -> bool:
    """Is it a paragraph, or one that its last line has made a heading?"""
    return token.type == "paragraph_open" or (token.type == "heading_open" and lines > 1)


def start_of(token: Token) -> int:
    """The number of an ordered list's first item."""
    start = token.attrGet("start")
    return 1 if start is None else int(start)


def extent(token: Token, lines: list[str]) -> tuple[int, int]:
    """The block's first line, and the one after its last, without blank lines at the end."""
    assert token.map is not None
    return token.map[0], without_blanks(lines, token.map[0], token.map[1])


def without_blanks(lines: list[str], start: int, stop: int) -> int:
    """`stop`, moved up over blank lines."""
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    return stop


def cap_of(token: Token, lines: list[str], start: int, stop: int) -> int | None:
    """Where this block (or an item of it) is cut because it is too long; None: it is short enough.

    It is at a line that is not blank, and at the same one however many lines follow.
    """
    text, table = is_text(token, stop - start), token.type == "table_open"
    max_lines, max_chars = (PARAGRAPH_LINES, PARAGRAPH_CHARS) if text else (BLOCK_LINES, BLOCK_CHARS)
    fewest = 3 if table else 1  # of a table: its head and a row
    chars = 0
    for number in range(start, stop):
        full = number - start >= max_lines or chars >= max_chars
        if full and number - start >= fewest and lines[number].strip():
            return number
        chars += len(lines[number]) + (_CELL_CHARS * lines[number].count("|") if table else 0)
    return None


def after_cap(token: Token, tokens: list[Token], lines: list[str], start: int, cap: int) -> list[str]:
    """The lines that are left, with what must stand before them: a table's head, the line that opens a fence."""
    if token.type == "table_open":
        return [*lines[start : start + 2], *lines[cap:]]
    for inner in tokens:
        if inner.type == "fence" and inner.map and start <= inner.map[0] < cap < inner.map[1]:
            return [lines[inner.map[0]], *lines[cap:]]
    return lines[cap:]


def as_item(rest: list[str], first: str) -> list[str]:
    """The lines as an item of their own, with the marker of the `first` line of the item they belong to."""
    marker = ITEM.match(first)
    if marker is None or rest[0] == first:
        return rest
    width = len(marker[1]) + (len(marker[2]) if marker[2] in (" ", "  ", "   ", "    ") else 1)
    inside = not rest[0][:width].strip()
    line = marker[1].ljust(width) + rest[0][width:] if inside else f"{marker[1]} {rest[0].lstrip()}"
    return [line, *rest[1:]]
