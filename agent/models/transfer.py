"""The common parts of every download: a resumed part, a lock, the room on the disk, its hash."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ossia.agent.errors import DownloadFailed
from ossia.agent.models.memory import size_text
from ossia.tools.files import write_whole

TIMEOUT_S: Final = 30
"""Without a byte."""
_BLOCK_BYTES: Final = 1 << 20
_LOCK_WAIT_S: Final = 0.2
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


class TooLong(DownloadFailed):
    """More came than was announced."""

    def __init__(self) -> None:
        super().__init__("more arrived than announced, so nothing was kept: pull it again")


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


def hub_token(endpoint: str | None = None) -> Literal[False] | None:
    """The token argument for the hub's library. None: it finds the user's; False: none, for it could be read.

    `endpoint` None: the hub, or what HF_ENDPOINT says.
    """
    if endpoint is None:
        from huggingface_hub import constants

        endpoint = constants.ENDPOINT
    parts = urlsplit(endpoint)
    return None if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK) else False


def token_kept_back(endpoint: str | None = None) -> str:
    """A line for the user whose token isn't sent; "": it is sent, or they have no token."""
    if hub_token(endpoint) is None:
        return ""
    from huggingface_hub import get_token

    return "HF_ENDPOINT isn't https://: your token of Hugging Face isn't sent there" if get_token() else ""


def is_size(path: Path, count: int) -> bool:
    """True if there is a file of so many bytes."""
    return path.is_file() and path.stat().st_size == count


def blocks_of(got: Any, came: int, total: int) -> tuple[int, Iterable[bytes]]:
    """The offset and the blocks of an answer to a request for what follows the first `came` of `total` bytes.

    The bytes are taken as they were sent: a compressed answer could unfold to any size. Raises `DownloadFailed`.
    """
    if got.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DownloadFailed("the server compressed the file, which ossia didn't ask for: pull it from another one")
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


def body_of(got: Any, most: int) -> bytes:
    """The whole body of an answer. Raises `TooLong` if it has more than `most` bytes."""
    content = bytearray()
    for block in blocks_of(got, 0, 0)[1]:
        content += block
        if len(content) > most:
            raise TooLong
    return bytes(content)


def pull_known(url: str, target: Path, count: int, sha256: str) -> None:
    """Download a small file whose size and hash are known. Raises `DownloadFailed`, OSError."""
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # the first is httpx2's, not our dependency
    from huggingface_hub.utils import http_stream_backoff

    host = urlsplit(url).hostname or ""
    asked: Any = {"headers": {"Accept-Encoding": "identity"}, "timeout": TIMEOUT_S, "follow_redirects": False}
    try:
        with quiet_hub(), http_stream_backoff("GET", url, max_retries=1, **asked) as got:
            if got.status_code != 200:
                raise DownloadFailed(f"{host}: it answered {got.status_code}")
            content = body_of(got, count)
    except OfflineModeIsEnabled as error:
        raise DownloadFailed(f"{host} can't be reached: HF_HUB_OFFLINE is set; unset it to download") from error
    except (HTTPError, ConnectionError) as error:
        raise DownloadFailed(f"no connection to {host} ({type(error).__name__})") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DownloadFailed(f"{host} sent another file")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, content)


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
