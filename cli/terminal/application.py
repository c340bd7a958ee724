"""prompt_toolkit's application, as the screen needs it."""

from __future__ import annotations

import time

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point

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
