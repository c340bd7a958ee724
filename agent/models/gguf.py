"""The header of a GGUF file: metadata and tensor list, read within bounds whatever the file says.

We have our own reader for two reasons: llama.cpp ends the process on some bad headers, so they must be checked first;
and the gguf package takes 8 s for gpt-oss's vocabulary, this one 0.1 s. Layout: ggml's docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import math
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ossia.agent.errors import ModelNotFound, ModelUnusable
from ossia.agent.models.gguf_parts import BLOCKS, Entry, GgufHeader, StringArray, TensorInfo

MAX_HEADER_BYTES: Final = 64 << 20
"""A header larger than this is refused. gpt-oss's has 13 MB, nearly all of it vocabulary."""
MAX_ENTRIES: Final = 10_000
MAX_TENSORS: Final = 65_536
MAX_STRINGS: Final = 1 << 19
"""In one array. gpt-oss's longest array (the merges) has 446,189."""
MAX_ALL_STRINGS: Final = 1 << 20
"""In all arrays. gpt-oss's tokens and merges are 647,277."""
_MAX_ONE_BY_ONE: Final = 1 << 16
"""So many of them may be where they can't be found all at once, which takes 2 µs for each."""
_MAX_WINDOW_BYTES: Final = 24 << 20
"""Looked at at once, which takes three times the memory; never all the rest."""
MAX_NAME_BYTES: Final = 63
"""Of a tensor's name: llama.cpp refuses more."""

_FIRST_READ_BYTES: Final = 16 << 20
_NOT_A_MODEL: Final = "name a gpt-oss model in GGUF format, or get one: ossia models pull gpt-oss-20b"
_GET_AGAIN: Final = "download it again (ossia models pull NAME resumes)"

_STRING: Final = 8
_ARRAY: Final = 9
_SCALARS: Final[dict[int, tuple[str, struct.Struct]]] = {
    0: ("u8", struct.Struct("<B")),
    1: ("i8", struct.Struct("<b")),
    2: ("u16", struct.Struct("<H")),
    3: ("i16", struct.Struct("<h")),
    4: ("u32", struct.Struct("<I")),
    5: ("i32", struct.Struct("<i")),
    6: ("f32", struct.Struct("<f")),
    7: ("bool", struct.Struct("<?")),
    10: ("u64", struct.Struct("<Q")),
    11: ("i64", struct.Struct("<q")),
    12: ("f64", struct.Struct("<d")),
}
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")


