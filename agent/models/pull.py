"""Downloads models from the Hugging Face hub: resumed where they were cut, checked by their hash.

`hf_hub_download` isn't used: when it is interrupted, it deletes what came (huggingface_hub 2.4), and nobody wants to
download 12 GB twice. The library's session, addresses, tokens and errors are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from agent.errors import DownloadFailed, ModelMissing
from agent.models.catalog import CatalogModel, goes_with_a_model, stem_of
from agent.models.find import MODELS_FOLDER
from agent.models.transfer import (
    TIMEOUT_S,
    PullProgress,
    Report,
    Transient,
    check_disk,
    digest,
    fill,
    free_disk,
    only_one,
    quiet_hub,
)

_MOST_NAMED = 10  # models of a repository in an error


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
    data_dir: Path
    endpoint: str | None
    retry_pause_s: float

    @property
    def folder(self) -> Path:
        return _folder(self.model, self.data_dir)


def parts_kept(model: CatalogModel, data_dir: Path) -> list[Path]:
    """The parts of a download of `model` that `pull` would go on with."""
    named = (
        path
        for path in _folder(model, data_dir).glob("*.part")
        if re.fullmatch(model.files, path.name.rsplit(".", 2)[0])
    )
    return [path for path in named if path.stat().st_size]


def on_the_hub(repo: str, wanted: str | None, data_dir: Path, *, endpoint: str | None = None) -> CatalogModel:
    """The GGUF model in a repository of the hub: `on_the_hub("unsloth/gpt-oss-20b-GGUF", "Q4_K_M", data)`.

    `wanted` is a file's name, or a part of it that only one model's has; None: there is only one. Its files go into a
    folder of the repository's name. Raises `ModelMissing`, which names those there are, and `DownloadFailed`.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    named = f"{repo}:{wanted}" if wanted else repo
    asked = CatalogModel(named, repo, r"(?!)", 0, folder=repo)
    try:
        with quiet_hub(), _faults_of(asked, data_dir):
            info = HfApi(endpoint=endpoint).model_info(repo, files_metadata=True, timeout=TIMEOUT_S)
    except HFValidationError:
        raise ModelMissing(f"{repo!r} can't be a repository: it must be ORG/REPO, as on the hub's pages") from None
    models: dict[str, list[tuple[str, int]]] = {}
    for found in info.siblings or ():
        name = Path(found.rfilename).name
        if name.endswith(".gguf") and not goes_with_a_model(name):
            models.setdefault(stem_of(name), []).append((name, found.size or 0))
    chosen = _chosen(models, wanted)
    if len(chosen) != 1:
        among = chosen or sorted(models)
        more = f" and {len(among) - _MOST_NAMED} more" if len(among) > _MOST_NAMED else ""
        names = ", ".join(f"{stem}.gguf" for stem in among[:_MOST_NAMED])
        said = f"has {names}{more}: name one, ossia models pull {repo}:FILE" if models else "has no GGUF model"
        raise ModelMissing(f"{named}: {repo} {said}")
    files = models[chosen[0]]
    if len({name for name, _ in files}) < len(files):
        raise ModelMissing(f"{named}: {repo} has {files[0][0]} in two folders: download one yourself, use --model PATH")
    pattern = "|".join(re.escape(name) for name, _ in files)
    return CatalogModel(named, repo, pattern, sum(size for _, size in files), folder=repo)


def _chosen(models: dict[str, list[tuple[str, int]]], wanted: str | None) -> list[str]:
    if wanted is None:
        return sorted(models)
    exact = [stem for stem in models if stem_of(Path(wanted).name) == stem]
    return exact or sorted(stem for stem in models if wanted.lower() in stem.lower())


def _folder(model: CatalogModel, data_dir: Path) -> Path:
    return data_dir / MODELS_FOLDER / model.folder


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
    folder = _folder(model, data_dir)
    with quiet_hub(), _faults_of(model, data_dir):
        revision, files = _remote_files(model, endpoint)
        targets = ((file, file.target(folder)) for file in files)
        missing = [file for file, path in targets if not path.is_file() or path.stat().st_size != file.bytes]
        partials = (file.partial(folder) for file in missing)
        came = sum(path.stat().st_size for path in partials if path.is_file())
        check_disk(model.name, sum(file.bytes for file in missing) - came, folder, free_bytes)
        folder.mkdir(parents=True, exist_ok=True)
        with only_one(folder, model.name):
            _download_all(_Job(model, revision, data_dir, endpoint, retry_pause_s), missing, on_progress)
    return files[0].target(folder)


def _remote_files(model: CatalogModel, endpoint: str | None) -> tuple[str, list[_RemoteFile]]:
    """The revision (a commit, so that all files are of the same one) and the files, in order."""
    from huggingface_hub import HfApi

    info = HfApi(endpoint=endpoint).model_info(model.repo, files_metadata=True, timeout=TIMEOUT_S)
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


def _download_all(job: _Job, missing: list[_RemoteFile], on_progress: Callable[[PullProgress], None]) -> None:
    """The first file is downloaded last: a split model is found by that file, and so only once it is whole."""
    total = sum(file.bytes for file in missing)

    def reporter(phase: Literal["download", "check"], before: int) -> Report:
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


def _download(job: _Job, file: _RemoteFile, report: Report) -> None:
    fill(
        file.partial(job.folder),
        file.bytes,
        lambda out, told: _transfer(job, file, out, told),
        lambda: _faults_of(job.model, job.data_dir),
        report,
        retry_pause_s=job.retry_pause_s,
    )


def _transfer(job: _Job, file: _RemoteFile, out: BinaryIO, report: Report) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

    url = hf_hub_url(job.model.repo, file.name, revision=job.revision, endpoint=job.endpoint)
    came = out.tell()
    asked = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={came}-"} if came else {})
    with http_stream_backoff(
        "GET", url, headers=build_hf_headers(headers=asked), timeout=TIMEOUT_S, max_retries=0
    ) as got:
        hf_raise_for_status(got)
        if came and got.status_code != 206:  # the server ignores ranges: this is the whole file
            out.truncate(0)
        for block in got.iter_bytes():  # as they come: an unfinished block of a fixed size would be lost
            out.write(block)
            report(out.tell())


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
        HTTPError,  # httpx2's, which is no dependency of ours
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
