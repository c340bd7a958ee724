"""Standard input as a part of the prompt."""

from __future__ import annotations

import os
import stat
import sys
import threading

from ossia.cli.exits import ExitError


def read_stdin(*, quiet: bool) -> str | None:
    """All of standard input when it is a pipe, a socket or a file; None when there is nothing to read.

    A terminal, a closed stdin and /dev/null are not read. The last newline is left out. Raises ExitError
    (usage) on bytes that are not UTF-8 text. After a second of waiting stderr says what is waited for.
    """
    if not _is_readable():
        return None
    notice = threading.Timer(1.0, _say_waiting)
    notice.daemon = True
    if not quiet:
        notice.start()
    try:
        if hasattr(os, "set_blocking"):  # a parent may have made it non-blocking: then reading would stop too early
            os.set_blocking(sys.stdin.fileno(), True)
        data = sys.stdin.buffer.read()
    finally:
        notice.cancel()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is {data[error.start]:#04x}"
        raise ExitError(f"standard input isn't UTF-8 text ({where}): convert it first") from None
    if "\0" in text:
        raise ExitError("standard input is binary (it has a NUL byte), not text: convert it first")
    return text.removesuffix("\n") or None


def _is_readable() -> bool:
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _say_waiting() -> None:
    print("ossia: reading standard input until it ends (Ctrl-D, or </dev/null for none)", file=sys.stderr, flush=True)
