"""Blocks of Markdown → lines of spans.

Code is neither wrapped nor indented, wherever it stands, so that a copied line is exactly that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

from ossia.cli.clean import clean_parts
from ossia.cli.terminal.markdown._chunk import start_of
from ossia.cli.terminal.markdown._code import code_lines, fenced
from ossia.cli.terminal.markdown._inline import Look, inline_lines
from ossia.cli.terminal.markdown._markdown import MAX_NESTING, parser
from ossia.cli.terminal.markdown._rows import PLAIN, TAB, Span, cells, style, wrapped

if TYPE_CHECKING:
    from markdown_it.token import Token

_RULE_COLUMNS = 40
_MIN_COLUMNS = 10  # for text, however deep it stands
_HEADINGS = {"h1": "bold underline", "h2": "bold", "h3": "bold italic"}

Cell = list[list[Span]]  # lines
_MIN_CELL = 8  # columns of text; a table with narrower ones is shown as records
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of spans; `verbatim`: a line of code, never prefixed."""

    spans: list[Span]
    verbatim: bool = False


def block_lines(source: str, width: int, look: Look, *, item: str = "") -> list[list[Span]]:
    """The lines of one or more blocks. `item`: the number of the first item; "+": a rest, without a marker."""
    tokens = parser().parse(source)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        raise ValueError(f"more than {MAX_NESTING // 2} levels: the parser left something out")
    return [line.spans for line in _Blocks(tokens, look, item).lines("", width)]


class _Blocks:
    """One walk over the tokens."""

    def __init__(self, tokens: list[Token], look: Look, item: str) -> None:
        self._tokens = tokens
        self._at = 0
        self._look = look
        self._item = item

    def lines(self, close: str, width: int, *, spaced: bool = True) -> list[Line]:
        """The blocks up to the token `close`, an empty line between them if `spaced`."""
        lines: list[Line] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == close:
                break
            block = self._block(token, max(width, _MIN_COLUMNS))
            if lines and block and spaced:
                lines.append(Line([]))
            lines += block
        return lines

    def _block(self, token: Token, width: int) -> list[Line]:
        match token.type:
            case "paragraph_open":
                return self._text(width)
            case "heading_open":
                return self._heading(token, width)
            case "fence" | "code_block":
                return self._code(token)
            case "maths_block":
                text = clean_parts(token.content).removesuffix("\n").expandtabs(TAB)
                return [Line([(line, PLAIN)], verbatim=True) for line in text.split("\n")]
            case "blockquote_open":
                lines = self.lines("blockquote_close", width - 2)
                return _prefixed(lines, "│ ", "│ ", self._faint(), other_look=self._faint())
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, width)
            case "hr":
                return [Line([("─" * min(_RULE_COLUMNS, width), self._faint())])]
            case "table_open":
                return [Line(line) for line in table_lines(self._table(), width, colour=self._look.colour)]
        return [Line([(clean_parts(token.content), PLAIN)])] if token.content else []

    def _text(self, width: int, words: str = "") -> list[Line]:
        """Take the next inline token, and the token that closes its block."""
        inline = self._tokens[self._at]
        self._at += 2
        base = style(words) if self._look.colour else PLAIN
        lines = inline_lines(inline.children or (), self._look, base)
        return [Line(row) for line in lines for row in wrapped(line, width)]

    def _heading(self, token: Token, width: int) -> list[Line]:
        lines = self._text(width, _HEADINGS.get(token.tag, "italic"))
        if self._look.colour:
            return lines
        hashes = "#" * int(token.tag[1:]) + " "
        return _prefixed(lines, hashes, "", PLAIN)

    def _code(self, token: Token) -> list[Line]:
        source = clean_parts(token.content)
        lines = code_lines(source, clean_parts(token.info), colour=self._look.colour)
        shown = lines if self._look.colour else fenced(lines, clean_parts(token.info))
        return [Line(line, verbatim=True) for line in shown]

    def _list(self, token: Token, width: int) -> list[Line]:
        number = start_of(token) if token.type == "ordered_list_open" else None
        given, self._item = self._item, ""
        if given.isdecimal() and number is not None:
            number = int(given)
        loose, bold = self._loose(), style("bold") if self._look.colour else PLAIN
        lines: list[Line] = []
        for _ in self._items():
            marker = "• " if number is None else f"{number}{token.markup} "
            item = self.lines("list_item_close", width - len(marker), spaced=loose)
            first = " " * len(marker) if given == "+" else marker
            lines += [Line([])] if lines and loose else []
            lines += _prefixed(item or [Line([])], first, " " * len(marker), bold)
            number, given = None if number is None else number + 1, ""
        return lines

    def _items(self) -> Iterator[None]:
        """Yields once for each item, whose contents the caller takes, up to the list's end."""
        while self._at < len(self._tokens):
            self._at += 1
            if self._tokens[self._at - 1].type != "list_item_open":
                return
            yield

    def _loose(self) -> bool:
        """Is the list loose: do its paragraphs stand apart?"""
        level = self._tokens[self._at - 1].level
        for token in self._tokens[self._at :]:
            if token.level <= level:
                return False
            if token.type == "paragraph_open" and token.level == level + 2:
                return not token.hidden
        return False

    def _table(self) -> Table:
        head: list[list[list[Span]]] = []
        rows: list[list[list[list[Span]]]] = []
        aligns: list[str] = []
        while (token := self._tokens[self._at]).type != "table_close":
            self._at += 1
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                bold = style("bold") if token.type == "th_open" and self._look.colour else PLAIN
                inline = self._tokens[self._at]
                cell = cell_of(inline_lines(inline.children or (), self._look, bold))
                rows[-1].append(cell)
                if token.type == "th_open":
                    aligns.append(str(token.attrGet("style") or "").removeprefix("text-align:"))
        self._at += 1
        head, *rows = rows
        return Table(head, rows, aligns)

    def _faint(self) -> Style:
        return style("dim") if self._look.colour else PLAIN


