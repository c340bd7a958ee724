"""The generation loop's questions to a guide: which ids may come next, and which must."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ossia.agent.engine.base import Constraint, ConstraintDropped


@dataclass(frozen=True, slots=True, eq=False)
class AllBut:
    """Every id but these: free text without stray control tokens. `ids`: ascending, (n,) intp; `known`: the same."""

    ids: NDArray[np.intp]
    known: frozenset[int]

    @classmethod
    def of(cls, ids: frozenset[int]) -> AllBut:
        return cls(np.array(sorted(ids), np.intp), ids)

    def bits(self, size: int) -> NDArray[np.uint32]:
        """The same as the words of a `Mask`, for a vocabulary of that size."""
        words = np.full(-(-size // 32), 0xFFFFFFFF, np.uint32)
        np.bitwise_and.at(words, self.ids >> 5, ~(np.uint32(1) << (self.ids & 31).astype(np.uint32)))  # two in one word
        return words

    def holds(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        """A mask of the `ids` that may come."""
        return ~np.isin(ids, self.ids)

    def listed(self, size: int) -> NDArray[np.intp]:
        """All ids that may come, in a vocabulary of that size, ascending."""
        return np.delete(np.arange(size), self.ids)

    def within(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of the logits, -inf where an id may not come."""
        copy = logits.copy()
        copy[self.ids] = -np.inf
        return copy


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """One of these few ids. `ids`: ascending, (n,) intp, at least one."""

    ids: NDArray[np.intp]

    @classmethod
    def of(cls, ids: Sequence[int]) -> OneOf:
        return cls(np.array(sorted(ids), np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The ids whose bit is set: id `i` is bit `i % 32` of `words[i // 32]`. (⌈vocabulary / 32⌉,) uint32, reused."""

    words: NDArray[np.uint32]

    @property
    def count(self) -> int:
        """The number of ids that may come."""
        return int(np.bitwise_count(self.words).sum())

    def holds(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        """A mask of the `ids` that may come."""
        bits: NDArray[np.uint32] = self.words[ids >> 5] >> (ids & 31).astype(np.uint32)
        return (bits & np.uint32(1)).astype(np.bool_)

    def listed(self, size: int) -> NDArray[np.intp]:
        """All ids that may come, in a vocabulary of that size, ascending."""
        return np.flatnonzero(self._bits(size))

    def within(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of the logits, -inf where an id may not come."""
        return np.where(self._bits(len(logits)), logits, np.float32(-np.inf))

    def _bits(self, size: int) -> NDArray[np.bool_]:
        packed = self.words.astype("<u4", copy=False).view(np.uint8)
        return np.unpackbits(packed, count=size, bitorder="little").view(np.bool_)


Choice = AllBut | OneOf | Mask | None
"""The ids that may come next. None: any."""


class Guide(Protocol):
    """Follows one generation. Call `next` for each id that is to be sampled, then `take` with what was sampled."""

    def next(self) -> Choice:
        """The ids that may come now. Valid until `take`; asking again gives the same."""

    def unlikely(self) -> ConstraintDropped | None:
        """Drop the constraint, or insist (None): the model gives hardly any probability to what may come."""

    def take(self, token: int) -> Sequence[int]:
        """This id was sampled. Returns the ids that must follow, which count as taken as well: `[200005]`."""

    def dropped(self) -> ConstraintDropped | None:
        """The constraint that the guide dropped by itself at the id taken last, returned once; else None."""


Guides = Callable[[Constraint], Guide]
"""Compiles the constraint that an engine gets; unlike the engine, it knows the tokenizer."""
