"""A `llama_batch` on memory of our own, filled again for each step; `lib` is llama.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a step that belongs to one sequence: `ids` from position `start` on.

    `logits`: those after the last id are asked for. `Part(2, 61, (200005,), logits=True)`
    """

    sequence: int
    start: int
    ids: Sequence[int]
    logits: bool = True


class Batch:
    """Room for `size` ids of `sequences` sequences."""

    def __init__(self, lib: Any, size: int, sequences: int) -> None:
        # ctypes' arrays: with cold caches, writing one id into each takes 15 µs; into numpy's it takes 25.
        ids = ctypes.c_int32 * size
        self._tokens, self._positions, self._wanted = ids(), ids(), (ctypes.c_int8 * size)()
        self._numbers = [ctypes.pointer(ctypes.c_int32(number)) for number in range(sequences)]
        self._sequences = (ctypes.POINTER(ctypes.c_int32) * size)(*[self._numbers[0]] * size)
        self._batch = lib.llama_batch(
            n_tokens=0,
            token=self._tokens,
            embd=None,
            pos=self._positions,
            n_seq_id=ids(*[1] * size),  # sequences that a token belongs to
            seq_id=self._sequences,
            logits=self._wanted,
        )

    def filled(self, start: int, ids: Sequence[int], *, logits: bool) -> Any:
        """The batch with `ids` of the only sequence."""
        self._batch.n_tokens = 0
        self._add(start, ids, logits)
        return self._batch

    def filled_with(self, parts: Sequence[Part]) -> tuple[Any, list[int]]:
        """The batch with these parts, and the row of each one's last id."""
        self._batch.n_tokens, rows = 0, []
        for part in parts:
            begin, number = self._batch.n_tokens, self._numbers[part.sequence]
            self._add(part.start, part.ids, part.logits)
            for row in range(begin, self._batch.n_tokens):
                self._sequences[row] = number
            rows.append(self._batch.n_tokens - 1)
        return self._batch, rows

    def _add(self, start: int, ids: Sequence[int], logits: bool) -> None:
        row = self._batch.n_tokens
        for n, token in enumerate(ids):  # mostly one: no slice, no list
            self._tokens[row + n] = token
            self._positions[row + n] = start + n
            self._wanted[row + n] = 0
        row += len(ids)
        self._wanted[row - 1] = logits
        self._batch.n_tokens = row
