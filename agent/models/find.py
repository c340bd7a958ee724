"""Finds the gpt-oss models that are already on this machine, in the folders of the programs that download them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ossia.agent.models.catalog import ETUDE, ETUDE_PATH, goes_with_a_model, name_of, part_of, part_path
from ossia.agent.models.model import Origin
from ossia.agent.models.ollama import GPT_OSS, ollama_models

MODELS_FOLDER: Final = "models"
"""In the data folder: what `ossia models pull` downloads."""

_MAX_DEPTH: Final = 5
_MAX_FOLDERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Locations:
    """The folders to search, in this order: ossia's data folder, those of Hugging Face, llama.cpp, LM Studio, Ollama.

    A folder that isn't there is skipped. `cli.commands.models.locations` fills this in from the environment.
    """

    data: Path
    huggingface: Path | None = None
    llama_cpp: Path | None = None
    lm_studio: tuple[Path, ...] = ()
    ollama: tuple[Path, ...] = ()


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
    for origin, folder in _folders(locations):
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
    own, *others = [(origin, _real(folder)) for origin, folder in _folders(locations)]
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


def _folders(locations: Locations) -> Iterator[tuple[Origin, Path]]:
    yield "ossia", locations.data / MODELS_FOLDER
    if locations.huggingface:
        yield "huggingface", locations.huggingface
    if locations.llama_cpp:
        yield "llama.cpp", locations.llama_cpp
    for folder in locations.lm_studio:
        yield "lm-studio", folder
    for folder in locations.ollama:
        yield "ollama", folder


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
