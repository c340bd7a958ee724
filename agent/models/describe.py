"""The description of a GGUF file, and whether it is a gpt-oss model that can be run; also for one that isn't."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ossia.agent.errors import ModelError
from ossia.agent.models.find import Found
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gguf_parts import GgufHeader, StringArray, TensorInfo
from ossia.agent.models.model import Origin, model_of
from ossia.agent.models.plan import is_expert

_MAX_TEXT_CHARS: Final = 80  # of a text in the header
_NUMBERS: Final = {
    "layers": "block_count",
    "embedding": "embedding_length",
    "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv",
    "head_size": "attention.key_length",
    "experts": "expert_count",
    "experts_used": "expert_used_count",
    "window": "attention.sliding_window",
    "context": "context_length",
}
GROUPS: Final = ("experts", "attention", "router", "norms", "embedding", "output", "other")
"""The purposes of tensors, in the order of display."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The storage of a group of tensors: `Stored("experts", "MXFP4", tensors=72, bytes=10_152_345_600)`."""

    group: str
    kind: str
    tensors: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Description:
    """A model file by its header. `numbers` are those that it gives (`{"layers": 24, …}`), by our names.

    `title` is the name inside the file, cut to 80 characters; like `architecture` it is text from outside. `problem`:
    why it can't be run; None: it can. `parts` are its files, as far as they could be read.
    """

    path: Path
    origin: Origin
    architecture: str | None
    title: str | None
    numbers: dict[str, int]
    vocabulary: int | None
    parts: tuple[Path, ...]
    file_bytes: int
    stored: tuple[Stored, ...]
    problem: str | None


def describe(path: Path, *, origin: Origin = "path") -> Description:
    """Describe `path` by its header. Raises `ModelError` if there is no header that can be read."""
    header = read_header(path)
    parts: tuple[Path, ...] = (path,)
    file_bytes, problem = header.file_bytes, None
    tensors: Iterable[TensorInfo] = header.tensors.values()
    try:
        model = model_of(header, origin=origin)
        parts, file_bytes, tensors = model.parts, model.file_bytes, model.tensors.values()
        model.vocabulary()
    except ModelError as error:
        problem = str(error).removeprefix(f"{path}: ")
    architecture, tokens = _text(header, "general.architecture"), header.metadata.get("tokenizer.ggml.tokens")
    return Description(
        path=path,
        origin=origin,
        architecture=architecture,
        title=_text(header, "general.name"),
        numbers=_numbers(header, architecture or ""),
        vocabulary=len(tokens.value) if tokens is not None and isinstance(tokens.value, StringArray) else None,
        parts=parts,
        file_bytes=file_bytes,
        stored=_stored(tensors),
        problem=problem,
    )


def unreadable(one: Found, error: ModelError) -> Description:
    """Describe a file whose header can't be read: `error` says why."""
    problem = str(error).removeprefix(f"{one.path}: ")
    return Description(one.path, one.origin, None, None, {}, None, (one.path,), one.file_bytes, (), problem)


def _text(header: GgufHeader, key: str) -> str | None:
    entry = header.metadata.get(key)
    return str(entry.value)[:_MAX_TEXT_CHARS] if entry is not None and entry.kind == "str" else None


def _numbers(header: GgufHeader, architecture: str) -> dict[str, int]:
    found = {name: header.metadata.get(f"{architecture}.{key}") for name, key in _NUMBERS.items()}
    return {
        name: entry.value
        for name, entry in found.items()
        if entry is not None and isinstance(entry.value, int) and not isinstance(entry.value, bool)
    }


def _stored(tensors: Iterable[TensorInfo]) -> tuple[Stored, ...]:
    """By group, the type that takes the most first."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for tensor in tensors:
        key = (_group(tensor), tensor.kind)
        count, size = sums.get(key, (0, 0))
        sums[key] = (count + 1, size + tensor.bytes)
    rows = (Stored(group, kind, count, size) for (group, kind), (count, size) in sums.items())
    return tuple(sorted(rows, key=lambda row: (GROUPS.index(row.group), -row.bytes, row.kind)))


def _group(tensor: TensorInfo) -> str:
    name = tensor.name
    part = name.split(".", 2)[2] if name.startswith("blk.") and name.count(".") >= 2 else name
    if is_expert(tensor):
        return "experts"
    if "norm" in part:
        return "norms"
    if part.startswith("attn_"):
        return "attention"
    if part.startswith("ffn_gate_inp"):
        return "router"
    return {"token_embd.weight": "embedding", "output.weight": "output"}.get(name, "other")
