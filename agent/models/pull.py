"""Downloads models from the Hugging Face hub: resumed where they were cut, checked by their hash.

`hf_hub_download` isn't used: when it is interrupted, it deletes what came (huggingface_hub 2.4), and nobody wants to
download 12 GB twice. The library's session, addresses, tokens and errors are used.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ossia.agent.errors import DownloadFailed, ModelNotFound
from ossia.agent.models.catalog import CatalogModel, goes_with_a_model, stem_of
from ossia.agent.models.find import files_of, folder_of, matching, model_stem
from ossia.agent.models.transfer import (
    TIMEOUT_S,
    PullProgress,
    Report,
    TooLong,
    Transient,
    blocks_of,
    body_of,
    check_disk,
    digest,
    free_disk,
    hub_token,
    is_size,
    only_one,
    quiet_hub,
)

_TRIES: Final = 5
_MOST_NAMED = 10  # models of a repository in an error
_MAX_LIST_BYTES: Final = 16 << 20
"""Of the list of a repository's files; ten thousand files are some 5 MB."""


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    """A file in the hub's list; `bytes` 0, `sha256` "": the hub has none."""

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
    """The constants of a pull."""

    model: CatalogModel
    revision: str
    data_dir: Path
    endpoint: str | None
    retry_pause_s: float

    @property
    def folder(self) -> Path:
        return folder_of(self.model, self.data_dir)


def parts_kept(model: CatalogModel, data_dir: Path) -> list[Path]:
    """The parts of a download of `model` that `pull` would go on with."""
    return [path for path in files_of(model.name, data_dir) if path.suffix == ".part" and path.stat().st_size]


def on_the_hub(repo: str, wanted: str | None, data_dir: Path, *, endpoint: str | None = None) -> CatalogModel:
    """The GGUF model in a repository of the hub: `on_the_hub("unsloth/gpt-oss-20b-GGUF", "Q4_K_M", data)`.

    `wanted` is a file's name, or a part of it that only one model's has; None: there is only one. Its files go into a
    folder of the repository's name. Raises `ModelNotFound`, which names those there are, and `DownloadFailed`.
    """
    from huggingface_hub.errors import HFValidationError

    named = f"{repo}:{wanted}" if wanted else repo
    asked = CatalogModel(named, repo, r"(?!)", 0, folder=repo)
    try:
        with quiet_hub(), _faults_of(asked, data_dir):
            _, listed = _listed(repo, endpoint)
    except HFValidationError:
        raise ModelNotFound(f"{repo!r} can't be a repository: it must be ORG/REPO, as on the hub's pages") from None
    models: dict[str, list[tuple[str, int]]] = {}
    for found in listed:
        name = Path(found.name).name
        if name.endswith(".gguf") and not goes_with_a_model(name):
            models.setdefault(stem_of(name), []).append((name, found.bytes))
    chosen = sorted(models) if wanted is None else matching(sorted(models), wanted)
    if len(chosen) != 1:
        among = chosen or sorted(models)
        more = f" and {len(among) - _MOST_NAMED} more" if len(among) > _MOST_NAMED else ""
        names = ", ".join(f"{stem}.gguf" for stem in among[:_MOST_NAMED])
        said = f"has {names}{more}: name one, ossia models pull {repo}:FILE" if models else "has no GGUF model"
        raise ModelNotFound(f"{named}: {repo} {said}")
    files = models[chosen[0]]
    if len({name for name, _ in files}) < len(files):
        raise ModelNotFound(f"{named}: {repo} has {files[0][0]} in two folders: download one, and use --model PATH")
    pattern = "|".join(re.escape(name) for name, _ in files)
    return CatalogModel(named, repo, pattern, sum(size for _, size in files), folder=repo)


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

    What is there already is not downloaded again if its hash is right; a file that was cut off is continued.
    `endpoint` None: the hub, or what HF_ENDPOINT says; huggingface_hub finds the token (HF_TOKEN, `hf auth login`),
    which isn't sent where it could be read on the way.
    Raises `DownloadFailed` if the hub can't be reached or doesn't have the model, if the disk is too small, or if what
    came isn't what the hub has. An interrupt (KeyboardInterrupt) passes through; the part that came is kept.
    """
    folder = folder_of(model, data_dir)
    with quiet_hub(), _faults_of(model, data_dir):
        revision, files = _remote_files(model, endpoint)
        targets = [file.target(folder) for file in files]
        folder.mkdir(parents=True, exist_ok=True)
        with only_one(folder, model_stem(targets[0])):
            missing = _missing(files, folder, on_progress)
            partials = (file.partial(folder) for file in missing)
            came = sum(path.stat().st_size for path in partials if path.is_file())
            check_disk(model.name, sum(file.bytes for file in missing) - came, folder, free_bytes)
            _download_all(_Job(model, revision, data_dir, endpoint, retry_pause_s), missing, on_progress)
    return targets[0]


def _listed(repo: str, endpoint: str | None) -> tuple[str | None, list[_RemoteFile]]:
    """The revision (a commit, so that all files are of the same one) and the files. Nothing of it is trusted."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    validate_repo_id(repo)
    try:
        with _got(f"{endpoint or constants.ENDPOINT}/api/models/{repo}?blobs=true", endpoint, {}) as got:
            info = json.loads(body_of(got, _MAX_LIST_BYTES))
        return info.get("sha"), [_remote_file(found) for found in info.get("siblings") or ()]
    except HFValidationError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, TooLong) as error:
        raise DownloadFailed(
            f"{repo}: the answer isn't the hub's list of files: check HF_ENDPOINT, or sign in to the network"
        ) from error


