"""A table → lines that fit: columns as wide as they need, narrower, or one line a cell where there is no room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.style import Style

from ossia.cli.terminal.markdown._rows import PLAIN, Span, cells, style, wrapped

Cell = list[list[Span]]  # lines

_MIN_COLUMN = 8  # columns of text; a table with narrower ones is shown as records
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table:
    """Head and rows, each row as many cells as the head; `aligns`: "left", "right", "center" for each column."""

    head: list[Cell]
    rows: list[list[Cell]]
    aligns: list[str]


def table_lines(table: Table, width: int, *, colour: bool) -> list[list[Span]]:
    """The table in at most `width` columns, as far as its words allow.

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
    """The lines of a cell: `<br>` breaks one, which is the only way to do so in a table."""
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
    """The widths when the widest columns are narrowed, down to the minimum. None: there is no room for a table."""
    if room < sum(min(one, _MIN_COLUMN) for one in natural):
        return None
    low, high = min(_MIN_COLUMN, max(natural)), max(natural)
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
