"""Standard input as a part of the prompt."""

from __future__ import annotations

import os
import stat
import sys
import threading

from cli.exits import ExitCode, ExitError


def read_stdin(*, quiet: bool) -> str | None:
    """All of standard input when it is a pipe, a socket or a file with content; None when there is nothing to read.

    A terminal, a closed stdin and /dev/null are not read. The last newline is left out. Raises ExitError
    (usage) on bytes that are not UTF-8 text. After a second of waiting stderr says what is waited for.
    """
    if not _has_content():
        return None
    notice = threading.Timer(1.0, _say_waiting)
    notice.daemon = True
    if not quiet:
        notice.start()
    try:
        data = sys.stdin.buffer.read()
    finally:
        notice.cancel()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ExitError(
            f"standard input: expected UTF-8 text, byte {error.start} is {data[error.start]:#04x}: convert it first",
            ExitCode.USAGE,
        ) from None
    if "\0" in text:
        raise ExitError("standard input: expected text, got binary data (a NUL byte): convert it first", ExitCode.USAGE)
    return text.removesuffix("\n") or None


def _has_content() -> bool:
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(mode):
        return os.fstat(descriptor).st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _say_waiting() -> None:
    print("ossia: reading standard input until it ends (Ctrl-D, or </dev/null for none)", file=sys.stderr, flush=True)