def _remote_file(found: Any) -> _RemoteFile:
    name, size, sha256 = found["rfilename"], found.get("size") or 0, (found.get("lfs") or {}).get("sha256") or ""
    if not (name.isprintable() and isinstance(size, int) and size >= 0 and re.fullmatch(r"([0-9a-f]{64})?", sha256)):
        raise ValueError("a name, a size or a hash isn't one")
    return _RemoteFile(name, size, sha256)


def _remote_files(model: CatalogModel, endpoint: str | None) -> tuple[str, list[_RemoteFile]]:
    """The revision and the model's files, in order."""
    revision, listed = _listed(model.repo, endpoint)
    files = [found for found in listed if re.fullmatch(model.files, Path(found.name).name)]
    for found in files:
        if not found.sha256:
            raise DownloadFailed(f"{model.repo}: the hub has no hash of {found.name}, so it can't be checked")
    if not files or revision is None:
        raise DownloadFailed(
            f"{model.repo} has no file like {model.files} any more: download a GGUF yourself and use --model PATH"
        )
    return revision, sorted(files, key=lambda file: file.name)


def _missing(files: list[_RemoteFile], folder: Path, on_progress: Callable[[PullProgress], None]) -> list[_RemoteFile]:
    """Those that aren't there, or not as the hub has them."""
    there = [file for file in files if is_size(file.target(folder), file.bytes)]
    total, done, damaged = sum(file.bytes for file in there), 0, []
    for file in there:
        if digest(file.target(folder), _reporter(on_progress, "check", done, total)) != file.sha256:
            damaged.append(file)
        done += file.bytes
    return [file for file in files if file not in there or file in damaged]


def _reporter(
    on_progress: Callable[[PullProgress], None], phase: Literal["download", "check"], before: int, total: int
) -> Report:
    return lambda of_file: on_progress(PullProgress(phase, before + of_file, total))


def _download_all(job: _Job, missing: list[_RemoteFile], on_progress: Callable[[PullProgress], None]) -> None:
    """Download all; the first file comes last, since a split model is found by it, and so only once it is whole."""
    total, done = sum(file.bytes for file in missing), 0
    for file in reversed(missing):
        _download(job, file, _reporter(on_progress, "download", done, total))
        done += file.bytes
    done = 0
    for file in reversed(missing):
        _check(file, file.partial(job.folder), _reporter(on_progress, "check", done, total))
        done += file.bytes
    for file in reversed(missing):
        file.partial(job.folder).replace(file.target(job.folder))


def _download(job: _Job, file: _RemoteFile, report: Report) -> None:
    """Fill the part of the file from where it ends; a longer answer is refused.

    A broken connection is made again, until it got no further five times in a row.
    """
    from huggingface_hub import hf_hub_url

    url = hf_hub_url(job.model.repo, file.name, revision=job.revision, endpoint=job.endpoint)
    partial = file.partial(job.folder)
    if partial.is_file() and partial.stat().st_size > file.bytes:
        partial.unlink()
    failures, furthest = 0, 0
    with partial.open("ab") as out:
        while (came := out.tell()) < file.bytes:
            furthest = max(furthest, came)
            report(came)
            asked = {"Range": f"bytes={came}-"} if came else {}
            try:
                with _faults_of(job.model, job.data_dir), _got(url, job.endpoint, asked) as got:
                    start, blocks = blocks_of(got, came, file.bytes)
                    out.seek(start)
                    out.truncate()
                    for block in blocks:
                        if out.tell() + len(block) > file.bytes:
                            out.seek(0)
                            out.truncate()
                            raise TooLong
                        out.write(block)
                        report(out.tell())
                    if out.tell() < file.bytes:
                        raise ConnectionError("the transfer ended early")
            except Transient as error:
                failures = failures + 1 if out.tell() <= furthest else 0
                if failures >= _TRIES:
                    raise DownloadFailed(str(error)) from error
                time.sleep(job.retry_pause_s)


@contextmanager
def _got(url: str, endpoint: str | None, headers: dict[str, str]) -> Iterator[Any]:
    """The hub's answer, its body unread. Raises the hub's errors."""
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    asked = build_hf_headers(token=hub_token(endpoint), headers={"Accept-Encoding": "identity", **headers})
    with http_stream_backoff(
        "GET", url, headers=asked, timeout=TIMEOUT_S, max_retries=0, retry_on_status_codes=()
    ) as got:
        if got.is_error:
            got.close()  # or all of what the error says would be read, however much that is
        hf_raise_for_status(got)
        yield got


def _check(file: _RemoteFile, path: Path, report: Report) -> None:
    found = digest(path, report)
    if found != file.sha256:
        path.unlink()
        raise DownloadFailed(
            f"{file.name}: its sha256 is {found[:12]}…, the hub says {file.sha256[:12]}…: "
            "the file was deleted; pull it again"
        )


@contextmanager
def _faults_of(model: CatalogModel, data_dir: Path) -> Iterator[None]:
    """Turns failures of the hub and the network into one line, without an address (which may hold a signature)."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HTTPError,  # httpx2's, not our dependency
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    def again() -> str:
        kept, do = bool(parts_kept(model, data_dir)), f"`ossia models pull {model.name}`"
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
        kind = Transient if status in (408, 429) or status >= 500 else DownloadFailed
        raise kind(f"{model.repo}: the hub answered {status}; {again()}") from error
    except HTTPError as error:
        raise Transient(f"{model.repo}: no connection to the hub ({type(error).__name__}); {again()}") from error
    except ConnectionError as error:
        raise Transient(f"{model.repo}: {error}; {again()}") from error
    except OSError as error:
        raise DownloadFailed(f"{model.name} can't be downloaded: {error.strerror or error}; {again()}") from error
