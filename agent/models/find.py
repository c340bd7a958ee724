"""Finds the gpt-oss models that are already on this machine, in the folders of the programs that download them."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ossia.agent.models.catalog import (
    ETUDE,
    ETUDE_PATH,
    CatalogModel,
    download_of,
    goes_with_a_model,
    name_of,
    part_of,
    part_path,
    stem_of,
)
from ossia.tools.host import Host

if TYPE_CHECKING:
    from ossia.agent.models.model import Origin  # which reads models, with numpy

MODELS_FOLDER: Final = "models"
"""In the data folder: what `ossia models pull` downloads."""
MODEL_LAYER: Final = "application/vnd.ollama.image.model"
GPT_OSS: Final = re.compile(r"gpt[-_. ]?oss", re.IGNORECASE)
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_LIBRARY: Final = ("registry.ollama.ai", "library")
_MAX_MANIFESTS: Final = 2_000
_MAX_MANIFEST_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 5
_MAX_FOLDERS: Final = 5_000
# Neither may begin with a dot, so that neither is `..`.
_IN_REPOSITORY: Final = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(?::(?P<file>.+))?", re.ASCII)
_PART: Final = re.compile(r"(?:\.[0-9a-f]{12})?\.part$")


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """A model of Ollama's: `OllamaModel("gpt-oss:20b", "gpt-oss:20b", Path("…/blobs/sha256-b112…"))`.

    `called` is its name there (`ollama rm` takes it), `name` is ours: `gpt-oss-20b` for `hf.co/…/gpt-oss-20b-GGUF`.
    """

    name: str
    called: str
    path: Path


def ollama_models(folder: Path) -> Iterator[OllamaModel]:
    """Ollama's gpt-oss models below `folder` (`~/.ollama/models`), by name. What can't be read is skipped.

    `manifests/HOST/OWNER/MODEL/TAG` is JSON whose layer of the kind `MODEL_LAYER` names `blobs/sha256-…`, a GGUF. What
    Ollama's own library calls gpt-oss has a form that llama.cpp can't read (`gptoss`); `hf.co/…` are the usual files.
    """
    manifests = folder / "manifests"
    paths = (path for path in manifests.glob("*/*/*/*") if _file_bytes(path) is not None)
    for path in sorted(islice(paths, _MAX_MANIFESTS)):
        host, owner, model, tag = path.relative_to(manifests).parts
        blob = _blob(path, folder) if GPT_OSS.search(model) else None
        if blob is not None:
            called = f"{model}:{tag}" if (host, owner) == _LIBRARY else f"{host}/{owner}/{model}:{tag}"
            name = called if (host, owner) == _LIBRARY else name_of(Path(f"{model}.gguf"))
            yield OllamaModel(name, called, blob)


def called_there(blob: Path) -> tuple[str, ...]:
    """The names that Ollama has for the model in this blob: `("gpt-oss:20b",)`. Empty: no manifest names it."""
    return tuple(one.called for one in ollama_models(blob.parent.parent) if one.path == blob)


def _blob(manifest: Path, folder: Path) -> Path | None:
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            return None
        layers = json.loads(manifest.read_bytes())["layers"]
        digests = [_DIGEST.fullmatch(one["digest"]) for one in layers if one["mediaType"] == MODEL_LAYER]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    found = next(filter(None, digests), None)
    return folder / "blobs" / f"sha256-{found[1]}" if found else None


@dataclass(frozen=True, slots=True)
class Locations:
    """The folders to search, in order: the one in ossia's `data`, then `others`. A missing folder is skipped."""

    data: Path
    others: tuple[tuple[Origin, Path], ...] = ()

    @property
    def folders(self) -> tuple[tuple[Origin, Path], ...]:
        return (("ossia", self.data / MODELS_FOLDER), *self.others)


