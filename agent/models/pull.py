"""Downloads a model of the catalogue from the Hugging Face hub: resumed where it was cut, checked by its hash.

`hf_hub_download` isn't used: when it is interrupted, it deletes what came (huggingface_hub 2.4), and nobody wants to
download 12 GB twice. The library's session, addresses, tokens and errors are used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from agent.errors import DownloadFailed
from agent.models.catalog import CatalogModel
from agent.models.find import MODELS_FOLDER

_BLOCK_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 30  # without a byte
_TRIES: Final = 5
_LOCK_WAIT_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far it is: `done` of `total` bytes of all files. The phase that checks the hashes counts from 0 again."""

    phase: Literal["download", "check"]
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    name: str
    bytes: int
    sha256: str

    def target(self, folder: Path) -> Path:
        return folder / Path(self.name).name

    def partial(self, folder: Path) -> Path:
        """Named after its content, so that a part is never continued with another version of the file."""
        return folder / f"{Path(self.name).name}.{self.sha256[:12]}.part"


@dataclass(frozen=True, slots=True)
class _Job:
    """What does not change during a pull."""

    model: CatalogModel
    revision: str
    folder: Path
    endpoint: str | None
    retry_pause_s: float


def free_disk(folder: Path) -> int:
    """The free bytes where `folder` is, or will be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def keeps_part(model: CatalogModel, data_dir: Path) -> bool:
    """Is there a part of a download of `model` that `pull` would go on with?"""
    parts = (data_dir / MODELS_FOLDER).glob("*.part")
    named = (path for path in parts if re.fullmatch(model.files, path.name.rsplit(".", 2)[0]))
    return any(path.stat().st_size for path in named)


def pull(
    model: CatalogModel,
    data_dir: Path,
    *,
    on_progress: Callable[[PullProgress], None],
    endpoint: str | None = None,
    free_bytes: Callable[[Path], int] = free_disk,
    retry_pause_s: float = 2.0,
) -> Path:
    """Download `model` into the models folder of `data_dir`; returns the path of its (first) file.

    What is there already is not downloaded again; a file that was cut off is continued. `endpoint` None: the hub, or
    what HF_ENDPOINT says; huggingface_hub finds the token (HF_TOKEN, `hf auth login`). Raises `DownloadFailed` if the
    hub can't be reached or doesn't have the model, if the disk is too small, or if what came isn't what the hub has.
    An interrupt (KeyboardInterrupt) passes through; the part that came is kept.
    """
    folder = data_dir / MODELS_FOLDER
    with _quiet_hub(), _faults_of(model, folder):
        revision, files = _remote_files(model, endpoint)
        targets = ((file, file.target(folder)) for file in files)
        missing = [file for file, path in targets if not path.is_file() or path.stat().st_size != file.bytes]
        _check_disk(model, missing, folder, free_bytes)
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder / f"{model.name}.lock", model):
            _download_all(_Job(model, revision, folder, endpoint, retry_pause_s), missing, on_progress)
    return files[0].target(folder)


def _remote_files(model: CatalogModel, endpoint: str | None) -> tuple[str, list[_RemoteFile]]:
    """The revision (a commit, so that all files are of the same one) and the files, in order."""
    from huggingface_hub import HfApi

    info = HfApi(endpoint=endpoint).model_info(model.repo, files_metadata=True, timeout=_TIMEOUT_S)
    files = []
    for found in info.siblings or ():
        if re.fullmatch(model.files, Path(found.rfilename).name):
            if found.lfs is None or found.size is None:
                raise DownloadFailed(f"{model.repo}: the hub has no hash of {found.rfilename}, so it can't be checked")
            files.append(_RemoteFile(found.rfilename, found.size, found.lfs.sha256))
    if not files or info.sha is None:
        raise DownloadFailed(
            f"{model.repo} has no file like {model.files} any more: download a GGUF yourself and use --model PATH"
        )
    return info.sha, sorted(files, key=lambda file: file.name)


def _check_disk(
    model: CatalogModel, missing: list[_RemoteFile], folder: Path, free_bytes: Callable[[Path], int]
) -> None:
    partials = (file.partial(folder) for file in missing)
    needed = sum(file.bytes for file in missing) - sum(path.stat().st_size for path in partials if path.is_file())
    free = free_bytes(folder)
    if needed > free:
        raise DownloadFailed(
            f"{model.name} needs {needed / 1e9:.2f} GB of disk, {free / 1e9:.2f} GB are free in {folder}: "
            "free up space, or download it elsewhere and use --model PATH"
        )


def _download_all(job: _Job, missing: list[_RemoteFile], on_progress: Callable[[PullProgress], None]) -> None:
    """The first file is downloaded last: a split model is found by that file, and so only once it is whole."""
    total = sum(file.bytes for file in missing)

    def reporter(phase: Literal["download", "check"], before: int) -> Callable[[int], None]:
        return lambda of_file: on_progress(PullProgress(phase, before + of_file, total))

    done = 0
    for file in reversed(missing):
        _download(job, file, reporter("download", done))
        done += file.bytes
    done = 0
    for file in reversed(missing):
        _check(file, file.partial(job.folder), reporter("check", done))
        file.partial(job.folder).replace(file.target(job.folder))
        done += file.bytes


def _download(job: _Job, file: _RemoteFile, report: Callable[[int], None]) -> None:
    """Fill the partial file. A broken connection is made again, until nothing came `_TRIES` times in a row."""
    partial = file.partial(job.folder)
    if partial.is_file() and partial.stat().st_size > file.bytes:
        partial.unlink()
    failures = 0
    with partial.open("ab") as out:
        while out.tell() < file.bytes:
            came = out.tell()
            report(came)
            try:
                with _faults_of(job.model, job.folder):
                    _transfer(job, file, out, report)
                    if out.tell() < file.bytes:
                        raise ConnectionError("the transfer ended early")
            except _Transient as error:
                failures = failures + 1 if out.tell() <= came else 0
                if failures >= _TRIES:
                    raise DownloadFailed(str(error)) from error
                time.sleep(job.retry_pause_s)


def _transfer(job: _Job, file: _RemoteFile, out: BinaryIO, report: Callable[[int], None]) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    url = hf_hub_url(job.model.repo, file.name, revision=job.revision, endpoint=job.endpoint)
    came = out.tell()
    asked = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={came}-"} if came else {})
    with http_stream_backoff(
        "GET", url, headers=build_hf_headers(headers=asked), timeout=_TIMEOUT_S, max_retries=0
    ) as got:
        hf_raise_for_status(got)
        if came and got.status_code != 206:  # the server ignores ranges: this is the whole file
            out.truncate(0)
        for block in got.iter_bytes():  # as they come: an unfinished block of a fixed size would be lost
            out.write(block)
            report(out.tell())


def _check(file: _RemoteFile, path: Path, report: Callable[[int], None]) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
            report(content.tell())
        os.fsync(content.fileno())
    if digest.hexdigest() != file.sha256:
        path.unlink()
        raise DownloadFailed(
            f"{file.name}: its sha256 is {digest.hexdigest()[:12]}…, the hub says {file.sha256[:12]}…: "
            "the file was deleted; pull it again"
        )


class _Transient(DownloadFailed):
    """A failure that may not happen again on the next try."""


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Silence the hub's library: it logs whole addresses on stderr, and a signed address is a secret for a while."""
    from huggingface_hub.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextmanager
