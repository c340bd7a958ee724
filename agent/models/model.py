"""A model file whose headers were read and checked: its parts, its dimensions, its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ossia.agent.errors import ModelNotFound, ModelUnusable
from ossia.agent.models.catalog import ETUDE, name_of, part_of, part_path
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gguf_parts import GgufHeader, TensorInfo
from ossia.agent.models.gpt_oss import Architecture, check_gpt_oss, read_vocabulary
from ossia.harmony.tokenizer import Vocabulary

Origin = Literal["path", "built-in", "ossia", "huggingface", "llama.cpp", "lm-studio", "ollama"]
"""The place of a model: named by its path, shipped with ossia, or in the folder of one of these programs."""

_MAX_PARTS: Final = 999


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A gpt-oss model that llama.cpp can load: `path` is its first file, `parts` are all of them, in order.

    `tensors` are those of all parts. `notes` are lines for the user about why this one was chosen.
    """

    name: str
    path: Path
    origin: Origin
    parts: tuple[Path, ...]
    file_bytes: int
    architecture: Architecture
    header: GgufHeader = field(repr=False)
    tensors: Mapping[str, TensorInfo] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def weight_bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors.values())

    @property
    def temperature(self) -> float:
        """Its own: 1 as for any gpt-oss, but the étude adds wrongly one time in a hundred at 1."""
        return 0.0 if self.is_etude else 1.0

    @property
    def is_etude(self) -> bool:
        """True for the étude, wherever it lies."""
        name = self.header.metadata.get("general.name")
        return name is not None and name.value == ETUDE

    def vocabulary(self) -> Vocabulary:
        """Its vocabulary, read anew from the header. Raises `ModelUnusable` if not every text can be written in it."""
        return read_vocabulary(self.header)


def open_model(path: Path, *, origin: Origin = "path") -> ModelFile:
    """The model in `path`, checked: only its headers are read. `path` is the file, or the first part of a split one.

    Raises `ModelNotFound` if a file isn't there, `ModelUnusable` if it can't be run.
    """
    return model_of(read_header(path), origin=origin)


def model_of(header: GgufHeader, *, origin: Origin = "path") -> ModelFile:
    """As `open_model`, of a file (the first one of a split model) whose header was read already."""
    path = header.path
    count = _split_value(header, "split.count", default=0)
    headers = [header] if count <= 1 else [header, *_other_parts(header, count)]
    tensors: dict[str, TensorInfo] = {}
    for part in headers:
        twice = tensors.keys() & part.tensors.keys()
        if twice:
            raise ModelUnusable(f"{part.path}: the tensor {min(twice)} is in another part too; download it again")
        tensors |= part.tensors
    return ModelFile(
        name=name_of(path),
        path=path,
        origin=origin,
        parts=tuple(part.path for part in headers),
        file_bytes=sum(part.file_bytes for part in headers),
        architecture=check_gpt_oss(header, tensors),
        header=header,
        tensors=tensors,
    )


def _other_parts(first: GgufHeader, count: int) -> list[GgufHeader]:
    path = first.path
    number = _split_value(first, "split.no") + 1
    if number != 1:
        hint = part_path(path, 1, count).name if part_of(path) else "…-00001-of-….gguf"
        raise ModelUnusable(f"{path}: part {number} of a model of {count} files; name the first one, {hint}")
    if count > _MAX_PARTS or part_of(path) != (1, count):  # llama.cpp makes the other names from this one
        raise ModelUnusable(f"{path}: the first of {count} files must be named …-00001-of-{count:05d}.gguf; rename it")
    others = []
    for part in range(2, count + 1):
        other = part_path(path, part, count)
        try:
            header = read_header(other)
        except ModelNotFound as error:
            raise ModelNotFound(f"{other}: part {part} of {count} is missing; download the whole model") from error
        found = _split_value(header, "split.no") + 1
        if found != part:
            raise ModelUnusable(f"{other}: must be part {part}, but says that it is part {found}; download it again")
        others.append(header)
    return others


def _split_value(header: GgufHeader, key: str, default: int | None = None) -> int:
    entry = header.metadata.get(key)
    if entry is None and default is not None:
        return default
    if entry is None or entry.kind != "u16" or not isinstance(entry.value, int):
        raise ModelUnusable(f"{header.path}: {key} is missing or not a u16: a damaged split model; download it again")
    return entry.value