def locations(host: Host) -> Locations:
    """The folders of this machine: by the variables and the defaults of the programs that download models."""
    env, home = host.environ, host.home

    def expanded(name: str | Path) -> Path:
        first, *rest = Path(name).parts or ("",)
        return home.joinpath(*rest) if first == "~" else Path(name)

    caches = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    hub_home = Path(env.get("HF_HOME") or caches / "huggingface")
    hub = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or hub_home / "hub"
    llama_caches = {"darwin": home / "Library" / "Caches", "win32": Path(env.get("LOCALAPPDATA") or home)}
    others: list[tuple[Origin, Path]] = [
        ("huggingface", expanded(hub)),
        ("llama.cpp", expanded(env.get("LLAMA_CACHE") or llama_caches.get(sys.platform, caches) / "llama.cpp")),
        ("lm-studio", home / ".lmstudio" / "models"),
        ("lm-studio", home / ".cache" / "lm-studio" / "models"),
    ]
    if named := env.get("OLLAMA_MODELS"):
        others.append(("ollama", expanded(named)))
    else:
        others.append(("ollama", home / ".ollama" / "models"))
        others += [("ollama", Path("/usr/share/ollama/.ollama/models"))] if sys.platform == "linux" else []
    return Locations(host.data, tuple(others))


@dataclass(frozen=True, slots=True)
class Found:
    """A model file that was found by its name, not opened. `file_bytes` counts all parts that are there."""

    name: str
    path: Path
    origin: Origin
    file_bytes: int

    @property
    def files(self) -> tuple[Path, ...]:
        """Those of its files that are there, also links to nothing; no folders."""
        named = dict.fromkeys((self.path, *_parts(self.path)))
        return tuple(path for path in named if path.is_symlink() or _file_bytes(path) is not None)


def find_models(locations: Locations) -> tuple[Found, ...]:
    """The gpt-oss models in `locations`, in that order, then the built-in one. A file comes once by each of its names.

    Only file names are looked at (`*gpt-oss*.gguf`, Ollama's manifests; in ossia's own folder every `.gguf`); a split
    model is its first file. No model is opened.
    """
    found: list[Found] = []
    seen: set[tuple[str, Path]] = set()
    for origin, folder in locations.folders:
        for name, path in _named_files(origin, folder):
            named = (name, path.resolve())
            if named not in seen:
                seen.add(named)
                owner = _owner(path, locations) if origin == "ossia" else origin
                found.append(Found(name, path, owner, _bytes_of(path)))
    return (*found, Found(ETUDE, ETUDE_PATH, "built-in", _bytes_of(ETUDE_PATH)))


def found_at(path: Path, locations: Locations) -> Found:
    """The model file at `path`, named by the user, with the program whose folder it is in. It isn't opened."""
    if _real(path) == _real(ETUDE_PATH):
        return Found(ETUDE, path, "built-in", _bytes_of(path))
    origin = _owner(path, locations)
    return Found(_called(path, origin), path, origin, _bytes_of(path))


def _owner(path: Path, locations: Locations) -> Origin:
    """The program whose folder it is in; the others come first, should ossia's folder be one of theirs.

    What a link leads to may be in another's folder, too. A link in ossia's own is ossia's: `ossia models rm` may
    remove it.
    """
    own, *others = [(origin, _real(folder)) for origin, folder in locations.folders]
    here = _real(path.parent) / path.name
    for place, folders in ((here, [*others, own]), (_real(path), others)):
        for origin, folder in folders:
            if place.is_relative_to(folder):
                return origin
    return "path"


def _real(path: Path) -> Path:
    """The target of a path; of links that go round, one of them (`Path.resolve` raises RuntimeError there)."""
    return Path(os.path.realpath(path))


def _called(path: Path, origin: Origin) -> str:
    blobs = ollama_models(path.parent.parent) if origin == "ollama" else ()
    return next((one.name for one in blobs if one.path == path), name_of(path))


def _named_files(origin: Origin, folder: Path) -> Iterator[tuple[str, Path]]:
    if origin == "ollama":
        models = ((one.name, one.path) for one in ollama_models(folder))
        yield from ((name, path) for name, path in models if _file_bytes(path) is not None)
    else:
        yield from ((name_of(path), path) for path in _gguf_files(origin, folder))


