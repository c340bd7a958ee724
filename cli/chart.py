"""Charts: bars with intervals, as rows of text and as an SVG; parts of a whole on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ossia.cli.clean import clean, fitted, one_line

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_SIGNS: Final = ("█▓░│", "#=-|")
"""Up to the lower bound, from there to the value, up to the upper bound; the mark. Then the same in ASCII."""
_MOST_LABEL, _MOST_CELLS, _LEAST_CELLS = 30, 40, 8

_WIDTH, _EDGE, _ROW, _HEAD, _CHAR, _FIGURES = 720, 16, 26, 34, 7.6, 170  # of the SVG, in pixels
_STYLE: Final = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; } .title { font-weight: 600; }
.ground { fill: #fff; } .bar { fill: #8db4d9; }
path { stroke: #1f2328; stroke-width: 1.5; fill: none; } .mark { stroke-dasharray: 3 3; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .ground { fill: #161b22; } .bar { fill: #3d6a96; } path { stroke: #e6edf3; }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. `low`, `high`: the bounds of its interval, None: it has none. `note` is dropped without room."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars from 0 on. `interval` names their bounds.

    `most`: the value of a whole bar, None: the greatest one. `mark`: a value with a line at it.

        Chart("solved", "%", (Bar("chain", 70.0, 39.7, 89.2, "7 of 10"),), "95 % interval", most=100)
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    interval: str = ""
    most: float | None = None
    mark: float | None = None

    @property
    def whole(self) -> float:
        """The value of a whole bar, above 0."""
        values = [bar.value for bar in self.bars] + [bar.high for bar in self.bars if bar.high is not None]
        return self.most or max([*values, self.mark or 0]) or 1


def rows(chart: Chart, width: int, *, ascii: bool = False) -> list[str]:
    """The title, a row for each bar and one for the interval, in `width` columns; `ascii`: without block characters.

    chain  ████████▓▓▓▓▓▓▓░░░░   70.0 %  7 of 10
    """
    from rich.cells import cell_len, set_cell_size

    signs = _SIGNS[ascii]
    labels = [_label(one, width // 3) for one in chart.bars]
    figures = [_figure(chart, one.value) for one in chart.bars]
    left, right = max(map(cell_len, labels), default=0), max(map(len, figures), default=0)
    cells = max(_LEAST_CELLS, min(_MOST_CELLS, width - left - right - 4))
    found = [fitted(_text(chart.title), width)]
    for one, label, figure in zip(chart.bars, labels, figures, strict=True):
        line = f"{set_cell_size(label, left)}  {_cells(chart, one, cells, signs)}  {figure:>{right}}"
        noted = f"{line}  {_text(one.note)}" if one.note else line
        found.append(noted if cell_len(noted) <= width else fitted(line, width))
    return [*found, fitted(f"{'':<{left}}  {signs[1:3]} {chart.interval}", width)] if chart.interval else found


def bar(share: float, cells: int) -> str:
    """A bar over this share of `cells`: `bar(0.5, 8)` → `████`."""
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def stacked(parts: Iterable[tuple[str, float]], whole: float, cells: int) -> str:
    """The parts of a `whole`, each by its sign, one behind the other: `stacked([("r", 1), ("w", 2)], 4, 8)` → `rrwwww`.

    A part of less than half a cell may have none.
    """
    line, total = "", 0.0
    for sign, size in parts:
        total += max(size, 0)
        line += sign * (round(cells * min(total / (whole or 1), 1)) - len(line))
    return line


def draws_blocks(encoding: str | None) -> bool:
    """Has this encoding of an output the block characters?"""
    try:
        "".join((*_SIGNS, _EIGHTHS)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def svg(charts: Sequence[Chart]) -> str:
    """The charts, one below the other, as an SVG that loads nothing and has the reader's light or dark colours."""
    parts: list[str] = []
    top = _EDGE
    for chart in charts:
        top = _draw(parts, chart, top)
    name = _xml(", ".join(chart.title for chart in charts))
    box = f'viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{name}">\n<title>{name}</title>'
    ground = f'<rect class="ground" width="{_WIDTH}" height="{top}"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", ground, *parts, "</svg>\n"])


def _draw(parts: list[str], chart: Chart, top: int) -> int:
    """Add a chart's elements; returns where the next one begins."""
    title = f"{chart.title} (lines: {chart.interval})" if chart.interval else chart.title
    labels = [_label(one, _MOST_LABEL) for one in chart.bars]
    left = _EDGE + 20 + round(_CHAR * max(map(len, labels), default=0))
    scale = (_WIDTH - _EDGE - _FIGURES - left) / chart.whole
    parts.append(f'<text class="title" x="{_EDGE}" y="{top + 14}">{_xml(title)}</text>')
    begin = top = top + _HEAD
    for one, label in zip(chart.bars, labels, strict=True):
        middle, end = top + 10, left + scale * one.value
        parts.append(f'<text x="{_EDGE}" y="{top + 15}">{_xml(label)}</text>')
        parts.append(f'<rect class="bar" x="{left}" y="{top}" width="{end - left:.1f}" height="20"/>')
        if one.low is not None and one.high is not None:
            low, high = left + scale * one.low, left + scale * one.high
            parts.append(
                f'<path d="M{low:.1f} {middle - 5}v10m0 -5H{high:.1f}m0 -5v10M{end:.1f} {middle - 3}v6"/>'
            )
        figure = " · ".join(filter(None, [_figure(chart, one.value), one.note]))
        parts.append(f'<text x="{_WIDTH - _EDGE - _FIGURES + 12}" y="{top + 15}">{_xml(figure)}</text>')
        top += _ROW
    if chart.mark is not None:
        parts.append(f'<path class="mark" d="M{left + scale * chart.mark:.1f} {begin - 5}V{top}"/>')
    return top + _EDGE


def _cells(chart: Chart, one: Bar, cells: int, signs: str) -> str:
    def at(value: float) -> int:
        return round(min(max(value / chart.whole, 0.0), 1.0) * cells)

    if one.low is None or one.high is None:
        drawn = bar(one.value / chart.whole, cells) if signs == _SIGNS[0] else signs[0] * at(one.value)
    else:
        drawn = signs[0] * at(one.low) + signs[1] * (at(one.value) - at(one.low))
        drawn += signs[2] * (at(one.high) - at(one.value))
    drawn = drawn.ljust(cells)
    if chart.mark is None:
        return drawn
    place = min(at(chart.mark), cells - 1)
    return drawn[:place] + signs[3] + drawn[place + 1 :]


def _figure(chart: Chart, value: float) -> str:
    """`1.02`, `88.0 %`, `1,234 s`: all of a chart with the same number of decimals."""
    return f"{value:,.{2 if chart.whole < 10 else 1 if chart.whole < 1000 else 0}f} {chart.unit}".rstrip()


def _label(one: Bar, columns: int) -> str:
    return fitted(_text(one.label), min(columns, _MOST_LABEL))


def _text(text: str) -> str:
    return clean(one_line(text))


def _xml(text: str) -> str:
    from html import escape

    return escape(_text(text).translate({0xFFFE: None, 0xFFFF: None}))
