"""The chat's screen: the terminal's normal buffer. Finished rows are printed once, above one small application.

That application (open block, question, input, bottom line) lives for the whole chat; nothing above it is drawn again, so
the terminal's own scrolling, selection and copying work on it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.data_structures import Point
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import ColorDepth

from cli.terminal.editor import Editor
from cli.terminal.paint import Painter, Row
from cli.terminal.question import QuestionPane
from cli.terminal.vt import Output, terminal_output

FRAME_S = 1 / 12
_IDLE_FRAME_S = 0.5


class Panes(Protocol):
    """What the screen shows. Every method is called on the loop's thread and is quick."""

    def frame(self) -> list[Row]:
        """Take in what happened since the last frame; returns the rows that are finished now."""
        ...

    def live(self, max_rows: int) -> list[Row]:
        """The open block: what isn't final yet, `max_rows` rows at the most."""
        ...

    def activity(self) -> list[Row]:
        """The lines above the input: what is going on, what is queued."""
        ...

    def bottom(self) -> Row:
        """The line below the input."""
        ...

    @property
    def animated(self) -> bool:
        """Does something change by itself (seconds)? Then frames come although nothing happens."""
        ...


class _App(Application[None]):
    """prompt_toolkit's application, which finds its place again after the terminal has re-wrapped its rows."""

    def _on_resize(self) -> None:
        renderer, columns = self.renderer, self.output.get_size().columns
        screen, at = renderer.last_rendered_screen, renderer._cursor_pos
        if screen:
            widths = (
                max((x + 1 for x, c in screen.data_buffer[y].items() if c.char.strip()), default=1) for y in range(at.y)
            )
            rows = sum(-(-width // columns) for width in widths)
            renderer._cursor_pos = Point(x=at.x % columns, y=rows + at.x // columns)
        assert isinstance(self.output, Output)
        with self.output.one_write():
            super()._on_resize()


class Screen:
    """The screen. `keys` are the chat's own; `painter` draws with the terminal's width.

    screen = Screen(panes, editor, question, painter, keys=KeyBindings())
    await screen.run()                 # until screen.leave()
    """

    def __init__(
        self,
        panes: Panes,
        editor: Editor,
        question: QuestionPane,
        painter: Painter,
        *,
        keys: KeyBindings,
        colour: bool = True,
        vi: bool = False,
        input: Input | None = None,
        output: Output | None = None,
        frame_s: float = FRAME_S,
    ) -> None:
        self._panes, self.editor, self.question, self.painter = panes, editor, question, painter
        self.output = output or terminal_output()
        self._frame_s, self._frame_cost_s = frame_s, 0.0
        self._scheduled = False
        self._held: list[Row] = []
        self._away = False
        self._title = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.app: Application[None] = _App(
            layout=self._layout(),
            key_bindings=merge_key_bindings([editor.keys, question.keys, keys]),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            output=self.output,
            input=input,
            color_depth=ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )
        self.app.ttimeoutlen, self.app.timeoutlen = 0.05, 0.3  # Esc: 50 ms, not 500
        painter.width = self.columns

    @property
    def columns(self) -> int:
        return self.output.get_size().columns

    @property
    def settled(self) -> bool:
        """Is everything drawn that is known of? For tests."""
        return not (self._scheduled or self.app.invalidated)

    # -- from any thread -----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something happened: a frame comes soon. However often it is called, at most one is on its way."""
        if not self._scheduled and self._loop is not None:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._schedule)

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the screen until `leave`. SIGTERM and SIGHUP leave too, with the terminal as it was."""
        self._loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            with suppress(NotImplementedError, AttributeError):  # Windows
                self._loop.add_signal_handler(getattr(signal, name), self.leave)
        self._idle_frames()
        self.wake()
        await self.app.run_async()

    def leave(self) -> None:
        """End `run`."""
        if self.app.is_running:
            self.app.exit()

    def commit(self, rows: Sequence[Row]) -> None:
        """Print rows above the live part, once and for good. One write: erase the live part, print, draw it again."""
        if self._away or not self.app.is_running:
            self._held += rows
            return
        rows, self._held = [*self._held, *rows], []
        with self.output.one_write():
            self.app.renderer.erase(leave_alternate_screen=False)
            for row in rows:
                self.output.write_raw(self.painter.ansi(row) + "\r\n")
            self.app._redraw()

    def refresh(self) -> None:
        """Draw the live part again, which may have become smaller."""
        self.commit([])

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """The terminal is another's inside the block (a pager, an editor); what is committed then comes after it."""
        self._away = True
        try:
            async with in_terminal():
                yield
        finally:
            self._away = False
            self.commit([])

    def title(self, text: str) -> None:
        """Set the terminal's title, if it isn't that already."""
        if text != self._title:
            self._title = text
            self.output.set_title(text)
            self.output.flush()

    def bell(self) -> None:
        """Ring."""
        self.output.bell()
        self.output.flush()

    def _schedule(self) -> None:
        assert self._loop is not None
        self._loop.call_later(max(self._frame_s, 4 * self._frame_cost_s), self._frame)

    def _frame(self) -> None:
        begin = time.perf_counter()
        self._scheduled = False
        self.painter.width = self.columns
        rows = self._panes.frame()
        if rows or self._held:
            self.commit(rows)
        elif not self._away:
            self.app.invalidate()
        self._frame_cost_s = time.perf_counter() - begin  # a dear block lowers the frame rate, not the model's speed

    def _idle_frames(self) -> None:
        assert self._loop is not None
        if self._panes.animated:
            self.wake()
        self._loop.call_later(_IDLE_FRAME_S, self._idle_frames)

    # -- what is drawn -------------------------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        def window(rows: Callable[[], list[Row]], **options: Any) -> Window:
            return Window(FormattedTextControl(lambda: self._fragments(rows())), dont_extend_height=True, **options)

        live = ConditionalContainer(window(self._live), Condition(lambda: bool(self._live())))
        activity = ConditionalContainer(window(self._panes.activity), Condition(lambda: bool(self._panes.activity())))
        bottom = window(lambda: [self._panes.bottom()], height=1)
        parts: list[AnyContainer] = [live, self.question.container, activity, self.editor.container, bottom]
        return Layout(HSplit(parts), focused_element=self.editor.window)

    def _live(self) -> list[Row]:
        rows = self.output.get_size().rows
        taken = len(self._panes.activity()) + self.editor.height(rows) + self.question.height() + 2
        room = max(2, rows - taken)
        return self._panes.live(room)[-room:]

    def _fragments(self, rows: list[Row]) -> StyleAndTextTuples:
        return list(self.painter.fragments(rows))
