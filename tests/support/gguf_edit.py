"""Takes a GGUF apart and writes it back with something changed: for files that no writer would write.

edit = GgufEdit.of(path)
edit.entries["gpt-oss.expert_count"] = (4, struct.pack("<I", 0))
edit.write(other)
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
U8, U16, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 2, 4, 5, 6, 7, 8, 9, 10
MXFP4 = 39
"""A tensor's type."""


@dataclass
class Tensor:
    """One tensor as the header has it; `data` are its bytes, without the padding behind them."""

    shape: list[int]
    kind: int
    data: bytes
    offset: int | None = None
    """None: where it belongs."""


@dataclass
class GgufEdit:
    """The parts of a GGUF: metadata as (type number, raw bytes), tensors by name."""

    version: int = 3
    alignment: int = 32
    entries: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> GgufEdit:
        """The parts of a well-formed file (there are no checks)."""
        raw = path.read_bytes()
        version, tensor_count, entry_count = struct.unpack_from("<IQQ", raw, 4)
        edit, at = cls(version=version), 24
        for _ in range(entry_count):
            key, at = _string(raw, at)
            (kind,) = struct.unpack_from("<I", raw, at)
            end = _value_end(raw, at + 4, kind)
            edit.entries[key.decode()] = (kind, raw[at + 4 : end])
            at = end
        infos = []
        for _ in range(tensor_count):
            name, at = _string(raw, at)
            (dimensions,) = struct.unpack_from("<I", raw, at)
            *shape, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", raw, at + 4)
            at += 4 + 8 * dimensions + 12
            infos.append((name.decode(), shape, kind, offset))
        start = -(-at // edit.alignment) * edit.alignment
        ends = [offset for _, _, _, offset in infos[1:]] + [len(raw) - start]
        for (name, shape, kind, offset), end in zip(infos, ends, strict=True):
            edit.tensors[name] = Tensor(shape, kind, raw[start + offset : start + end])
        return edit

    def header(self) -> bytes:
        """Everything before the tensors, with the padding."""
        parts = [struct.pack("<4sIQQ", b"GGUF", self.version, len(self.tensors), len(self.entries))]
        for key, (kind, raw) in self.entries.items():
            parts += [text(key), struct.pack("<I", kind), raw]
        offset = 0
        for name, tensor in self.tensors.items():
            place = offset if tensor.offset is None else tensor.offset
            shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
            parts += [text(name), shape, struct.pack("<IQ", tensor.kind, place)]
            offset += len(self._padded(tensor.data))
        return self._padded(b"".join(parts))

    def write(self, path: Path) -> Path:
        path.write_bytes(self.header() + b"".join(self._padded(tensor.data) for tensor in self.tensors.values()))
        return path

    def _padded(self, raw: bytes) -> bytes:
        return raw + bytes(-len(raw) % self.alignment)


def inflated_gguf(source: Path, path: Path) -> Path:
    """A toy model with 236 GB of experts, more than fits into most machines; the file has holes in place of them."""
    edit, wide, many = GgufEdit.of(source), 1 << 20, 1 << 10  # the most that is taken for a gpt-oss
    edit.entries["gpt-oss.expert_feed_forward_length"] = (U32, struct.pack("<I", wide))
    edit.entries["gpt-oss.expert_count"] = (U32, struct.pack("<I", many))
    offset = 0
    for name, tensor in edit.tensors.items():
        if ".ffn_" in name and "norm" not in name:
            tensor.shape[-1] = many
        if "_exps" in name:
            inner = 0 if "down" in name else len(tensor.shape) - 2
            if not name.endswith("down_exps.bias"):
                tensor.shape[inner] = wide
        tensor.offset = offset
        count = math.prod(tensor.shape)
        size = count // 32 * 17 if tensor.kind == MXFP4 else count * {0: 4, 1: 2}[tensor.kind]
        offset += -(-size // edit.alignment) * edit.alignment
    header = edit.header()
    path.write_bytes(header)
    os.truncate(path, len(header) + offset)
    return path


def split_gguf(source: Path, folder: Path, stem: str) -> Path:
    """`source` in three parts, as llama.cpp's gguf-split makes them: the first one has the metadata and no tensors."""
    whole, parts = GgufEdit.of(source), 3
    names = list(whole.tensors)
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(parts):
        edit = GgufEdit(entries=dict(whole.entries) if part == 0 else {})
        mine = names[(part - 1) :: parts - 1] if part else []
        edit.tensors = {name: whole.tensors[name] for name in mine}
        edit.entries["split.no"] = (U16, struct.pack("<H", part))
        edit.entries["split.count"] = (U16, struct.pack("<H", parts))
        edit.entries["split.tensors.count"] = (I32, struct.pack("<i", len(names)))
        edit.write(folder / f"{stem}-{part + 1:05d}-of-{parts:05d}.gguf")
    return folder / f"{stem}-00001-of-{parts:05d}.gguf"


def text(value: str | bytes) -> bytes:
    """A string as it stands in a GGUF."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def texts(values: list[bytes]) -> bytes:
    """An array of strings, without its leading type number of an entry."""
    return struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values))


def list_of(raw: bytes) -> list[bytes]:
    """The strings of an array, as `texts` writes it."""
    (count,) = struct.unpack_from("<Q", raw, 4)
    at, values = 12, []
    for _ in range(count):
        value, at = _string(raw, at)
        values.append(value)
    return values


def _string(raw: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<Q", raw, at)
    return raw[at + 8 : at + 8 + length], at + 8 + length


def _value_end(raw: bytes, at: int, kind: int) -> int:
    if kind == STRING:
        return _string(raw, at)[1]
    if kind != ARRAY:
        return at + SCALAR_BYTES[kind]
    item, count = struct.unpack_from("<IQ", raw, at)
    at += 12
    if item != STRING:
        return at + SCALAR_BYTES[item] * count
    for _ in range(count):
        at = _string(raw, at)[1]
    return at
