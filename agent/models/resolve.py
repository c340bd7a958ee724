"""The model that `--model PATH|NAME` means, and the one used without it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ossia.agent.errors import ModelError, ModelNotFound
from ossia.agent.models.catalog import DOWNLOADS, ETUDE, ETUDE_PATH, NAMES, download_of
from ossia.agent.models.find import Found, Locations, files_of, find_models, found_at
from ossia.agent.models.memory import Memory, size_text
from ossia.agent.models.model import ModelFile, open_model
from ossia.agent.models.needs import fits


def resolve(model: str | None, *, locations: Locations, memory: Memory) -> ModelFile:
    """The model that `model` means, checked: a name of the catalogue, a file's path, or the name of one that was found.

    None: the first model found that can be used and fits into `memory`, a gpt-oss-20b before a 120b; else the built-in
    étude (`origin` is "built-in"). `notes` says what was skipped. Raises `ModelNotFound`, with the command that gets
    the model, and `ModelUnusable`.
    """
    if model is None:
        return _best(find_models(locations), memory)
    if model == ETUDE:
        return open_model(ETUDE_PATH, origin="built-in")
    if download_of(model) is None and _is_path(model):
        path = _expanded(model)
        pulled = () if os.path.lexists(path) else _pulled(model, locations)
        return _first_usable(model, pulled) if pulled else open_model(path)
    return _first_usable(model, tuple(one for one in find_models(locations) if one.name == model))


def locate(model: str, *, locations: Locations) -> tuple[Found, ...]:
    """The files that `model` names, usable or not: those of a name, in the order of `locations`, or that of a path.

    They aren't opened. Raises `ModelNotFound`.
    """
    if download_of(model) is None and model != ETUDE and _is_path(model):
        path = _expanded(model)
        if os.path.lexists(path):
            return (found_at(path, locations),)
        pulled = _pulled(model, locations)
        if not pulled:
            raise ModelNotFound(f"{path}: no such file; name a gpt-oss model in GGUF format (ossia models list)")
        return pulled
    found = tuple(
        one for one in find_models(locations) if one.name == model and (model != ETUDE or one.origin == "built-in")
    )
    if not found:
        raise _missing(model)
    return found


def _pulled(model: str, locations: Locations) -> tuple[Found, ...]:
    """The models that `ossia models pull MODEL` brought, where that is a repository or an address."""
    files = files_of(model, locations.data)
    return tuple(one for one in find_models(locations) if one.path in files) if files else ()


def _is_path(model: str) -> bool:
    if "/" in model or "\\" in model or model.lower().endswith(".gguf"):
        return True
    try:
        return Path(model).is_file()
    except OSError:  # too long for a name: opening it says so
        return True


def _expanded(model: str) -> Path:
    try:
        return Path(model).expanduser()
    except RuntimeError:  # `~nobody`: no such user, so the name stands as it is
        return Path(model)


def _missing(model: str) -> ModelNotFound:
    download = download_of(model)
    if download is None:
        return ModelNotFound(f"no model {model!r}: give the path of a GGUF file, or one of {', '.join(NAMES)}")
    size = size_text(download.download_bytes)
    return ModelNotFound(f"{model} isn't on this machine; get it ({size}): ossia models pull {model}")


def _first_usable(name: str, found: tuple[Found, ...]) -> ModelFile:
    """The first of these files that is usable. If none is usable, raises the error of the first one."""
    errors: list[ModelError] = []
    for model in _opened(found, errors):
        return replace(model, notes=tuple(f"skipped: {error}" for error in errors))
    raise errors[0] if errors else _missing(name)


def _best(found: tuple[Found, ...], memory: Memory) -> ModelFile:
    errors: list[ModelError] = []
    for model in _opened([one for download in DOWNLOADS for one in found if one.name == download.name], errors):
        if fits(model, memory):
            break
        larger = f"{model.path} ({size_text(model.weight_bytes)}) is larger than free memory"
        errors.append(ModelError(f"{larger}; --model {model.name} forces it"))
    else:
        model = open_model(ETUDE_PATH, origin="built-in")
    return replace(model, notes=tuple(f"skipped: {error}" for error in errors))


def _opened(found: Iterable[Found], errors: list[ModelError]) -> Iterator[ModelFile]:
    for one in found:
        try:
            yield open_model(one.path, origin=one.origin)
        except ModelError as error:
            errors.append(error)