def _only_one(lock: Path, model: CatalogModel) -> Iterator[None]:
    """Lock the download: two of them into one file would spoil it."""
    from huggingface_hub.utils import WeakFileLock

    locked = WeakFileLock(lock, timeout=_LOCK_WAIT_S)
    try:
        locked.__enter__()
    except TimeoutError as error:
        raise DownloadFailed(f"{model.name} is being downloaded by another ossia: wait for that one") from error
    try:
        yield
    finally:
        locked.__exit__(None, None, None)


@contextmanager
def _faults_of(model: CatalogModel, folder: Path) -> Iterator[None]:
    """Turns failures of the hub and the network into one line, without an address (which may hold a signature)."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HTTPError,  # httpx2's, which is no dependency of ours
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    def again() -> str:
        kept, do = keeps_part(model, folder.parent), f"`ossia models pull {model.name}`"
        return f"partial download kept, {do} resumes it" if kept else f"nothing was downloaded, {do} tries again"

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise DownloadFailed(f"{model.repo} can't be reached: HF_HUB_OFFLINE is set; unset it to download") from error
    except GatedRepoError as error:
        raise DownloadFailed(f"{model.repo} asks for a token: set HF_TOKEN, or run `hf auth login`") from error
    except RepositoryNotFoundError as error:
        raise DownloadFailed(
            f"{model.repo} isn't on the hub (or needs a token): check HF_ENDPOINT and HF_TOKEN"
        ) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        kind = _Transient if status in (408, 429) or status >= 500 else DownloadFailed
        raise kind(f"{model.repo}: the hub answered {status}; {again()}") from error
    except HTTPError as error:
        raise _Transient(f"{model.repo}: no connection to the hub ({type(error).__name__}); {again()}") from error
    except ConnectionError as error:
        raise _Transient(f"{model.repo}: {error}; {again()}") from error
    except OSError as error:
        raise DownloadFailed(f"{model.name} can't be downloaded: {error.strerror or error}; {again()}") from error
