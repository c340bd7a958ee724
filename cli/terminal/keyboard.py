"""The keys of the terminal that ossia was started in, wherever its streams lead: plain while it works or asks.

A program before, or a setting, may have made the terminal send more. Kitty's keyboard protocol has a stack: ours is
pushed and popped (kitty, VS Code, foot, Ghostty, WezTerm, iTerm2). modifyOtherKeys is reset to what the user set.
Reports of the mouse and of focus, and the application's cursor keys and keypad, stay off: who left them on has ended.
Only the chat's screen has the focus reported (`cli.terminal.vt`).
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

PLAIN_KEYS = "\x1b[>0u\x1b[>4;0m\x1b[?9;1000;1002;1003;1004;1005;1006;1015;1l\x1b>"
KEYS_BACK = "\x1b[<u\r\x1b[K\x1b[>4;m"
"""To be written on an empty row: a terminal that can't read the first sequence may print its last letter."""

_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[P\]X^_][^\x00-\x1f]*(?:\x1b\\|\x07)|O[ -~])")
_MARK_PASTES, _PLAIN_PASTES = "\x1b[?2004h", "\x1b[?2004l"


@contextmanager
def plain_keys() -> Iterator[Keyboard | None]:
    """Have the terminal send plain keys inside the block; at its end, and while ossia is suspended, restore it.

    Yields the keyboard; None where ossia has no terminal. A block within a block yields the same one. Main thread only.

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
        """Write to the terminal, unless it was closed."""
        data = memoryview(text.encode("utf-8", "replace"))
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def waits(self, seconds: float = 0.0) -> bool:
        """Is there something to read, now or soon?"""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self) -> bytes:
        """One byte, none at the end: keys typed behind an answer are left to the next reader."""
        with suppress(OSError):
            return os.read(self._descriptor, 1)
        return b""

    @contextmanager
    def by_key(self, redraw: Callable[[], None]) -> Iterator[None]:
        """Read each key as it is pressed inside the block; none is shown, pastes are marked.

        `redraw` is called after ossia was suspended.
        """
        self._redraw = redraw
        try:
            self.take()
            yield
        finally:
            self._by_line()
            self._redraw = None

    def take(self) -> None:
        """Take the keys, as far as they aren't taken yet."""
        if self._redraw and self._before is None:
            import termios
            import tty

            with suppress(termios.error):  # the terminal was closed
                before = termios.tcgetattr(self._descriptor)
                tty.setcbreak(self._descriptor, termios.TCSADRAIN)  # in the background this waits for `fg`
                self._before = before
            self.write(_MARK_PASTES if self._modes else "")
        if self._modes and not self._is_plain and self._in_foreground():
            self._is_plain = True
            self.write(PLAIN_KEYS)

    def give_back(self) -> None:
        """Restore the keys' modes. What was typed ahead is for the next program."""
        self._by_line()
        if self._is_plain:
            self._is_plain = False
            self.write(KEYS_BACK)

    def suspend(self) -> None:
        """Suspend ossia, as Ctrl-Z does, until `fg` or `bg`."""
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

    def _by_line(self) -> None:
        if self._before is None:
            return
        import termios

        self.write(_PLAIN_PASTES if self._modes else "")
        before, self._before = self._before, None
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)


_keyboard: Keyboard | None = None
"""A process has one terminal."""


def _opened() -> int | None:
    """The terminal behind stdin, else ossia's own; None where no stream is a terminal."""
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


def without_sequences(line: str) -> str:
    """The line without the terminal's own sequences."""
    return _SEQUENCES.sub("", line)


def has_modes(term: str) -> bool:
    """Can a terminal of this TERM have such modes? `dumb` has none, Linux's console would print the sequences."""
    return term not in ("dumb", "linux", "")
