"""The text of a run: the prompt, standard input, and files mentioned with `@`."""

from __future__ import annotations

import os
import stat
import sys
import threading
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.mentioned import with_mentioned
from ossia.cli.exits import MAX_TEXT_BYTES, ExitError, require_size
from ossia.cli.mentions import Mention, mentions, standing
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation


def question_of(prompt: str | None, *, quiet: bool, piped: bool = True) -> str:
    """PROMPT and standard input with a blank line between them, or the one of them that says something.

    A PROMPT of `-` is standard input alone; `piped` False: that isn't read. Raises ExitError if neither says anything,
    for input that isn't text, and for more of it, or of a file that PROMPT mentions, than any context holds.
    """
    for mention in mentions(prompt or ""):
        _require_size(mention)
    read = _read_stdin(quiet=quiet) if piped else None
    parts = [part for part in ("" if prompt == "-" else prompt, read) if part and part.strip()]
    if not parts:
        raise ExitError('no question: ask one, as in: ossia run "What is 48*17?"')
    return "\n\n".join(parts)


def _require_size(mention: Mention) -> None:
    for name, found in () if mention.is_url else standing(mention, [paths.here()]):
        if len(found) == 1:
            size = found[0].stat().st_size if found[0].is_file() else 0
            return require_size(f"@{name}", size)
    return None


def _read_stdin(*, quiet: bool) -> str | None:
    """All of standard input if that is a pipe, a socket or a file, without the last newline; None: nothing to read.

    After a second of waiting stderr says what is waited for.
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
        status = os.fstat(sys.stdin.fileno())
        if stat.S_ISREG(status.st_mode):
            require_size("standard input", status.st_size - sys.stdin.buffer.tell())
        data = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)
        require_size("standard input", len(data), more=True)
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


def with_attached(said: UserText, settings: Settings, talk: Conversation, *, display: Display) -> UserText:
    """The text with the files, folders and pages that its typed part mentions, as in the chat; nobody is asked.

    The worker reads them, so that Ctrl-C is answered meanwhile. For each that can't be attached there is a warning.
    """
    if not mentions(said.typed):
        return said
    stop, folder = Control(), paths.here()
    try:
        work = talk.worker.submit(lambda: with_mentioned(said, settings, talk, folder, stop))
        said, whole, problems = display.wait(work)
    except BaseException:
        stop.stop()
        raise
    for line in whole:
        display.aside(f"  {line}")
    for line in problems:
        display.warn(line)
    return said
