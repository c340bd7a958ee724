"""The answer on a terminal, drawn from its Markdown as the chat draws it, while it comes."""

from __future__ import annotations

import os
import time

from rich.segment import Segment

from ossia.cli.clean import clean_flat, clean_parts
from ossia.cli.streams import stdout
from ossia.cli.terminal.frames import BEGIN, END, erase_down, next_frame_at
from ossia.cli.terminal.links import knows_links
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter


class Drawn:
    """Prints finished rows, and below them the open block, which is drawn again as it grows.

    The cursor waits before the first row of the open block: after a resize all of that lies behind it, whether the
    terminal wraps its rows anew or not. On a terminal that can't move its cursor (`TERM=dumb`) rows are only printed,
    as they are without `live`.

        drawn = Drawn()
        drawn.write("Some **te"); drawn.write("xt**"); drawn.end()
    """

    def __init__(self, *, live: bool = True) -> None:
        self._next_at = 0.0
        self._grown = False  # since it was drawn
        smart = os.environ.get("TERM") != "dumb"
        self._moves = live and smart
        colour = smart and not os.environ.get("NO_COLOR")
        self._painter = Painter(80, colour=colour, links=knows_links(os.environ))
        self._segments = Segmenter()
        self._rows: list[Row] = []  # finished, not printed yet
        self._open: list[str] = []  # the rows of the open block as they stand on the terminal
        self._height = 24

    def write(self, text: str) -> None:
        """Take more of the answer; it is drawn with the next frame."""
        self._measure()
        self._paint(self._segments.feed(clean_parts(text)))
        self._grown = True
        self.tick()

    def tick(self) -> None:
        """Draw, if a frame is due."""
        began = time.monotonic()
        if not self._grown or began < self._next_at:
            return
        worked, self._grown = time.thread_time(), False
        self._measure()
        draw = self._painter.chunk
        settled = self._segments.settle(lambda source: draw(Chunk("paragraph_open", source, gap=False)))
        self._paint([settled] if settled else [])
        most = (self._height - 1) // 2  # twice as many fit: a narrower terminal may make two of each
        live = self._segments.live(most) if self._moves and most else None
        self._show([self._cut(row) for row in draw(live)[-most:]] if live else [])
        self._next_at = next_frame_at(began, time.monotonic(), time.thread_time() - worked)

    def pause(self) -> None:
        """Take the open block off the terminal, for something else; it comes back with more of the answer."""
        self._grown = False
        self._show([])

    def end(self) -> None:
        """The answer is over: all of it is finished."""
        self._measure()
        self._paint(self._segments.finish())
        self._show([])

    def _measure(self) -> None:
        try:
            size = os.get_terminal_size(stdout().fileno())
        except (OSError, ValueError):
            return
        self._painter.width, self._height = size.columns or 80, size.lines or 24

    def _paint(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._rows += self._painter.chunk(chunk)

    def _cut(self, row: Row) -> str:
        """A row, never wrapped by a terminal: the last column stays free, clusters take the same columns everywhere."""
        flat = [Segment(clean_flat(part.text), part.style) for part in row]
        return self._painter.ansi(Segment.adjust_line_length(flat, self._painter.width - 1, pad=False))

    def _show(self, open_rows: list[str]) -> None:
        """Print the finished rows and the open ones in one write."""
        if not self._rows and open_rows == self._open:
            return
        printed = "".join(f"{self._painter.ansi(row)}\n" for row in self._rows)
        if self._open or open_rows:
            erase = erase_down(self._height) if self._open else ""
            up = f"\x1b[{len(open_rows) - 1}A" if len(open_rows) > 1 else ""
            back = f"{up}\r" if open_rows else ""
            printed = f"{BEGIN}\r{erase}{printed}{chr(10).join(open_rows)}{back}{END}"
        self._open, self._rows = open_rows, []  # first: a Ctrl-C while it is written must not print it twice
        stdout().write(printed)
        stdout().flush()
