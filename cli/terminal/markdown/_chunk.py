"""The pieces between Segmenter and Painter: their bounds, and the cuts of lines, fences and blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

CODE_LINES = 40  # a longer fence comes in pieces of this many lines
CONTEXT_LINES = 2 * CODE_LINES  # of the same fence, before the piece: for the lexer
PARAGRAPH_LINES = 100
PARAGRAPH_CHARS = 4000  # some marks take the parser quadratic time: 4,000 of `[` 30 ms, 16,000 of them 400 ms
BLOCK_LINES = 200  # rows of a table, lines of an item, a quote, indented code; the head of a table is repeated
BLOCK_CHARS = 8000
LONG_LINE = 2000  # characters of prose; the first blank after it becomes a line end, or any character 200 further on
LONG_CODE_LINE = 100_000  # long, so that a copied line of code is the whole line
_FURTHER = 200  # characters in which a blank is looked for

ITEM = re.compile(r"( {0,3}(?:[-+*]|\d{1,9}[.)]))([ \t]*)")
_CLOSED_BY_BLANK = frozenset({"paragraph_open", "blockquote_open", "table_open", "maths_block"})
_CLOSED_AT_ONCE = frozenset({"heading_open", "hr"})
_CELL_CHARS = 10  # counted for a cell of a table beside its text: it costs as much to draw


@dataclass(frozen=True, slots=True)
class Chunk:
    r"""A piece of Markdown that can be painted alone.

    `kind`: the parser's name of the block (`paragraph_open`, `bullet_list_open`…), or `code` for a piece of a fence;
    `source`: Markdown, for `code` the bare lines; `gap`: a blank row goes before it; `info`: the fence's info string;
    `context`: for `code` the lines before it in the same fence; for an item its number ("" for a bullet), or "+" when
    it goes on with the one before. `begins`, `ends`: for `code`, the fence begins or ends with this piece.

        Chunk("code", "x = 1\n", gap=True, info="python")
    """

    kind: str
    source: str
    gap: bool
    info: str = ""
    context: str = ""
    begins: bool = False
    ends: bool = False


class Fence:
    """Takes the lines after the opening one. `marker`: "```", "~~~~"; `indent`: the opening line's blanks."""

    def __init__(self, marker: str, info: str, indent: int, *, gap: bool) -> None:
        self._marker, self._info, self._indent, self._gap = marker, info, indent, gap
        self._code: list[str] = []
        self._chars = 0
        self._context: list[str] = []

    def closed_by(self, line: str) -> bool:
        """Does the line end it: as many marks or more, fewer than four blanks before them, nothing behind?"""
        if self._marker[0] not in line[:4]:
            return False
        text = line.rstrip()
        mark = text.lstrip(" ")
        return len(text) - len(mark) < 4 and len(mark) >= len(self._marker) and not mark.strip(self._marker[0])

    def take(self, line: str) -> list[Chunk]:
        """Take one more line; returns the piece before it if long enough: the last one always has a line."""
        full = len(self._code) >= CODE_LINES or self._chars >= BLOCK_CHARS
        pieces = self.rest(ends=False) if full else []
        self._code.append(self._bare(line))
        self._chars += len(line)
        return pieces

    def rest(self, *, ends: bool = True) -> list[Chunk]:
        """The rest as a piece, if there is any. `ends`: it is the last one."""
        if not self._code:
            return []
        begins = not self._context
        gap = self._gap and begins
        chunk = Chunk("code", "".join(self._code), gap, self._info, "".join(self._context), begins, ends)
        self._context = [*self._context, *self._code][-CONTEXT_LINES:]
        self._code, self._chars = [], 0
        return [chunk]

    def live(self, partial: str, max_rows: int) -> Chunk | None:
        """The last lines in no piece yet, without a possible part of the closing mark."""
        partial = partial if partial.strip(f" {self._marker[0]}") else ""
        lines = [*self._code, *([partial] if partial else [])]
        if not lines:
            return None
        shown = lines[-max_rows:]
        before = [*self._context, *lines[: -len(shown)]][-CODE_LINES:]
        begins = not before
        source = "".join(line[:LONG_LINE] for line in shown)
        return Chunk("code", source, self._gap and begins, self._info, "".join(before), begins)

    def _bare(self, line: str) -> str:
        """The line without the fence's indent; the rest of a tab becomes blanks."""
        at = column = 0
        while column < self._indent and line[at] in " \t":
            column += 4 - column % 4 if line[at] == "\t" else 1
            at += 1
        return " " * (column - self._indent) + line[at:]



class LongLines:
    """Text in pieces → complete lines, long ones broken: on the screen only, the original is stored and copied."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.column = 0  # how many characters it has

    @property
    def partial(self) -> str:
        """The unfinished line."""
        return "".join(self._pieces)

    def drop(self, characters: int) -> None:
        """Drop the beginning of the partial line; it is broken where it would have been."""
        self._pieces = [self.partial[max(0, characters) :]]

    def push(self, text: str, limit: Callable[[], int]) -> Iterator[str]:
        """Yields the lines completed by the text; `limit()` is asked for each: a line may begin or end a fence."""
        at = 0
        while at < len(text):
            longest = limit()
            end = text.find("\n", at, at + max(0, longest - self.column) + 1)
            stop = end + 1 if end >= 0 else self._break(text, at, longest)
            piece = text[at:stop]
            at, self.column = stop, self.column + len(piece)
            if self.column > longest and piece[-1] != "\n" and (piece[-1] == " " or self.column > longest + _FURTHER):
                piece = piece.removesuffix(" ") + "\n"
            self._pieces.append(piece)
            if piece.endswith("\n"):
                line = self.partial
                self._pieces, self.column = [], 0
                yield line

    def _break(self, text: str, at: int, limit: int) -> int:
        """The end of a piece of a line without an end: the limit, then the blank or line end after it."""
        if self.column < limit:
            return at + limit - self.column
        hard = at + max(1, limit + _FURTHER + 1 - self.column)
        found = [stop for stop in (text.find(" ", at, hard), text.find("\n", at, hard)) if stop >= 0]
        return min(found) + 1 if found else hard


def is_over(token: Token, *, blank_next: bool) -> bool:
    """Can nothing more be added to this last block?"""
    if token.type == "maths_block" and token.meta["closed"]:
        return True
    return token.type in _CLOSED_AT_ONCE or (token.type in _CLOSED_BY_BLANK and blank_next)


def is_text(token: Token, lines: int) -> bool:
    """Is it a paragraph, or one made a heading by its last line?"""
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
    """The line before which this block (or an item of it) is cut as too long; None: it is short enough.

    It isn't blank, and is the same however many lines follow.
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
    """The remaining lines, behind a repeated head of their table, or opening line of their fence."""
    if token.type == "table_open":
        return [*lines[start : start + 2], *lines[cap:]]
    for inner in tokens:
        if inner.type == "fence" and inner.map and start <= inner.map[0] < cap < inner.map[1]:
            return [lines[inner.map[0]], *lines[cap:]]
    return lines[cap:]


def as_item(rest: list[str], first: str) -> list[str]:
    """The lines as an item of their own, with the marker of `first`, the first line of their item."""
    marker = ITEM.match(first)
    if marker is None or rest[0] == first:
        return rest
    width = len(marker[1]) + (len(marker[2]) if marker[2] in (" ", "  ", "   ", "    ") else 1)
    inside = not rest[0][:width].strip()
    line = marker[1].ljust(width) + rest[0][width:] if inside else f"{marker[1]} {rest[0].lstrip()}"
    return [line, *rest[1:]]