def read_header(path: Path) -> GgufHeader:
    """The header of `path`, checked. `read_header(Path("etude.gguf")).metadata["gpt-oss.block_count"].value == 4`.

    Raises `ModelNotFound` if there is no such file, `ModelUnusable` for everything else: a directory, no permission,
    not a GGUF, cut off, big-endian, or a header whose counts and lengths don't hold. Reads at most
    `MAX_HEADER_BYTES`, whatever the file claims.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise ModelUnusable(f"{path}: is a directory, not a GGUF file; {_NOT_A_MODEL}")
        if not stat.S_ISREG(found.st_mode):  # a named pipe would block the open
            raise ModelUnusable(f"{path}: is not a regular file; {_NOT_A_MODEL}")
        return _read_growing(path, found.st_size)
    except FileNotFoundError as error:
        raise ModelNotFound(f"{path}: no such file; {_NOT_A_MODEL}") from error
    except PermissionError as error:
        raise ModelUnusable(f"{path}: no permission to read it; change that, or name another file") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ModelUnusable(f"{str(path)!r}: can't be read ({reason}); {_NOT_A_MODEL}") from error


def _read_growing(path: Path, file_bytes: int) -> GgufHeader:
    limit = _FIRST_READ_BYTES
    while True:
        with path.open("rb") as file:
            buffer = file.read(min(limit, file_bytes))
        try:
            return _Reader(path, file_bytes, buffer).header()
        except _NeedsMore:
            if len(buffer) < min(limit, file_bytes):  # it shrank since we asked for its size
                raise ModelUnusable(f"{path}: cut off in its header; {_GET_AGAIN}") from None
            if limit >= MAX_HEADER_BYTES:
                most = f"{MAX_HEADER_BYTES >> 20} MiB (gpt-oss's has 13)"
                raise ModelUnusable(f"{path}: its header is larger than {most}; {_GET_AGAIN}") from None
            limit = min(4 * limit, MAX_HEADER_BYTES)


class _NeedsMore(Exception):
    """The header goes on after the part of the file that was read."""


class _Reader:
    """Reads through one buffer. Each step checks that the bytes it wants are there before it touches them."""

    def __init__(self, path: Path, file_bytes: int, buffer: bytes) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._buffer = buffer
        self._at = 0
        self._all_strings = self._one_by_one = 0

    def header(self) -> GgufHeader:
        version = self._start()
        tensor_count = self._count("tensors", MAX_TENSORS)
        entry_count = self._count("metadata entries", MAX_ENTRIES)
        metadata: dict[str, Entry] = {}
        for _ in range(entry_count):
            key = self._name("a metadata key", 65_535)
            if key in metadata:
                raise self._bad(f"the metadata key {key!r} comes twice")
            metadata[key] = self._entry(key)
        alignment = self._alignment(metadata)
        tensors: dict[str, TensorInfo] = {}
        end = 0
        for _ in range(tensor_count):
            tensor = self._tensor(end)
            if tensor.name in tensors:
                raise self._bad(f"the tensor {tensor.name!r} comes twice")
            tensors[tensor.name] = tensor
            end = -(-(tensor.offset + tensor.bytes) // alignment) * alignment
        data_offset = -(-self._at // alignment) * alignment
        self._check_data(tensors, data_offset)
        return GgufHeader(self._path, version, self._file_bytes, metadata, tensors, data_offset)

    def _start(self) -> int:
        if self._file_bytes == 0:
            raise ModelUnusable(f"{self._path}: is empty; {_GET_AGAIN}")
        magic = self._buffer[:4]
        if magic != b"GGUF":
            raise ModelUnusable(f"{self._path}: not a GGUF file (it begins with {magic!r}); {_NOT_A_MODEL}")
        self._at = 4
        version = self._u32()
        if version in (2, 3):
            return version
        if version & 0xFFFF == 0:
            raise ModelUnusable(f"{self._path}: is a big-endian GGUF; get the little-endian file")
        raise ModelUnusable(f"{self._path}: the GGUF version must be 2 or 3, not {version}; get a newer conversion")

    def _entry(self, key: str) -> Entry:
        kind = self._u32()
        if kind == _STRING:
            return Entry("str", self._string().decode("utf-8", "replace"))
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _SCALARS:
            raise self._bad(f"the metadata key {key!r} has the unknown type {kind}")
        name, form = _SCALARS[kind]
        (value,) = form.unpack_from(self._buffer, self._take(form.size))
        return Entry(name, value)

    def _array(self, key: str) -> Entry:
        kind = self._u32()
        count = self._u64()
        if kind == _STRING:
            if count > MAX_STRINGS:
                raise self._bad(f"{key!r} claims {count} texts, more than {MAX_STRINGS}")
            self._all_strings += count
            if self._all_strings > MAX_ALL_STRINGS:
                raise self._bad(f"its arrays have more than {MAX_ALL_STRINGS} texts")
            self._want(8 * count)
            return Entry("str[]", self._strings(key, count))
        if kind not in _SCALARS:
            raise self._bad(f"the metadata key {key!r} is an array of the unknown type {kind}")
        name, form = _SCALARS[kind]
        at = self._take(form.size * count)
        return Entry(f"{name}[]", np.frombuffer(self._buffer, form.format, count, at))

    def _strings(self, key: str, count: int) -> StringArray:
        """`count` strings, found all at once by the zero bytes of their lengths; one by one when that doesn't work out.

        A length below 65,536 ends in six zero bytes, and a text holds none, so each run of zeros ends where a text
        begins. The result is then verified. This is five times as fast: gpt-oss's header holds 0.65 million strings.
        """
        for window in (24 * count, min(256 * count, _MAX_WINDOW_BYTES)):  # 19 bytes each in gpt-oss's header
            found = self._strings_in(count, min(window, len(self._buffer) - self._at))
            if found is not None:
                return found
        self._one_by_one += count
        if self._one_by_one > _MAX_ONE_BY_ONE:
            if len(self._buffer) < min(self._file_bytes, MAX_HEADER_BYTES):
                raise _NeedsMore
            raise self._bad(f"{key!r} has {count} texts, and some of them are empty, far too long or hold zeros")
        starts, ends = [], []
        for _ in range(count):
            length = self._u64()
            starts.append(self._take(length))
            ends.append(self._at)
        return StringArray(self._buffer, np.array(starts, np.int64), np.array(ends, np.int64))

    def _strings_in(self, count: int, window: int) -> StringArray | None:
        seen = np.frombuffer(self._buffer, np.uint8, window, self._at)
        zero = seen == 0
        starts = np.flatnonzero(zero[:-1] & ~zero[1:]) + 1
        starts = starts[starts >= 8]
        for back in range(2, 7):  # a length of 256 has a single zero too
            starts = starts[zero[starts - back]]
        starts = starts[:count]
        if len(starts) < count or not count or starts[0] != 8:
            return None
        lengths = seen[starts - 8] + (seen[starts - 7].astype(np.int64) << 8)
        ends = starts + lengths
        follows = np.array_equal(starts[1:], ends[:-1] + 8) and int(ends[-1]) <= window
        if not follows:
            return None
        at, self._at = self._at, self._at + int(ends[-1])
        return StringArray(self._buffer, starts + at, ends + at)

    def _tensor(self, expected_offset: int) -> TensorInfo:
        name = self._name("a tensor", MAX_NAME_BYTES)
        dimensions = self._u32()
        if dimensions > 4:
            raise self._bad(f"the tensor {name!r} has {dimensions} dimensions, more than 4")
        shape = tuple(self._u64() for _ in range(dimensions))
        kind = self._u32()
        if kind not in BLOCKS:
            raise self._bad(f"the tensor {name!r} has the unknown type {kind}")
        kind_name, block, block_bytes = BLOCKS[kind]
        elements = math.prod(shape)
        if not 0 < elements < 1 << 62 or (shape[0] if shape else 1) % block:
            raise self._bad(f"the tensor {name!r} has the impossible shape {list(shape)} for {kind_name}")
        offset = self._u64()
        if offset != expected_offset:
            raise self._bad(f"the tensor {name!r} should begin at byte {expected_offset} of the data, not {offset}")
        return TensorInfo(name, shape, kind_name, offset, elements // block * block_bytes)

    def _check_data(self, tensors: Mapping[str, TensorInfo], data_offset: int) -> None:
        for tensor in tensors.values():
            end = data_offset + tensor.offset + tensor.bytes
            if end > self._file_bytes:
                raise ModelUnusable(
                    f"{self._path}: cut off in its tensors ({tensor.name} ends at byte {end}, the file has "
                    f"{self._file_bytes}); {_GET_AGAIN}"
                )

    def _alignment(self, metadata: Mapping[str, Entry]) -> int:
        entry = metadata.get("general.alignment", Entry("u32", 32))
        value = entry.value
        if entry.kind != "u32" or not isinstance(value, int) or not 8 <= value <= 1 << 20 or value & (value - 1):
            raise self._bad(f"general.alignment must be a power of two, not {value!r}")
        return value

    def _count(self, of_what: str, limit: int) -> int:
        count = self._u64()
        if count > limit:
            raise self._bad(f"it claims {count} {of_what}, more than {limit}")
        return count

    def _name(self, of_what: str, max_bytes: int) -> str:
        raw = self._string(max_bytes, of_what)
        try:
            name = raw.decode("ascii")
        except UnicodeDecodeError:
            name = ""
        if not name.isprintable() or not name:  # a NUL would end the name for llama.cpp, but not for us
            raise self._bad(f"{of_what} is named {raw[:40]!r}, which isn't printable ASCII")
        return name

    def _string(self, max_bytes: int = MAX_HEADER_BYTES, of_what: str = "a text") -> bytes:
        length = self._u64()
        self._want(length)
        if length > max_bytes:
            raise self._bad(f"{of_what} has {length} bytes, more than {max_bytes}")
        at = self._take(length)
        return self._buffer[at : at + length]

    def _u32(self) -> int:
        value: int = _U32.unpack_from(self._buffer, self._take(4))[0]
        return value

    def _u64(self) -> int:
        value: int = _U64.unpack_from(self._buffer, self._take(8))[0]
        return value

    def _take(self, count: int) -> int:
        """Go past the next `count` bytes, which are there; returns where they begin."""
        self._want(count)
        at = self._at
        self._at = at + count
        return at

    def _want(self, count: int) -> None:
        if self._at + count > self._file_bytes:
            raise ModelUnusable(
                f"{self._path}: cut off in its header (at byte {self._at} it announces {count} more bytes, the file "
                f"has {self._file_bytes}); {_GET_AGAIN}"
            )
        if self._at + count > len(self._buffer):
            raise _NeedsMore

    def _bad(self, what: str) -> ModelUnusable:
        return ModelUnusable(f"{self._path}: a damaged GGUF header: {what}; {_GET_AGAIN}")
