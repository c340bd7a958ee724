"""How the screen writes to the terminal: each flush is one write(2), shown as one frame."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A synchronised update: the terminal draws what is between them at once. One that doesn't know them ignores them."""


class Output(Vt100_Output):
    """prompt_toolkit's output with frames. `one_write` joins whatever is flushed inside it into one write."""

    def __init__(self, stdout: TextIO, get_size: Callable[[], Size]) -> None:
        # No cursor position requests: on a slow line their answers arrive as typed garbage, and nothing here needs them.
        super().__init__(stdout, get_size, enable_cpr=False)
        self._held = 0

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
        """Row by row: tmux moves the rows into its history when ED (`CSI J`) comes at the top left corner."""
        self.write_raw("\x1b7\x1b[K" + "\x1b[B\x1b[2K" * (self.get_size().rows - 1) + "\x1b8")

    def flush(self) -> None:
        """Write what is buffered as one frame, unless `one_write` holds it back."""
        if not self._held and self._buffer:
            self._buffer = [_BEGIN, *self._buffer, _END]
            super().flush()


def terminal_size() -> Size:
    """The size of the terminal behind stdout; 80 by 24 where it says nothing."""
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        columns, rows = 80, 24
    return Size(rows=rows or 24, columns=columns or 80)


def terminal_output() -> Output:
    """The output to this process's terminal."""
    return Output(sys.stdout, terminal_size)
