"""Writing to the terminal: each flush and each redraw is one write(2), shown as one frame."""

from __future__ import annotations

import base64
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.screen import Char, Screen
from prompt_toolkit.output.vt100 import Vt100_Output

from ossia.cli import streams
from ossia.cli.terminal.frames import BEGIN, END, erase_down
from ossia.cli.terminal.keyboard import KEYS_BACK, PLAIN_KEYS, has_modes
from ossia.cli.terminal.notify import FOCUS, FOCUS_REPORTS, NO_FOCUS_REPORTS, notification

_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_REWRAPPING = ("VTE_VERSION", "TERM_PROGRAM", "KONSOLE_VERSION", "WT_SESSION")
"""Variables of rewrapping terminals (see `rewraps`), even with the plain TERM `xterm`."""
_TMUX_DELAY_S = 0.3
"""Of several changes, tmux 3.3 reports the first immediately, the others at most 0.25 s later."""
_GONE = frozenset({errno.EIO, errno.EPIPE, errno.ENXIO, errno.EBADF})


class Output(Vt100_Output):
    """prompt_toolkit's output with frames. `one_write` joins whatever is flushed inside it into one write.

    `rewraps`: see `rewraps`; `resize_delay_s`: how late the terminal may report a change of its size.
    """

    def __init__(
        self,
        stdout: TextIO,
        get_size: Callable[[], Size],
        *,
        term: str | None = None,
        rewraps: bool = False,
        resize_delay_s: float = 0.0,
    ) -> None:
        # No cursor position requests: on a slow line their answers arrive as typed garbage; nothing here needs them.
        super().__init__(stdout, get_size, term=term, enable_cpr=False)
        self.rewraps, self.resize_delay_s = rewraps, resize_delay_s
        self._held = 0
        self._gone = self._takes_keys = False
        self._focused = True  # until the terminal reports something else

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """Hold back every flush inside the block, and flush once at its end."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self.flush()

    def erase_down(self) -> None:
        """Erase from the cursor to the end of the screen."""
        self.write_raw(erase_down(self.get_size().rows))

    def flush(self) -> None:
        """Write the buffer as one frame, unless `one_write` holds it back. Once the terminal is `gone`, drop it."""
        if self._held or not self._buffer:
            return
        if self._gone:
            self._buffer = []
            return
        self._buffer = [BEGIN, *self._buffer, END]
        try:
            super().flush()
        except OSError as error:
            if error.errno not in _GONE:
                raise
            self._gone = True

    @property
    def gone(self) -> bool:
        """Was the terminal closed?"""
        if not self._gone:
            try:
                os.get_terminal_size(self.fileno())
            except OSError as error:  # UnsupportedOperation, where there is no descriptor, has no errno
                self._gone = error.errno in _GONE
        return self._gone

    def copy(self, text: str) -> None:
        """Ask the terminal to put the text on its clipboard (OSC 52). It doesn't say whether it did."""
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        self.write_raw(f"\x1b]52;c;{encoded}\x07")
        self.flush()

    def notify(self, text: str) -> None:
        """Notify the user, if the terminal has reported that it lost the focus."""
        if not self._focused:
            self.write_raw(notification(text, os.environ))
            self.flush()

    def see_reply(self, sequence: str) -> None:
        """Take in a sequence of the terminal that is no key."""
        self._focused = FOCUS.get(sequence, self._focused)

    def take_keys(self) -> None:
        """Have the terminal send plain keys and reports of the focus, nothing else unasked; on both screens."""
        self._takes_keys = True
        if has_modes(self.term or ""):
            self.write_raw(PLAIN_KEYS + FOCUS_REPORTS)

    def give_keys_back(self) -> None:
        """Leave the keys to another program. To be called where the cursor is on an empty row."""
        self._focused = True  # changes aren't reported now, and whoever comes back does so by a key
        if has_modes(self.term or ""):
            self.write_raw(NO_FOCUS_REPORTS + KEYS_BACK)

    def enter_alternate_screen(self) -> None:
        """Enter it; kitty's keyboard protocol has a stack of its own there."""
        super().enter_alternate_screen()
        if self._takes_keys:
            self.take_keys()

    def quit_alternate_screen(self) -> None:
        """Leave it as it was found."""
        if self._takes_keys:
            self.give_keys_back()
        super().quit_alternate_screen()

    def push_title(self) -> None:
        """Have the terminal save its title, where it can."""
        if self.term != "linux":
            self.write_raw(_PUSH_TITLE)

    def pop_title(self) -> None:
        """Restore the title saved by `push_title`."""
        if self.term != "linux":
            self.write_raw(_POP_TITLE)


