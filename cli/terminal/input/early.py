"""What was typed before the terminal was ours: a shell's terminal hands over lines, in which Enter became a newline."""

from __future__ import annotations

import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

_MAX_BYTES = 4096  # as much as a terminal holds


def take_early_lines(input: Input) -> None:
    """To be called when the terminal has just become raw: of what waits in it, newlines are read as Enter."""
    if sys.platform == "win32":
        return
    from prompt_toolkit.input.vt100 import Vt100Input

    if not isinstance(input, Vt100Input) or not input.stdin.isatty():
        return
    reader = input.stdin_reader
    if not reader.closed and select.select([input.fileno()], [], [], 0)[0]:
        read = reader.read

        def read_once(count: int = 0) -> str:
            reader.read = read  # type: ignore[method-assign]
            return read(_MAX_BYTES).replace("\n", "\r")

        reader.read = read_once  # type: ignore[method-assign]
