"""Downloads a GGUF file from an address: over TLS only, resumed where it was cut, its size checked and its hash told.

Nobody vouches for the file but its server: whoever pulls it compares the hash with one from elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urljoin, urlsplit

from ossia.agent.errors import DownloadFailed, ModelError, SettingRefused
from ossia.agent.models.catalog import part_of, stem_of
from ossia.agent.models.find import MODELS_FOLDER
from ossia.agent.models.gguf import read_header
from ossia.agent.models.transfer import (
    TIMEOUT_S,
    PullProgress,
    Transient,
    blocks_of,
    check_disk,
    digest,
    fill,
    free_disk,
    is_safe,
    is_size,
    only_one,
    quiet_hub,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_MAX_REDIRECTS: Final = 5
_PAUSE_S: Final = 0.2
_MAX_ADDRESS_CHARS: Final = 8_000
_HOST: Final = re.compile(r"(?:[\w-]{1,63}\.)*[\w-]{1,63}\.?|[0-9a-f:]*:[0-9a-f:.]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came: the file, and its SHA-256 in hexadecimal."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class _Remote:
    """The file as its server describes it; `version` is its ETag or date, "" if it gives none."""

    url: str
    bytes: int
    version: str


def pull_url(
    url: str,
    data_dir: Path,
    *,
    on_progress: Callable[[PullProgress], None],
    free_bytes: Callable[[Path], int] = free_disk,
    retry_pause_s: float = 2.0,
) -> Pulled:
    """Download the `.gguf` file at `url` into a folder of its own, below its host's in the models folder of `data_dir`.

    `https://` only, also where a redirect leads (plain HTTP only to this machine itself). A whole file that is there
    isn't downloaded again, unless the server has another version or its header can't be read. Raises `SettingRefused`
    for an address that won't do, `DownloadFailed` for the rest. An interrupt (KeyboardInterrupt) passes through; the
    part that came is kept.
    """
    name = _checked_name(url)
    host = urlsplit(url).hostname or ""
    with quiet_hub(), _faults_of(host, name):
        try:
            with _faults_of(host, name):
                remote = _look(url)
        except Transient:  # e.g. over a connection that was kept from before, and that the server has just closed
            remote = _look(url)
        folder = _host_folder(url, data_dir) / f"{_of_address(url)}-{_digits(f'{remote.bytes} {remote.version}')}"
        target, partial = folder / name, folder / f"{name}.part"
        folder.mkdir(parents=True, exist_ok=True)
        with only_one(folder, stem_of(name)):
            if not _is_whole(target, remote):
                check_disk(name, remote.bytes - _bytes_of(partial), folder, free_bytes)
                fill(
                    partial,
                    remote.bytes,
                    lambda came: _rest(remote, came),
                    lambda: _faults_of(host, name),
                    lambda done: on_progress(PullProgress("download", done, remote.bytes)),
                    retry_pause_s=retry_pause_s,
                )
                partial.replace(target)
            return Pulled(target, digest(target, lambda done: on_progress(PullProgress("check", done, remote.bytes))))


def pull_known(url: str, target: Path, count: int, sha256: str) -> None:
    """Download a file whose size and hash are known. Raises `DownloadFailed`, OSError."""
    host, partial = urlsplit(url).hostname or "", target.with_name(f"{target.name}.part")
    remote = _Remote(url, count, "")
    target.parent.mkdir(parents=True, exist_ok=True)
    with quiet_hub(), only_one(target.parent, target.name):
        fill(
            partial,
            count,
            lambda came: _rest(remote, came),
            lambda: _faults_of(host, unquote(url).rpartition("/")[2]),
            lambda done: None,
            retry_pause_s=_PAUSE_S,
        )
        if digest(partial, lambda done: None) != sha256:
            partial.unlink()
            raise DownloadFailed(f"{host} sent another file")
        partial.replace(target)


def folders_of(url: str, data_dir: Path) -> list[Path]:
    """The folders that hold what came from `url`: one for each version of the file. Raises `SettingRefused`."""
    _checked_name(url)
    return sorted(_host_folder(url, data_dir).glob(f"{_of_address(url)}-*"))


def _host_folder(url: str, data_dir: Path) -> Path:
    return data_dir / MODELS_FOLDER / re.sub(r"[^a-z0-9.-]", "_", urlsplit(url).hostname or "")


def _of_address(url: str) -> str:
    """Digits for the address without its query, which may be a signature that is another one next time."""
    parts = urlsplit(url)
    return _digits(f"{parts.scheme} {parts.netloc} {parts.path}")


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_whole(target: Path, remote: _Remote) -> bool:
    """Is it there, as far as its size and its header show?"""
    if not is_size(target, remote.bytes):
        return False
    try:
        read_header(target)
    except ModelError:
        return False
    return True


def _checked_name(url: str) -> str:
    """The file's name. Raises `SettingRefused` for an address that won't do.

    Errors repeat the host and the name, never the whole address: it may hold a signature.
    """
    if not _is_readable(url):
        raise SettingRefused("the address can't be read: it must be https://HOST/PATH.gguf")
    parts = urlsplit(url)
    host, name = parts.hostname or "", unquote(parts.path).rsplit("/", 1)[-1]
    if not is_safe(url):
        raise SettingRefused(
            f"must be https:// to download from {host!r}, not {parts.scheme!r}: what came could be altered"
        )
    if parts.username is not None or parts.password is not None:
        raise SettingRefused(f"{host}: an address with a password in it isn't used: download the file yourself")
    if not re.fullmatch(r"[A-Za-z0-9][\w.+ -]*\.gguf", name):
        raise SettingRefused(f"{host}: the address must end in the name of a .gguf file, not {name!r}")
    if part_of(Path(name)):
        raise SettingRefused(f"{host}: {name} is one of several files: download them all yourself, use --model PATH")
    return name


def _is_readable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        if parts.port == 0 or len(url) > _MAX_ADDRESS_CHARS or not re.fullmatch(r"[!-~]+", url):
            return False
        return parts.hostname is not None and _HOST.fullmatch(parts.hostname) is not None
    except ValueError:  # a port above 65,535, half an IPv6 address
        return False


def _look(url: str) -> _Remote:
    """Ask for the file, but only read the head of the answer."""
    with _got(url, {}) as got:
        said = got.headers.get("Content-Length", "")
        if not said.isdecimal():
            raise DownloadFailed(
                f"{urlsplit(url).hostname}: it doesn't say how large the file is, so it can't be checked: "
                "download it yourself and use --model PATH"
            )
        return _Remote(url, int(said), got.headers.get("ETag") or got.headers.get("Last-Modified") or "")


@contextmanager
def _rest(remote: _Remote, came: int) -> Iterator[tuple[int, Iterable[bytes]]]:
    """What follows the first `came` bytes, or the whole file where that can't be asked for."""
    asked = {}
    if came and remote.version and not remote.version.startswith("W/"):
        asked = {"Range": f"bytes={came}-", "If-Range": remote.version}
    with _got(remote.url, asked) as got:
        yield blocks_of(got, came, remote.bytes)


