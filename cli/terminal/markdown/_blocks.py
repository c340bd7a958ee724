"""Blocks of Markdown → lines of spans.

Code is neither wrapped nor indented, wherever it stands, so that a copied line is exactly that line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style

from ossia.cli.clean import clean_parts
from ossia.cli.terminal.markdown._inline import Look, inline_lines
from ossia.cli.terminal.markdown._markdown import MAX_NESTING, parser
from ossia.cli.terminal.markdown._rows import PLAIN, TAB, Span, cells, wrapped
from ossia.cli.terminal.markdown.code import code_lines, edged
from ossia.cli.terminal.markdown.latex import readable

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

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
    from markdown_it.tree import SyntaxTreeNode

    tokens = parser().parse(source)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        raise ValueError(f"more than {MAX_NESTING // 2} levels: the parser left something out")
    return [line.spans for line in _Blocks(look, item).lines(SyntaxTreeNode(tokens), width)]


class _Blocks:
    """One walk over the tree of blocks."""

    def __init__(self, look: Look, item: str) -> None:
        self._look = look
        self._item = item
        self._faint = look.style("dim")

    def lines(self, parent: SyntaxTreeNode, width: int, *, spaced: bool = True) -> list[Line]:
        """The blocks in `parent`, an empty line between them if `spaced`."""
        lines: list[Line] = []
        for node in parent.children:
            block = self._block(node, max(width, _MIN_COLUMNS))
            if lines and block and spaced:
                lines.append(Line([]))
            lines += block
        return lines

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        match node.type:
            case "paragraph":
                return self._text(node, width)
            case "heading":
                return self._heading(node, width)
            case "fence" | "code_block":
                return self._code(node, width)
            case "maths_block":
                return _maths(node.content, width)
            case "blockquote":
                lines = self.lines(node, width - 2)
                return _prefixed(lines, "│ ", "│ ", self._faint, other_look=self._faint)
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "hr":
                return [Line([("─" * min(_RULE_COLUMNS, width), self._faint)])]
            case "table":
                return [Line(line) for line in table_lines(self._table(node), width, self._faint)]
        return [Line([(clean_parts(node.content), PLAIN)])] if node.token and node.content else []

    def _inline(self, node: SyntaxTreeNode, words: str = "") -> list[list[Span]]:
        """The lines of a paragraph, a heading or a cell; `words`: its style."""
        (inline,) = node.children
        assert inline.token is not None
        return inline_lines(inline.token.children or (), self._look, self._look.style(words))

    def _text(self, node: SyntaxTreeNode, width: int, words: str = "") -> list[Line]:
        return [Line(row) for line in self._inline(node, words) for row in wrapped(line, width)]

    def _heading(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        lines = self._text(node, width, _HEADINGS.get(node.tag, "italic"))
        return lines if self._look.colour else _prefixed(lines, "#" * int(node.tag[1:]) + " ", "", PLAIN)

    def _code(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        info = clean_parts(node.info)
        lines = code_lines(clean_parts(node.content).expandtabs(TAB), info, colour=self._look.colour)
        return [Line(line, verbatim=True) for line in edged(lines, info, width, self._faint)]

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        given, self._item = self._item, ""
        if given.isdecimal() and number is not None:
            number = int(given)
        inside = (block for item in node.children for block in item.children if block.type == "paragraph")
        loose = any(not block.hidden for block in islice(inside, 1))
        lines: list[Line] = []
        for item in node.children:
            marker = "• " if number is None else f"{number}{node.markup} "
            shown = self.lines(item, width - len(marker), spaced=loose)
            first = " " * len(marker) if given == "+" else marker
            lines += [Line([])] if lines and loose else []
            lines += _prefixed(shown or [Line([])], first, " " * len(marker), self._look.style("bold"))
            number, given = None if number is None else number + 1, ""
        return lines

    def _table(self, node: SyntaxTreeNode) -> Table:
        head, *rows = (row for part in node.children for row in part.children)
        aligns = [str(cell.attrs.get("style") or "").removeprefix("text-align:") for cell in head.children]
        return Table(
            [cell_of(self._inline(cell, "bold")) for cell in head.children],
            [[cell_of(self._inline(cell)) for cell in row.children] for row in rows],
            aligns,
        )


def _maths(source: str, width: int) -> list[Line]:
    """A formula in lines of its own; left as typed, it is never broken."""
    text = readable(source)
    lines = [(line, PLAIN) for line in clean_parts(text).removesuffix("\n").expandtabs(TAB).split("\n")]
    if text == source:
        return [Line([line], verbatim=True) for line in lines]
    return [Line(row) for line in lines for row in wrapped([line], width)]


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


def table_lines(table: Table, width: int, faint: Style) -> list[list[Span]]:
    """The table in at most `width` columns, if possible.

    name   │ value
    ───────┼──────
    Straße │    12
    """
    columns = zip(table.head, *table.rows, strict=True)
    natural = [max(1, *(cells(line) for cell in column for line in cell)) for column in columns]
    room = width - 3 * (len(natural) - 1)
    widths = natural if sum(natural) <= room else _narrowed(natural, room)
    if widths is None:
        return _records(table, width)
    rule = "─┼─".join("─" * one for one in widths)
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