def _prefixed(lines: list[Line], first: str, other: str, look: Style, *, other_look: Style = PLAIN) -> list[Line]:
    """The lines behind the marker of an item or a quote; before code it stands on a line of its own."""
    done: list[Line] = []
    if lines and lines[0].verbatim and first.strip() and first != other:
        done.append(Line([(first, look)]))
    prefix = (first, look)
    for line in lines:
        done.append(line if line.verbatim else Line([prefix, *line.spans]))
        prefix = (other, other_look)
    return done


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Head and rows, each row as many cells as the head; `aligns`: "left", "right", "center" for each column."""

    head: list[Cell]
    rows: list[list[Cell]]
    aligns: list[str]


def table_lines(table: Table, width: int, *, colour: bool) -> list[list[Span]]:
    """The table in at most `width` columns, if possible.

    name   │ value
    ───────┼──────
    Straße │    12
    """
    natural = [max(map(_cell_width, column)) for column in zip(table.head, *table.rows, strict=True)]
    room = width - 3 * (len(natural) - 1)
    widths = natural if sum(natural) <= room else _narrowed(natural, room)
    if widths is None:
        return _records(table, width)
    rule = "─┼─".join("─" * one for one in widths)
    faint = style("dim") if colour else PLAIN
    lines = [*_row(table.head, widths, table.aligns, faint), [(rule, faint)]]
    for number, one in enumerate(table.rows):
        lines += [[(rule, faint)]] if widths is not natural and number else []
        lines += _row(one, widths, table.aligns, faint)
    return lines


def cell_of(lines: list[list[Span]]) -> Cell:
    """The lines of a cell: `<br>` breaks one."""
    done: Cell = [[]]
    for number, line in enumerate(lines):
        if number:
            done.append([])
        for text, look in line:
            first, *more = _BREAK.split(text)
            done[-1].append((first, look))
            done += [[(part, look)] for part in more]
    return done


def _cell_width(cell: Cell) -> int:
    return max(1, *map(cells, cell))


def _narrowed(natural: list[int], room: int) -> list[int] | None:
    """The widths with the widest columns narrowed, down to the minimum; None: no room for a table."""
    if room < sum(min(one, _MIN_CELL) for one in natural):
        return None
    low, high = min(_MIN_CELL, max(natural)), max(natural)
    while low < high:  # the highest limit with which all fit
        limit = (low + high + 1) // 2
        low, high = (limit, high) if sum(min(one, limit) for one in natural) <= room else (low, limit - 1)
    return [min(one, low) for one in natural]


def _row(row: Sequence[Cell], widths: list[int], aligns: list[str], faint: Style) -> list[list[Span]]:
    columns = [
        [part for line in cell for part in wrapped(line, width, fold=True, measure=cell_len)]
        for cell, width in zip(row, widths, strict=True)
    ]
    lines = []
    for parts in zip_longest(*columns, fillvalue=list[Span]()):
        line: list[Span] = []
        for number, (part, width, align) in enumerate(zip(parts, widths, aligns, strict=True)):
            if number:
                line.append((" │ ", faint))
            line += _aligned(part, width, align)
        lines.append(line)
    return lines


def _aligned(part: list[Span], width: int, align: str) -> list[Span]:
    blanks = max(0, width - cells(part))
    before = {"right": blanks, "center": blanks // 2}.get(align, 0)
    return [(" " * before, PLAIN), *part, (" " * (blanks - before), PLAIN)]


def _records(table: Table, width: int) -> list[list[Span]]:
    """Each row as `head: cell` lines, an empty line between rows."""
    lines: list[list[Span]] = []
    for number, row in enumerate(table.rows or [[]]):
        if number:
            lines.append([])
        for column, head in enumerate(table.head):
            cell = row[column] if row else []
            spans = [span for line in head for span in line]
            first, *more = cell or [[]]
            lines += wrapped([*spans, (": " if cell else "", PLAIN), *first], width)
            lines += [part for line in more for part in wrapped(line, width)]
    return lines
