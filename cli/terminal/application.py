"""prompt_toolkit's application, as the screen needs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition

from ossia.cli.terminal.vt import Output


class App(Application[None]):
    """prompt_toolkit's application: each redraw is one write, and it finds its place again after a resize."""

    _drawn_at = float("-inf")

    def _redraw(self, render_as_done: bool = False) -> None:
        assert isinstance(self.output, Output)
        with self.output.one_write():
            if not self._running_in_terminal:
                self.notice_size()
                if self.renderer.last_rendered_screen is None:
                    self._drawn_at = time.monotonic()
            super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        assert isinstance(self.output, Output)
        with self.output.one_write():
            self.notice_size()
            super()._on_resize()

    def notice_size(self) -> None:
        """To be called before anything is drawn or erased: the terminal's size may have changed since the last drawing.

        Many terminals then wrap our rows anew, and the cursor is further below the first of them than we left it. The
        signal that tells of the change comes later; tmux keeps it back for a quarter of a second. Rows drawn meanwhile
        were cut at the edge and not wrapped: counting them as two would erase finished rows.
        """
        assert isinstance(self.output, Output)
        renderer, size = self.renderer, self.output.get_size()
        screen, at = renderer.last_rendered_screen, renderer._cursor_pos
        if screen is None or renderer._last_size in (None, size):
            return
        if self.output.rewraps and time.monotonic() - self._drawn_at > self.output.resize_delay_s:
            above = 0
            for y in range(at.y):
                cells = (x + max(1, char.width) for x, char in screen.data_buffer[y].items() if char.char.strip())
                above += -(-max(cells, default=1) // size.columns)
            renderer._cursor_pos = Point(x=at.x % size.columns, y=above + at.x // size.columns)


class Parkable(HSplit):
    """The parts, one below the other. While `parks()`, the cursor waits, hidden, in front of the first of them.

    Whatever a resize makes of our rows, all of them then lie below the cursor, also in a terminal that tells us late.
    `window` has the cursor otherwise; a reversed cell stands in for it there.
    """

    def __init__(self, parts: Sequence[AnyContainer], window: Window, parks: Callable[[], bool]) -> None:
        super().__init__(parts)
        self._window, self._parks = window, parks

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        """Draw the parts into `screen`."""
        super().write_to_screen(screen, mouse_handlers, write_position, parent_style, erase_bg, z_index)
        if self._parks():
            at = screen.get_cursor_position(self._window)
            cell = screen.data_buffer[at.y][at.x]
            screen.data_buffer[at.y][at.x] = Char(cell.char, f"{cell.style} reverse")
            screen.set_cursor_position(self._window, Point(x=0, y=0))
            screen.show_cursor = False
