"""The parts of a GGUF header: values, tensors, and strings that are cut out only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, overload

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]

BLOCKS: Final[Mapping[int, tuple[str, int, int]]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""Tensor types by their number in the file: name, elements in a block, bytes of a block."""


class StringArray(Sequence[bytes]):
    """The strings of an array as bytes, cut out of the header when asked for: `tokens[0] == b"!"`."""

    __slots__ = ("_buffer", "_ends", "_starts", "_texts")

    def __init__(self, buffer: bytes, starts: Offsets, ends: Offsets) -> None:
        self._buffer = buffer
        self._starts = starts
        self._ends = ends
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return self._buffer[int(self._starts[index]) : int(self._ends[index])]

    def texts(self) -> list[str]:
        """All of them as str, decoded as one whole (0.03 s for gpt-oss's tokens); cached for the next call.

        Raises `ValueError` when one isn't UTF-8 or holds a zero byte.
        """
        if self._texts is None:
            self._texts = self._decode() if len(self) else []
        return self._texts

    def _decode(self) -> list[str]:
        # The 8 bytes of length before each string become one zero byte, at which the decoded whole is split.
        first, last = int(self._starts[0]) - 8, int(self._ends[-1])
        whole = np.frombuffer(self._buffer, np.uint8, last - first, first).copy()
        kept = np.ones(len(whole), np.bool_)
        for at in range(1, 8):
            kept[self._starts - first - at] = False
        whole[self._starts - first - 8] = 0
        texts = whole[kept].tobytes().decode("utf-8").split("\0")
        if len(texts) != len(self) + 1:
            raise ValueError("a string holds a zero byte")
        return texts[1:]


Value = int | float | bool | str | StringArray | npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Entry:
    """One metadata value. `kind` is its type in the file: `"u32"`, `"f32"`, `"str"`, …; an array's is `"str[]"`."""

    kind: str
    value: Value = field(repr=False)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: its shape (innermost first, as in the file), type, and place in bytes from the start of the data."""

    name: str
    shape: tuple[int, ...]
    kind: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """A whole header: every length was checked against the file, and every tensor is inside it.

    `metadata` and `tensors` keep the file's order. `data_offset` is where the tensors begin, in bytes.
    """

    path: Path
    version: int
    file_bytes: int
    metadata: Mapping[str, Entry] = field(repr=False)
    tensors: Mapping[str, TensorInfo] = field(repr=False)
    data_offset: int
