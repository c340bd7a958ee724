"""The chat's screen: the terminal's normal buffer. Finished rows are printed once, above one small application.

That application (open block, question, input, bottom line) lives for the whole chat; nothing above it is drawn again,
so the terminal's own scrolling, selection and copying work on it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings
from prompt_toolkit.layout import AnyContainer, ConditionalContainer, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.output import ColorDepth
from rich.segment import Segment

from ossia.cli.clean import clean, one_line
from ossia.cli.terminal.first_paint import replace
from ossia.cli.terminal.frames import FRAME_S, next_frame_at
from ossia.cli.terminal.input.editor import Editor
from ossia.cli.terminal.input.keys import key_parser, take_early_lines
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.pictures import Drawn
from ossia.cli.terminal.question import QuestionPane
from ossia.cli.terminal.screen_base import Panes, ScreenBase
from ossia.cli.terminal.vt import App, Output, Parkable, terminal_output

_IDLE_FRAME_S = 0.5
_LAST_ROWS = 1000  # of the open block when the screen is left
_FAULT_CHARS = 200
_TITLE_CHARS = 100
_T = TypeVar("_T")


class Screen(ScreenBase):
    """The screen. `keys` are the chat's own; `painter` draws with the terminal's width.

        screen = Screen(panes, editor, question, painter, keys=KeyBindings())
        await screen.run()                 # until screen.leave()
        screen.interrupted                 # a signal ended it, or the terminal was closed

    A fault in a drawing becomes a row, and the chat goes on; `drawing_fault` is the first one. `frame_s`: the least
    time between two frames; 0, for tests: a frame for each event, without a pause.
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
        super().__init__(panes, painter)
        self.editor, self.question = editor, question
        self.output = output or terminal_output()
        self.drawing_fault: Exception | None = None
        self._frame_s, self._next_frame_at = frame_s, 0.0
        self._held: list[Row] = []
        self._guest: asyncio.Task[Any] | None = None
        # The rows of one redraw, made once: the layout asks for them several times.
        self._live, self._activity, self._bottom = list[Row](), list[Row](), list[Row]()
        self._title = ""
        self.app = App(
            layout=self._layout(),
            key_bindings=merge_key_bindings([editor.keys, question.keys, keys]),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            output=self.output,
            input=input,
            color_depth=ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )
        if parser := key_parser(self.app.input):
            parser.reply = self.output.see_reply
        self.app.ttimeoutlen, self.app.timeoutlen = 0.05, 0.3  # Esc: 50 ms, not 500
        self.app.before_render += lambda app: self._prepare()
        self.app.after_render += self._first_drawn
        self.app.key_processor.before_key_press += lambda processor: question.saw_key()
        painter.width = self.output.get_size().columns

    @property
    def settled(self) -> bool:
        """Is everything drawn? For tests."""
        return not (self._scheduled or self.app.invalidated)

    @property
    def away(self) -> bool:
        """Does another program have the terminal (a pager, an editor, the shell after Ctrl-Z)?"""
        return self._guest is not None or self.app._running_in_terminal

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the screen until `leave`, SIGTERM, SIGHUP or the terminal's end; then print what is still open.

        Raises what a callback on the loop raised, once the terminal is restored.
        """
        async with self._on_loop({}):
            replace()
            self.output.push_title()
            self.output.take_keys()
            self._idle_frames()
            self.wake()
            try:
                await self.app.run_async(set_exception_handler=False)
            except EOFError:
                self.interrupted = True

    def leave(self) -> None:
        """End `run`, whoever has the terminal."""
        if self._guest is not None:
            self._guest.cancel()
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    def commit(self, rows: Sequence[Row]) -> None:
        """Print rows above the live part, once. One write: erase the live part, print, draw it again."""
        self._held += rows
        if self.away or not self.app.is_running:
            return
        with self.output.one_write():
            self.app.notice_size()
            self.app.renderer.erase(leave_alternate_screen=False)
            self._print_held()
            self.app._redraw()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Leave the terminal to a pager or an editor inside the block; rows committed meanwhile come after it.

        Keys that came together with a pager's last one are the chat's. `leave` cancels the task inside.
        """
        self._guest = asyncio.current_task()
        try:
            async with in_terminal():
                self.output.give_keys_back()
                self.output.flush()
                try:
                    yield
                finally:
                    self.output.take_keys()
        finally:
            self._guest = None
            self.question.covered()
            self.commit([])
            self.app.key_processor.feed_multiple(get_typeahead(self.app.input))
            self.app.key_processor.process_keys()

    async def suspend(self) -> None:
        """Suspend the process, as Ctrl-Z does, until `fg`. Does nothing on a system without SIGTSTP."""
        if hasattr(signal, "SIGTSTP"):
            async with self.aside():
                os.kill(0, signal.SIGTSTP)  # the whole group, so that a pipeline or a wrapper stops with us

    def title(self, text: str) -> None:
        """Set the terminal's title."""
        text = clean(one_line(text, _TITLE_CHARS))
        if text != self._title:
            self._title = text
            self.output.set_title(text)
            self.output.flush()

    def bell(self) -> None:
        """Ring."""
        self.output.bell()
        self.output.flush()

    # -- the life of it ------------------------------------------------------------------------------------------------

    def _last_words(self) -> None:
        """Print the rows held back, and the open block, once the application is off the screen."""
        with suppress(Exception):  # a fault here would hide the one that ended the chat
            self._held += [*self._panes.frame(), *self._panes.live(_LAST_ROWS), *self._panes.farewell()]
        with self.output.one_write():
            self.output.give_keys_back()
            self._print_held()
            self.output.pop_title()

    def _schedule(self) -> None:
        if self._loop is not None:
            self._loop.call_at(self._next_frame_at, self._frame)

    def _frame(self) -> None:
        self._scheduled = False
        if self._loop is None:
            return
        begin, worked = self._loop.time(), time.thread_time()
        with self.output.one_write():
            rows = self._panes.frame()
            if rows or self._held:
                self.commit(rows)
            else:
                self.app._redraw()
        if not self._frame_s:
            return
        computed_s = time.thread_time() - worked
        self._next_frame_at = next_frame_at(begin, self._loop.time(), computed_s, self._frame_s)

    def _idle_frames(self) -> None:
        if self._loop is None:
            return
        if self.output.gone:
            self._interrupted()
        if self._panes.animated:
            self.wake()
        self._loop.call_later(_IDLE_FRAME_S, self._idle_frames)

    def _first_drawn(self, app: Application[Any]) -> None:
        """Read the keys typed before the terminal became raw."""
        app.after_render -= self._first_drawn
        take_early_lines(app.input)

    # -- drawing -------------------------------------------------------------------------------------------------------

    def _print_held(self) -> None:
        rows, self._held = self._held, []
        for row in rows:
            self.output.write_raw(self._ansi(row) + "\r\n")

    def _prepare(self) -> None:
        """Before each redraw, see how much of everything fits; blank rows stay below."""
        size = self.output.get_size()
        self.painter.width = size.columns
        spare = 1 if size.rows > 6 else 0
        room = size.rows - spare - self.question.height() - self.editor.height(size.rows)
        self._bottom = self._safely(lambda: [self._panes.bottom()], _hidden)
        room -= len(self._bottom)
        activity = self._safely(self._panes.activity, _hidden)
        self._activity = activity[max(0, len(activity) - room) :] if room > 0 else []
        room -= len(self._activity)
        # Twice as many rows must fit: those that narrowing pushes into the scrollback would stand there twice.
        room = room // 2 if self.output.rewraps else room
        self._live = self._safely(lambda: self._panes.live(room), _hidden)[-room:] if room > 0 else []

    def _layout(self) -> Layout:
        live, activity = self._window(lambda: self._live), self._window(lambda: self._activity)
        bottom = self._window(lambda: self._bottom)
        parts = [live, self.question.container, activity, self.editor.container, bottom]
        return Layout(Parkable(parts, self.editor.window, self._parks), focused_element=self.editor.window)

    def _parks(self) -> bool:
        """Do rows change by themselves, while nobody types or answers?"""
        return self._panes.animated and not self.editor.typing and not self.question.height()

    def _window(self, rows: Callable[[], list[Row]]) -> AnyContainer:
        def height() -> Dimension:
            return Dimension(preferred=len(rows()), max=len(rows()))

        control = FormattedTextControl(lambda: self._fragments(rows()))
        return ConditionalContainer(Window(control, height=height), Condition(lambda: bool(rows())))

    def _ansi(self, row: Row) -> str:
        if isinstance(row, Drawn):
            return row.escapes
        return self._safely(lambda: self.painter.ansi(row), lambda: _text(row))

    def _fragments(self, rows: list[Row]) -> StyleAndTextTuples:
        return self._safely(
            lambda: list(self.painter.fragments(rows)), lambda: [("", "\n".join(_text(row) for row in rows))]
        )

    def _safely(self, draw: Callable[[], _T], plain: Callable[[], _T]) -> _T:
        """`draw()`; after a fault `plain()`, and the first fault is reported in a row."""
        try:
            return draw()
        except Exception as error:
            if self.drawing_fault is None:
                self.drawing_fault = error
                fault = one_line(f"a part can't be shown ({type(error).__name__}: {error}): /copy copies it")
                self._held.append([Segment(clean(fault)[:_FAULT_CHARS])])
                self.wake()
            return plain()


def _text(row: Row) -> str:
    return clean("".join(segment.text for segment in row))


def _hidden() -> list[Row]:
    return [[Segment("…")]]
