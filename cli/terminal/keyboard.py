"""The keys of the terminal that ossia was started in, wherever its streams lead: plain while it works or asks."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ossia.cli.terminal.modes import KEYS_BACK, PLAIN_KEYS, has_modes

_MARK_PASTES, _PLAIN_PASTES = "\x1b[?2004h", "\x1b[?2004l"


@contextmanager
def plain_keys() -> Iterator[Keyboard | None]:
    """Inside the block the terminal sends plain keys; at its end, and while ossia is suspended, it is as it was found.

    Yields the keyboard; None where ossia has no terminal. A block within a block yields the same one. For the main
    thread.

        @plain_keys()          # Ctrl-C ends it, whatever a program before left on
        def evaluate() -> int:
    """
    global _keyboard
    if _keyboard is not None:
        yield _keyboard
        return
    descriptor = _opened()
    if descriptor is None:
        yield None
        return
    _keyboard = keyboard = Keyboard(descriptor)
    try:
        with _given_back_when_suspended(keyboard):
            keyboard.take()
            yield keyboard
    finally:
        keyboard.give_back()
        _keyboard = None
        os.close(descriptor)


def give_keys_back() -> None:
    """To be called where the process ends without leaving its blocks."""
    if _keyboard is not None:
        _keyboard.give_back()


class Keyboard:
    """The keys of our terminal. In the background the modes are left alone, since another program has it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._modes = has_modes(os.environ.get("TERM", ""))
        self._is_plain = False
        self._redraw: Callable[[], None] | None = None  # while keys are read
        self._before: list[Any] | None = None  # termios's attributes, while ours are set

    def write(self, text: str) -> None:
        """Write to the terminal. One that was closed takes nothing any more."""
        data = memoryview(text.encode("utf-8", "replace"))
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def waits(self, seconds: float = 0.0) -> bool:
        """Is there something to read, now or soon?"""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self) -> bytes:
        """A byte, none at the end. No more than one: what is typed behind an answer is for whoever reads next."""
        with suppress(OSError):
            return os.read(self._descriptor, 1)
        return b""

    @contextmanager
    def by_key(self, redraw: Callable[[], None]) -> Iterator[None]:
        """Inside the block each key can be read when it is pressed; none is shown, and pastes are marked.

        `redraw` is called when ossia was suspended, and is back.
        """
        self._redraw = redraw
        try:
            self.take()
            yield
        finally:
            self._by_line()
            self._redraw = None

    def take(self) -> None:
        """Make the keys ours, as far as they aren't."""
        if self._redraw and self._before is None:
            self._hide_keys()  # in the background this waits for `fg`
            self.write(_MARK_PASTES if self._modes else "")
        if self._modes and not self._is_plain and self._in_foreground():
            self._is_plain = True
            self.write(PLAIN_KEYS)

    def give_back(self) -> None:
        """Leave the keys as they were found. What was typed ahead is for the next program."""
        self._by_line()
        if self._is_plain:
            self._is_plain = False
            self.write(KEYS_BACK)

    def suspend(self) -> None:
        """Stop, as Ctrl-Z does, until `fg` or `bg`."""
        self.write("\n")
        self.give_back()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self.take()
        if self._redraw:
            self._redraw()

    def _in_foreground(self) -> bool:
        with suppress(OSError):
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        return False

    def _hide_keys(self) -> None:
        import termios

        with suppress(termios.error):  # the terminal was closed
            before = termios.tcgetattr(self._descriptor)
            ours = [*before[:6], [*before[6]]]
            ours[3] &= ~(termios.ICANON | termios.ECHO)
            ours[6][termios.VMIN], ours[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, ours)
            self._before = before

    def _show_keys(self) -> None:
        import termios

        if self._before is not None:
            before, self._before = self._before, None
            with suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)

    def _by_line(self) -> None:
        if self._before is not None:
            self.write(_PLAIN_PASTES if self._modes else "")
            self._show_keys()


_keyboard: Keyboard | None = None
"""A process has one terminal."""


def _opened() -> int | None:
    """The terminal behind stdin, else the one that ossia was started in; None where no stream is a terminal."""
    if sys.platform == "win32":
        return None
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    with suppress(OSError):
        return os.open(os.ttyname(0), flags)
    with suppress(OSError):
        return os.open("/dev/tty", flags) if any(map(os.isatty, range(3))) else None
    return None


@contextmanager
def _given_back_when_suspended(keyboard: Keyboard) -> Iterator[None]:
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:  # a shell without job control ignores it
        yield
        return
    signal.signal(signal.SIGTSTP, lambda number, frame: keyboard.suspend())
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