def rewraps(environ: Mapping[str, str]) -> bool:
    """Does the terminal wrap the rows on screen anew when it gets narrower?

    A wrong no leaves some stale rows behind after a resize; a wrong yes erases finished rows. So the plain `xterm`
    (xterm itself, PuTTY), GNU screen, Emacs and the consoles count as a no.

        rewraps({"TERM": "xterm-256color"})   → True
        rewraps({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"})   → False
    """
    if "TMUX" in environ:
        return True
    if "XTERM_VERSION" in environ or "STY" in environ or "INSIDE_EMACS" in environ:
        return False
    if any(name in environ for name in _REWRAPPING):
        return True
    term = environ.get("TERM", "xterm")
    return term != "xterm" and not term.startswith(("screen", "linux", "vt", "eterm", "cons", "dumb"))


def terminal_size() -> Size:
    """The size of the terminal behind stdout; 80 by 24 where it reports none."""
    try:
        columns, rows = os.get_terminal_size(streams.stdout().fileno())
    except (OSError, ValueError):
        columns, rows = 80, 24
    return Size(rows=rows or 24, columns=columns or 80)


def terminal_output() -> Output:
    """The output to this process's terminal."""
    environ = os.environ
    delay_s = _TMUX_DELAY_S if "TMUX" in environ or environ.get("TERM", "").startswith("tmux") else 0.0
    return Output(
        streams.stdout(), terminal_size, term=environ.get("TERM"), rewraps=rewraps(environ), resize_delay_s=delay_s
    )


class App(Application[None]):
    """prompt_toolkit's application: each redraw is one write, and it finds its place again after a resize."""

    output: Output
    _drawn_at = float("-inf")

    def _redraw(self, render_as_done: bool = False) -> None:
        with self.output.one_write():
            if not self._running_in_terminal:
                self.notice_size()
                if self.renderer.last_rendered_screen is None:
                    self._drawn_at = time.monotonic()
            super()._redraw(render_as_done)

    def _on_resize(self) -> None:
        with self.output.one_write():
            self.notice_size()
            super()._on_resize()

    def notice_size(self) -> None:
        """To be called before anything is drawn or erased: the terminal's size may have changed since the last drawing.

        Many terminals then wrap our rows anew, and the cursor is further below the first of them than before. The
        signal of the change comes later; tmux delays it for a quarter of a second. Rows drawn meanwhile were cut at
        the edge and not wrapped: counting them as two would erase finished rows.
        """
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

    After a resize all rows then lie below the cursor, even in a terminal that reports it late. Otherwise `window` has
    the cursor; a reversed cell marks its place there.
    """

    def __init__(self, parts: Sequence[AnyContainer], window: Window, parks: Callable[[], bool]) -> None:
        super().__init__(parts)
        self._window, self._parks = window, parks

    def write_to_screen(self, screen: Screen, *args: Any, **kwargs: Any) -> None:
        """Draw the parts into `screen`."""
        super().write_to_screen(screen, *args, **kwargs)
        if self._parks():
            at = screen.get_cursor_position(self._window)
            cell = screen.data_buffer[at.y][at.x]
            screen.data_buffer[at.y][at.x] = Char(cell.char, f"{cell.style} reverse")
            screen.set_cursor_position(self._window, Point(x=0, y=0))
            screen.show_cursor = False
