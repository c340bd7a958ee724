"""Our stdout, which nobody else writes to: a private duplicate, while file descriptor 1 leads to stderr.

So nothing that C libraries, other processes or the user's functions write to descriptor 1 lands between the lines of an
answer. `sys.stdout` is that duplicate until the user's code is about to be loaded; from then on it is stderr. Our code
that may print after that writes to `stdout()`.

Nothing is imported at the top but what Python has loaded anyway.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # typing's own would be an import
if TYPE_CHECKING:
    from typing import TextIO

_ours: io.TextIOWrapper | None = None
_descriptor_1: io.TextIOWrapper | None = None  # Python's stream over it; None where the shell closed it


def take_stdout() -> None:
    """Take stdout for ossia alone: from now on, whatever else writes to descriptor 1 writes to stderr.

    Not on a Windows console: programs write to it by its handle, and both streams are the same window.
    """
    from contextlib import suppress

    global _ours, _descriptor_1
    _open_descriptors()
    was = sys.stdout
    if was is None:  # closed by the shell: output leads nowhere
        _ours = open(os.dup(1), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    elif not isinstance(was, io.TextIOWrapper) or (sys.platform == "win32" and was.isatty()):
        return
    else:
        with suppress(OSError):  # earlier output
            was.flush()
        _descriptor_1 = was
        lines = was.line_buffering or was.write_through  # a terminal, or `python -u`
        _ours = open(os.dup(1), "w", 1 if lines else -1, was.encoding, was.errors, closefd=False)  # noqa: SIM115
    os.dup2(2, 1)
    sys.stdout = sys.__stdout__ = _ours  # type: ignore[misc]  # the width of help texts is taken from the second


def stdout() -> TextIO:
    """The stream for answers."""
    return _ours or sys.stdout


def shown(text: str) -> str:
    """The text as stdout gets it: cleaned on a terminal, exact into a pipe."""
    from ossia.cli.clean import clean

    return clean(text) if stdout().isatty() else text


def say(text: str) -> None:
    """Print a line of ossia's on stderr, cleaned wherever that goes."""
    from ossia.cli.clean import clean

    print(clean(f"ossia: {text}"), file=sys.stderr)


def end_stdout() -> None:
    """Release stdout: its reader needn't wait for the end of this process."""
    if _ours is None or _ours.isatty():
        return
    from contextlib import suppress

    with suppress(OSError):  # a reader that is gone
        _ours.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _ours.fileno())
    os.close(nowhere)


def stdout_for_programs() -> TextIO | None:
    """The stdout for a program of the user's with the terminal to itself; None: descriptor 1."""
    return _ours


def give_stdout_to_others() -> None:
    """Send the output of the user's code, now or at exit, to stderr. To be called before that is loaded."""
    if _ours is not None:
        sys.stdout = sys.stderr
        sys.__stdout__ = _descriptor_1  # type: ignore[misc]


def _open_descriptors() -> None:
    """Open 0, 1 and 2 if the shell closed them (`>&-`): the next file would get such a number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
