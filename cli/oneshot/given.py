"""The attachments that a command line names: `-f FILE|DIR|URL|-`. Nobody is asked: what can't be read ends the run."""

from __future__ import annotations

import codecs
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ossia.cli import paths
from ossia.cli.attach.attach import label_of, page_of, why_not
from ossia.cli.attach.content import HEAD_SHARE, STDIN, Bounds, Content, Cut, Source, TextSource, in_heading
from ossia.cli.attach.local import Unattachable, leads, read_local
from ossia.cli.exits import MAX_TEXT_BYTES, ExitCode, ExitError, require_size
from ossia.cli.mentions import Mention, standing
from ossia.cli.visible import seen_line
from ossia.tools.spec import NoStop, ToolFailed
from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.tools.browser.document import Document

_CHUNK_BYTES = 1 << 16


def read_given(
    names: Sequence[str], *, workspace: Workspace | None, cut: Cut | None, quiet: bool
) -> tuple[Source | Mention, ...]:
    """The files and folders, read; pages as mentions, for `with_pages`. It blocks while a pipe is open.

    `cut` None: more than 4 MB are refused. Raises ExitError.
    """
    if sum(name in STDIN for name in names) > 1:
        raise ExitError("-f -: standard input can be attached once")
    return tuple(_given(name, workspace, cut, quiet) for name in dict.fromkeys(names))


def with_pages(given: Sequence[Source | Mention], load: Callable[[str], Document]) -> tuple[Source, ...]:
    """The sources, with the pages loaded. Raises ExitError."""
    return tuple(_page(one.name, load) if isinstance(one, Mention) else one for one in given)


def _page(url: str, load: Callable[[str], Document]) -> Source:
    try:
        return page_of(load(url), url, label_of(url))
    except ToolFailed as error:
        raise _refused(url, why_not(error), ExitCode.ENGINE) from None


def _given(name: str, workspace: Workspace | None, cut: Cut | None, quiet: bool) -> Source | Mention:
    if name in STDIN:
        content = read_stdin(cut, quiet=quiet)
        if content is None:
            raise _refused(name, "there is no standard input to read (a terminal, closed, or /dev/null)")
        return TextSource("standard input", "Attached standard input", content)
    mention = Mention(name, quoted=True)
    if mention.is_url:
        return mention
    path = _path(mention)
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            return TextSource(label_of(name), f"Attached file {in_heading(name)}", _piped(path, name, cut, quiet))
        if cut is None and path.is_file():
            require_size(f"-f {label_of(name)}", path.stat().st_size, cuttable=True)
        local = read_local(
            path,
            name=name,
            label=label_of(name),
            max_bytes=MAX_TEXT_BYTES,
            max_files=Bounds().files,
            stop=NoStop(),
            workspace=workspace,
        )
    except Unattachable as error:
        raise _refused(name, str(error)) from None
    except OSError as error:
        raise _refused(name, f"it can't be read ({error.strerror})") from None
    if why := leads(path, local.real, paths.here(), named=True):
        raise _refused(name, f"{why}: name that file itself")
    return local.source


def _path(mention: Mention) -> Path:
    """The path, or that of the only lookalike. Raises ExitError."""
    if not mention.name:
        raise ExitError("-f: the name is empty")
    for _, found in standing(mention, [paths.here()]):
        if len(found) == 1:
            return Path(os.path.normpath(found[0]))
    try:
        (paths.here() / paths.expanded(mention.name)).stat()
    except OSError as error:
        raise _refused(mention.name, f"it can't be read ({error.strerror})") from None
    raise _refused(mention.name, "several files are called that: rename one")


def _refused(name: str, why: str, code: ExitCode = ExitCode.USAGE) -> ExitError:
    return ExitError(f"-f {label_of(name)}: {seen_line(why, 300)}", code)


# -- pipes -------------------------------------------------------------------------------------------------------------


def read_stdin(cut: Cut | None, *, quiet: bool) -> Content | None:
    """Standard input if that is a pipe, a socket or a file; None: there is none. Raises ExitError."""
    if not _is_readable():
        return None
    if hasattr(os, "set_blocking"):  # a parent may have made it non-blocking: then reading would stop too early
        os.set_blocking(sys.stdin.fileno(), True)
    status = os.fstat(sys.stdin.fileno())
    if stat.S_ISREG(status.st_mode) and cut is None:
        require_size("standard input", status.st_size - sys.stdin.buffer.tell(), cuttable=True)
    with _waiting("standard input", "Ctrl-D, or </dev/null for none", quiet):
        return read_pipe(sys.stdin.buffer, "standard input", cut)


def _is_readable() -> bool:
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _piped(path: Path, name: str, cut: Cut | None, quiet: bool) -> Content:
    """The text of a named pipe, or of `<(command)`."""
    with _waiting(label_of(name), "Ctrl-C", quiet), path.open("rb") as file:
        return read_pipe(file, f"-f {label_of(name)}", cut)


def read_pipe(file: BinaryIO, what: str, cut: Cut | None) -> Content:
    """The text, without the middle of what is longer than 4 MB; with `cut` None that is refused. Raises ExitError."""
    room = int(MAX_TEXT_BYTES * HEAD_SHARE["middle"])
    head, tail, size = bytearray(), bytearray(), 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    while data := file.read(_CHUNK_BYTES):
        _require_text(decoder, data, what, size)
        size += len(data)
        if cut is None:
            require_size(what, size, more=True, cuttable=True)
        begins = data[: room - len(head)]
        head += begins
        tail += data[len(begins) :]
        if len(tail) > 2 * MAX_TEXT_BYTES:
            del tail[: room - MAX_TEXT_BYTES]
    _require_text(decoder, b"", what, size)
    if size <= MAX_TEXT_BYTES:
        return Content((head + tail).decode("utf-8"))
    del tail[: room - MAX_TEXT_BYTES]
    first, last = (part.decode("utf-8", "ignore") for part in (head, tail))
    return Content(first, last, size - len(head) - len(tail))


def _require_text(decoder: codecs.IncrementalDecoder, data: bytes, what: str, before: int) -> None:
    pending = len(decoder.getstate()[0])
    try:
        text = decoder.decode(data, final=not data)
    except UnicodeDecodeError as error:
        where = f"byte {before - pending + error.start} is {error.object[error.start]:#04x}"
        raise ExitError(f"{what} isn't UTF-8 text ({where}): convert it first") from None
    if "\0" in text:
        raise ExitError(f"{what} is binary (it has a NUL byte), not text: convert it first")


@contextmanager
def _waiting(what: str, how: str, quiet: bool) -> Iterator[None]:
    """After a second in the block, stderr says that it waits for the end of `what`."""

    def say() -> None:
        with suppress(OSError, ValueError):
            print(f"ossia: reading {what} until it ends ({how})", file=sys.stderr, flush=True)

    notice = threading.Timer(1.0, say)
    notice.daemon = True
    if not quiet:
        notice.start()
    try:
        yield
    finally:
        notice.cancel()
