"""The chat's first rows, painted before anything heavy is imported; the screen's first frame takes their place."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ossia.cli.streams import stdout

TYPE_CHECKING = False  # typing's own would be an import
if TYPE_CHECKING:
    from typing import Any

_UP = "\r\x1b[2A"  # from the input to the first row
_before: list[Any] | None = None  # termios's attributes, while the rows stand there


@contextmanager
def painted(head: str) -> Iterator[None]:
    """Show `head`, an input line and that the rest is loading; after the block they are gone, if not `replaced` before.

    Keys typed meanwhile aren't echoed; the next reader gets them. Does nothing where there is no screen.
    """
    _paint(head)
    try:
        yield
    finally:
        clear()


def clear() -> None:
    """Remove the rows: something else is printed first."""
    if _restored():
        _write(f"{_UP}\x1b[J")


def replace() -> None:
    """Go back to the first row: the screen is drawn over it, and its first frame erases the rest."""
    if _restored():
        _write(_UP)


def _paint(head: str) -> None:
    global _before
    screen = sys.stdin.isatty() and stdout().isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if sys.platform == "win32" or not screen:
        return
    import termios

    try:
        before = termios.tcgetattr(0)
        quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(0, termios.TCSANOW, quiet)
    except termios.error:
        return
    _before = before
    dim, plain = ("\x1b[2m", "\x1b[m") if not os.environ.get("NO_COLOR") else ("", "")
    # What was typed before this may stand on the row, echoed: it will be in the input.
    _write(f"\r\x1b[K{dim}{head}{plain}\r\n\r\n› \r\n{dim}  loading{plain}\x1b[A\r\x1b[2C")


def _restored() -> bool:
    """Have the terminal echo keys again; False: nothing is painted."""
    global _before
    if _before is None or sys.platform == "win32":
        return False
    import termios

    before, _before = _before, None
    try:
        termios.tcsetattr(0, termios.TCSANOW, before)
    except termios.error:  # the terminal was closed
        return False
    return True


def _write(text: str) -> None:
    with suppress(OSError):  # the terminal was closed
        os.write(stdout().fileno(), text.encode("utf-8"))
