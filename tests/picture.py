"""The README's picture: `python -m tests.picture` plays `ossia demo` on a pseudo-terminal and writes docs/picture.svg.

It shows the whole turn, as the terminal has it once the turn is over. Fonts are the reader's own: each run of letters
gets the width of its cells. The colours suit a light page and a dark one.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from html import escape, unescape
from itertools import groupby
from typing import Any

from ossia.cli.demo.demo import END
from ossia.cli.terminal.question import QUIET_S
from tests.support.command import ROOT
from tests.support.emulator import Emulator, Stream
from tests.support.looks import settled
from tests.support.pty import PtyChat

PAGE = ROOT / "docs" / "picture.svg"
_COLUMNS, _ROWS = 80, 30
_CELL_W, _CELL_H, _EDGE, _BAR = 8.4, 18, 16, 30
_GROUND, _INK = "#161b22", "#e6edf3"
_COLOURS = {
    "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff",
    "cyan": "#76e3ea", "brightblack": "#8b949e",
}  # fmt: skip
_DIM = "#8b949e"
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


class _Painted(Emulator):
    """An emulator that keeps what is dim, where pyte knows only what blinks."""

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        super().select_graphic_rendition(*attrs, **kwargs)
        for attr in attrs or (0,):
            if attr in (0, 2, 22):
                self.cursor.attrs = self.cursor.attrs._replace(blink=attr == 2)


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as home:
        rows = play({"HOME": home, **{f"XDG_{name}_HOME": home for name in ("CONFIG", "DATA", "CACHE", "STATE")}})
    PAGE.write_text(drawn(rows), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} rows, {PAGE.stat().st_size / 1000:.0f} kB")


def play(environ: Mapping[str, str], *, speed: float = 1) -> list[list[Any]]:
    """The rows of a demo whose question was answered with yes, up to the last one of the answer: pyte's cells."""
    with PtyChat("demo", "--speed", f"{speed:g}", columns=_COLUMNS, rows=_ROWS, environ=environ) as chat:
        chat.until(lambda: chat.title == "ossia: asks")
        while chat.title == "ossia: asks":
            time.sleep(2 * QUIET_S)  # what comes earlier answers nothing
            chat.press("y")
            chat.until(lambda: chat.title != "ossia: asks")
        chat.until(END[-1].split("  ")[0])
        chat.idle()
        screen = _Painted(_COLUMNS, _ROWS)
        Stream(screen).feed(chat.sent)
        chat.press("\x03")
        chat.wait()
    lines = [*screen.history, *(screen.buffer[y] for y in range(screen.lines))]
    rows = [[line[x] for x in range(_COLUMNS)] for line in lines]
    end = next(n for n, row in enumerate(rows) if _text(row).startswith(END[0][:20]))
    while not _text(rows[end - 1]):
        end -= 1
    return rows[:end]


def text_of(rows: list[list[Any]]) -> str:
    """The rows as text, without what differs each time."""
    return _settled([_text(row) for row in rows])


def text_in(svg: str) -> str:
    """The same, of a picture."""
    rows = re.findall(r"<text.*?>(.*?)</text>", svg)
    return _settled([unescape(re.sub(r"<.*?>", "", row)).rstrip() for row in rows])


def _settled(rows: list[str]) -> str:
    return re.sub(r"(?<= in )[\d.]+s$", "0.0s", settled(rows), flags=re.MULTILINE)


def drawn(rows: list[list[Any]]) -> str:
    """The picture of these rows, as SVG."""
    width, height = _COLUMNS * _CELL_W + 2 * _EDGE, _BAR + len(rows) * _CELL_H + _EDGE
    dots = "".join(f'<circle cx="{_EDGE + 6 + 20 * n}" cy="18" r="6" fill="#484f58"/>' for n in range(3))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'font-family="{_FONTS}" font-size="14" fill="{_INK}" xml:space="preserve">',
        "<title>A turn of ossia: it searches, patches a small project, runs the tests and answers</title>",
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{_GROUND}"/>{dots}',
        *(_row(row, _BAR + number * _CELL_H + 14) for number, row in enumerate(rows)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _row(row: list[Any], y: float) -> str:
    return f'<text y="{y:g}">{"".join(_runs(row[: len(_text(row))]))}</text>'


def _runs(row: list[Any]) -> Iterator[str]:
    """Letters of one look, at the place of their cells and as wide as those."""
    at = 0
    for style, cells in groupby(row, _style):
        text = "".join(cell.data for cell in cells)
        place = f'x="{_EDGE + at * _CELL_W:g}" textLength="{len(text) * _CELL_W:g}"'
        yield f"<tspan {place}{style}>{escape(text, quote=False)}</tspan>"
        at += len(text)


def _style(cell: Any) -> str:
    colour = _COLOURS.get(cell.fg, _DIM if cell.blink else "")
    looks = {"fill": colour, "font-weight": "bold" if cell.bold else "", "font-style": "italic" if cell.italics else ""}
    return "".join(f' {name}="{value}"' for name, value in looks.items() if value)


def _text(row: list[Any]) -> str:
    return "".join(cell.data for cell in row).rstrip()


if __name__ == "__main__":
    main()
