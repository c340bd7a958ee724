"""The common parts of every download: a resumed part, a lock, the room on the disk, its hash."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ossia.agent.errors import DownloadFailed
from ossia.agent.models.memory import size_text

TIMEOUT_S: Final = 30
"""Without a byte."""
_BLOCK_BYTES: Final = 1 << 20
_TRIES: Final = 5
_LOCK_WAIT_S: Final = 0.2
_PAUSE_S: Final = 0.2
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

Report = Callable[[int], None]
"""Gets how many bytes of the file are done."""


@dataclass(frozen=True, slots=True)
class PullProgress:
    """The progress: `done` of `total` bytes of all files. The phase that checks the hashes counts from 0 again."""

    phase: Literal["download", "check"]
    done: int
    total: int


class Transient(DownloadFailed):
    """A failure that may not happen again on the next try."""


def free_disk(folder: Path) -> int:
    """The free bytes where `folder` is, or will be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_disk(name: str, needed: int, folder: Path, free_bytes: Callable[[Path], int]) -> None:
    """Raises `DownloadFailed` if fewer than `needed` bytes are free for the model `name`."""
    free = free_bytes(folder)
    if needed > free:
        raise DownloadFailed(
            f"{name} needs {size_text(needed)} of disk, {size_text(free)} are free in {folder}: "
            "free up space, or download it elsewhere and use --model PATH"
        )


def is_safe(url: str) -> bool:
    """True if nobody on the way can read or alter what is sent and what comes."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def hub_token(endpoint: str | None = None) -> Literal[False] | None:
    """The token argument for the hub's library. None: it finds the user's; False: none, for it could be read.

    `endpoint` None: the hub, or what HF_ENDPOINT says.
    """
    if endpoint is None:
        from huggingface_hub import constants

        endpoint = constants.ENDPOINT
    return None if is_safe(endpoint) else False


def token_kept_back(endpoint: str | None = None) -> str:
    """A line for the user whose token isn't sent; "": it is sent, or they have no token."""
    if hub_token(endpoint) is None:
        return ""
    from huggingface_hub import get_token

    return "HF_ENDPOINT isn't https://: your token of Hugging Face isn't sent there" if get_token() else ""


def is_size(path: Path, count: int) -> bool:
    """True if there is a file of so many bytes."""
    return path.is_file() and path.stat().st_size == count


Answer = AbstractContextManager[tuple[int, Iterable[bytes]]]
"""An answer's offset in the file, and its blocks from there on."""


def fill(
    partial: Path,
    total: int,
    ask: Callable[[int], Answer],
    faults: Callable[[], AbstractContextManager[None]],
    report: Report,
    *,
    retry_pause_s: float,
) -> None:
    """Fill the file up to `total` bytes with what `ask` gets from where it ends; a longer answer is refused.

    A broken connection is made again, until it got no further five times in a row. `faults` turns what is raised into
    `DownloadFailed`; after a `Transient` it is tried again.
    """
    if partial.is_file() and partial.stat().st_size > total:
        partial.unlink()
    failures, furthest = 0, 0
    with partial.open("ab") as out:
        while out.tell() < total:
            furthest = max(furthest, out.tell())
            report(out.tell())
            try:
                with faults(), ask(out.tell()) as (start, blocks):
                    out.seek(start)
                    out.truncate()
                    for block in blocks:
                        if out.tell() + len(block) > total:
                            out.seek(0)
                            out.truncate()
                            raise DownloadFailed("more came than was announced, and nothing was kept: pull it again")
                        out.write(block)
                        report(out.tell())
                    if out.tell() < total:
                        raise ConnectionError("the transfer ended early")
            except Transient as error:
                failures = failures + 1 if out.tell() <= furthest else 0
                if failures >= _TRIES:
                    raise DownloadFailed(str(error)) from error
                time.sleep(retry_pause_s)


def blocks_of(got: Any, came: int, total: int) -> tuple[int, Iterable[bytes]]:
    """An answer for `fill`, to a request for what follows the first `came` of `total` bytes.

    The bytes are taken as they were sent: a compressed answer could unfold to any size. Raises `DownloadFailed`.
    """
    if got.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DownloadFailed("the server sends the file compressed, which wasn't asked for: pull it from another one")
    if got.status_code != 206:  # it ignores ranges, or has another version: this is the whole file
        return 0, got.iter_raw()
    if not re.fullmatch(rf"bytes {came}-\d+/(?:{total}|\*)", got.headers.get("Content-Range", "").strip()):
        raise DownloadFailed("the server sent another part than was asked for: pull it again")
    return came, got.iter_raw()


def digest(path: Path, report: Report) -> str:
    """The file's SHA-256 in hexadecimal; what it holds is on the disk then."""
    found = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            found.update(block)
            report(content.tell())
        os.fsync(content.fileno())
    return found.hexdigest()


def pull_known(url: str, target: Path, count: int, sha256: str) -> None:
    """Download a small file whose size and hash are known, in one piece. Raises `DownloadFailed`, OSError."""
    host, partial = urlsplit(url).hostname or "", target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    with quiet_hub(), only_one(target.parent, target.name):
        partial.unlink(missing_ok=True)
        fill(partial, count, lambda came: _whole(url, count), lambda: _faults_of(host), lambda done: None,
             retry_pause_s=_PAUSE_S)  # fmt: skip
        if digest(partial, lambda done: None) != sha256:
            partial.unlink()
            raise DownloadFailed(f"{host} sent another file")
        partial.replace(target)


@contextmanager
def _whole(url: str, count: int) -> Iterator[tuple[int, Iterable[bytes]]]:
    from huggingface_hub.utils import http_stream_backoff

    asked = {"Accept-Encoding": "identity"}
    with http_stream_backoff(
        "GET", url, headers=asked, timeout=TIMEOUT_S, max_retries=0, retry_on_status_codes=(), follow_redirects=False
    ) as got:
        if got.status_code != 200:
            kind = Transient if got.status_code in (408, 429) or got.status_code >= 500 else DownloadFailed
            raise kind(f"{urlsplit(url).hostname}: it answered {got.status_code}")
        yield blocks_of(got, 0, count)


@contextmanager
def _faults_of(host: str) -> Iterator[None]:
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # the first is httpx2's, not our dependency

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise DownloadFailed(f"{host} can't be reached: HF_HUB_OFFLINE is set; unset it to download") from error
    except (HTTPError, ConnectionError) as error:
        raise Transient(f"no connection to {host} ({type(error).__name__})") from error


@contextmanager
def only_one(folder: Path, name: str) -> Iterator[None]:
    """Lock the files of the model `name` (their stem) in `folder`: two downloads into one file would spoil it."""
    from huggingface_hub.utils import WeakFileLock

    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}.lock"
    locked = WeakFileLock(path, timeout=_LOCK_WAIT_S)
    try:
        locked.__enter__()
    except TimeoutError as error:
        raise DownloadFailed(f"{name} is being downloaded by another ossia: wait for that one") from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps a file that is open; it stays, and is taken again
            path.unlink()
        locked.__exit__(None, None, None)


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence the hub's library: it logs whole addresses on stderr, and a signed address is a secret for a while.

    It isn't to tell the hub what else runs here, either: which agent it was called by, whether torch is installed.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import logging

    constants.HF_HUB_DISABLE_TELEMETRY = True
    before = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
