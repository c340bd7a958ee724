"""How the screen writes to the terminal: each flush is one write(2), shown as one frame."""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output

from ossia.cli import streams
from ossia.cli.terminal.modes import KEYS_BACK, PLAIN_KEYS, has_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A synchronised update: the terminal draws what is between them at once. One that doesn't know them ignores them."""
_PUSH_TITLE, _POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
_REWRAPPING = ("VTE_VERSION", "TERM_PROGRAM", "KONSOLE_VERSION", "WT_SESSION")
"""Variables set by terminals that rewrap (see `rewraps`), even where TERM is the plain `xterm`."""
_TMUX_DELAY_S = 0.3
"""Of several changes, tmux 3.3 tells us the first immediately, the others at most 0.25 s later."""
_GONE = frozenset({errno.EIO, errno.EPIPE, errno.ENXIO, errno.EBADF})


class Output(Vt100_Output):
    """prompt_toolkit's output with frames. `one_write` joins whatever is flushed inside it into one write.

    `rewraps`: the terminal wraps the rows on screen anew when its width changes (see `rewraps`); `resize_delay_s`: how
    long after the change it may tell us.
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
        self._gone = False
        self._takes_keys = False

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
        """Write what is buffered as one frame, unless `one_write` holds it back.

        A terminal that was closed takes nothing any more: then nothing is written from now on, and `gone` is true.
        """
        if self._held or not self._buffer:
            return
        if self._gone:
            self._buffer = []
            return
        self._buffer = [_BEGIN, *self._buffer, _END]
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
        """Ask the terminal to put the text on its clipboard (OSC 52). It says nothing about whether it did."""
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        self.write_raw(f"\x1b]52;c;{encoded}\x07")

    def take_keys(self) -> None:
        """Let the terminal send plain keys, and nothing else that wasn't asked for; on its other screen, too."""
        self._takes_keys = True
        if has_modes(self.term or ""):
            self.write_raw(PLAIN_KEYS)

    def give_keys_back(self) -> None:
        """The keys are another program's again. To be called where the cursor is on an empty row."""
        if has_modes(self.term or ""):
            self.write_raw(KEYS_BACK)

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
        """Let the terminal remember its title, where it can."""
        if self.term != "linux":
            self.write_raw(_PUSH_TITLE)

    def pop_title(self) -> None:
        """Give the terminal the title back that `push_title` made it remember."""
        if self.term != "linux":
            self.write_raw(_POP_TITLE)


def rewraps(environ: Mapping[str, str]) -> bool:
    """Does the terminal wrap the rows on screen anew when it gets narrower?

    A wrong no leaves some stale rows of ours behind after a resize; a wrong yes erases finished rows.
    So the plain `xterm` (xterm itself, PuTTY), GNU screen, Emacs and the consoles count as a no.

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
    """The size of the terminal behind stdout; 80 by 24 where it says nothing."""
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