@contextmanager
def _got(url: str, headers: dict[str, str]) -> Iterator[Any]:
    """The answer with the file, after redirects. No token of the hub's goes along."""
    for _ in range(_MAX_REDIRECTS):
        with _answer(url, headers) as got:
            if got.status_code in (200, 206):
                yield got
                return
            if not got.has_redirect_location:
                kind = Transient if got.status_code in (408, 429) or got.status_code >= 500 else DownloadFailed
                raise kind(f"{urlsplit(url).hostname}: it answered {got.status_code}")
            before, url = url, _joined(url, got.headers["Location"])
        if (
            not _is_readable(url)
            or not is_safe(url)
            or urlsplit(url).username is not None
            or (urlsplit(before).scheme == "https" and urlsplit(url).scheme != "https")
        ):
            raise DownloadFailed(
                f"{urlsplit(before).hostname}: it leads to an address that isn't https://HOST/PATH: that isn't followed"
            )
    raise DownloadFailed(f"{urlsplit(url).hostname}: more than {_MAX_REDIRECTS} redirects")


def _joined(url: str, location: str) -> str:
    """Where a redirect leads; "" for nowhere."""
    try:
        return urljoin(url, location)
    except ValueError:
        return ""


def _answer(url: str, headers: dict[str, str]) -> AbstractContextManager[Any]:
    from huggingface_hub.utils import http_stream_backoff

    asked = {"Accept-Encoding": "identity", **headers}
    return http_stream_backoff(
        "GET", url, headers=asked, timeout=TIMEOUT_S, max_retries=0, retry_on_status_codes=(), follow_redirects=False
    )


@contextmanager
def _faults_of(host: str, name: str) -> Iterator[None]:
    """Turns failures of the network into one line, without the address."""
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled  # the first is httpx2's, no dependency of ours

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise DownloadFailed(f"{host} can't be reached: HF_HUB_OFFLINE is set; unset it to download") from error
    except (HTTPError, ConnectionError) as error:
        raise Transient(f"{name}: no connection to {host} ({type(error).__name__}): pull it again to go on") from error
    except OSError as error:
        raise DownloadFailed(f"{name} can't be downloaded: {error.strerror or error}") from error
    except ValueError as error:  # an address, or an answer, that can't be read
        raise DownloadFailed(f"{name} can't be downloaded: what {host} says can't be understood") from error