def _gguf_files(origin: Origin, folder: Path) -> list[Path]:
    def may_be_one(path: Path) -> bool:
        return not goes_with_a_model(path.name) if origin == "ossia" else GPT_OSS.search(path.name) is not None

    paths = (path for path in _walk(folder) if path.suffix == ".gguf" and may_be_one(path))
    return sorted(path for path in paths if (part_of(path) or (1,))[0] == 1 and _file_bytes(path) is not None)


def _walk(folder: Path) -> Iterator[Path]:
    """The files below `folder`, down to a maximum depth and number of folders; what can't be read is skipped."""
    root_depth = len(folder.parts)
    for folders, (base, names, files) in enumerate(os.walk(folder)):
        if folders >= _MAX_FOLDERS:
            return
        if len(Path(base).parts) - root_depth >= _MAX_DEPTH:
            names.clear()
        names[:] = [name for name in names if name not in ("blobs", ".locks", ".no_exist")]
        yield from (Path(base, name) for name in files)


def _bytes_of(path: Path) -> int:
    return sum(_file_bytes(one) or 0 for one in _parts(path))


def _parts(path: Path) -> list[Path]:
    part = part_of(path)
    return [path] if part is None else [part_path(path, number, part[1]) for number in range(1, part[1] + 1)]


def _file_bytes(path: Path) -> int | None:
    """The file's size. None: it is no regular file, or its folder may not be read."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def in_repository(name: str) -> tuple[str, str | None] | None:
    """ORG/REPO, and FILE: `("unsloth/gpt-oss-20b-GGUF", "Q8_0")` for `"unsloth/gpt-oss-20b-GGUF:Q8_0"`, else None."""
    found = _IN_REPOSITORY.fullmatch(name)
    return (found["repo"], found["file"]) if found else None


def folder_of(model: CatalogModel, data_dir: Path) -> Path:
    """The folder for its files."""
    return data_dir / MODELS_FOLDER / model.folder


def model_stem(path: Path) -> str:
    """The common part of a model's file names: `"x"` for `x-00001-of-00003.gguf.0123456789ab.part`."""
    return stem_of(_PART.sub("", path.name))


def matching(stems: list[str], wanted: str) -> list[str]:
    """The stem that FILE means: the one that it is, else those that have it in them."""
    exact = [stem for stem in stems if stem_of(Path(wanted).name) == stem]
    return exact or [stem for stem in stems if wanted.lower() in stem.lower()]


def files_of(name: str, data_dir: Path) -> tuple[Path, ...]:
    """The files that `pull NAME` has put there, whole or not: NAME is as `pull` takes it. Empty: none, or no such name.

    files_of("someone/tuned-GGUF", data)    # (…/someone/tuned-GGUF/tuned-Q8_0.gguf.0123456789ab.part,)
    """
    known, there = download_of(name), in_repository(name)
    if known is not None:
        files = _files(folder_of(known, data_dir))
        return tuple(path for path in files if re.fullmatch(known.files, _PART.sub("", path.name)))
    if there is None:
        return ()
    repo, wanted = there
    files = _files(data_dir / MODELS_FOLDER / repo)
    stems = sorted({model_stem(path) for path in files})
    chosen = stems if wanted is None else matching(stems, wanted)
    return tuple(path for path in files if model_stem(path) in chosen)


def unfinished(data_dir: Path) -> tuple[Path, ...]:
    """The files that can't be used: parts of downloads, and files of a split model without its first one."""

    def is_left(path: Path) -> bool:
        part = part_of(path)
        return path.suffix == ".part" or (part is not None and part[0] > 1 and not part_path(path, 1, part[1]).exists())

    return tuple(path for path in _below(data_dir / MODELS_FOLDER) if is_left(path))


def _below(folder: Path) -> Iterator[Path]:
    for base, folders, _ in os.walk(folder):
        folders.sort()
        yield from _files(Path(base))


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in (".gguf", ".part") and path.is_file())
    except OSError:
        return []
