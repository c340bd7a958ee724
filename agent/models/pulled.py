"""The files that `ossia models pull` put, or left, in ossia's own folder of models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ossia.agent.models.catalog import CatalogModel, download_of, part_of, part_path, stem_of
from ossia.agent.models.find import MODELS_FOLDER

# Neither may begin with a dot, so that neither is `..`.
_IN_REPOSITORY: Final = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(?::(?P<file>.+))?", re.ASCII)
_PART: Final = re.compile(r"(?:\.[0-9a-f]{12})?\.part$")


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
