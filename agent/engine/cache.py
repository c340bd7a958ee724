"""The part of a prompt that is in the KV cache already, and *correctly* so.

gpt-oss's even layers see only the last 128 tokens, and llama.cpp's cache for them forgets what is further back. After
rolling back past that, `llama_memory_seq_rm` returns true, but the logits are silently wrong. So a copy of the
sliding-window part of the cache (a checkpoint: 3 MB with gpt-oss-20b) is kept at the offsets worth returning to. The
part of the odd layers holds everything and needs no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ossia.agent.engine.statics import Shelf

Logits = NDArray[np.float32]


class Memory(Protocol):
    """One sequence of an engine's KV memory, as the cache needs it. Positions count tokens from 0."""

    @property
    def oldest(self) -> int:
        """The lowest position that every layer holds; -1 without one. Above it nothing is missing."""

    @property
    def newest(self) -> int:
        """The highest position held; -1 without one."""

    def truncate(self, length: int) -> None:
        """Forget the positions from `length` on, in every layer."""

    def save_window(self) -> bytes | None:
        """A copy of the sliding-window layers' part. None: it can't be copied."""

    def restore_window(self, saved: bytes) -> bool:
        """Put that copy in place of what those layers hold now. False: it failed, and they hold nothing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The sliding-window part after the first `length` ids; `logits` are those for the id that comes next.

    `stays`: it is at the end of a static part, with which every prompt begins.
    """

    length: int
    saved: bytes
    logits: Logits | None = None
    stays: bool = False

    @property
    def size_bytes(self) -> int:
        """Its bytes in memory."""
        return len(self.saved) + (self.logits.nbytes if self.logits is not None else 0)


class PrefixCache:
    """Keeps track of the ids in the memory, and rolls it back to the longest prefix that a prompt can continue from.

        length = cache.rewind(prompt_ids)      # that many ids needn't be decoded again
        memory.decode(prompt_ids[length:])     # (whatever decodes them)
        cache.extend(prompt_ids[length:])
        cache.checkpoint(logits)

    `window` is the number of tokens that a sliding-window layer sees (128); 0: there are no such layers. Checkpoints
    take at most `max_bytes`: the first one and those of static parts stay, then those with the greatest length.
    `shelf`: where the static parts are seen by other lanes.
    """

    def __init__(self, memory: Memory, *, window: int, max_bytes: int, shelf: Shelf | None = None) -> None:
        self._memory = memory
        self._window = window
        self._max_bytes = max_bytes
        self._shelf = shelf
        self._ids: list[int] = []
        self._checkpoints: list[Checkpoint] = []  # by length, ascending
        self._others = False  # the static parts held are another's: a part of one isn't used
        self.lost = 0
        """The ids of the last `rewind` that were shared with the prompt and yet lost: they must be decoded again."""

    def __len__(self) -> int:
        """The number of ids in memory."""
        return len(self._ids)

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids that the memory holds."""
        return tuple(self._ids)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The places that can be returned to, ascending."""
        return tuple(self._checkpoints)

    @property
    def checkpoint_bytes(self) -> int:
        """The memory that the checkpoints take now."""
        return sum(checkpoint.size_bytes for checkpoint in self._checkpoints)

    @property
    def checkpoint_lengths(self) -> tuple[int, ...]:
        """After how many ids there is a checkpoint: `(61, 475)`."""
        return tuple(checkpoint.length for checkpoint in self._checkpoints)

    @property
    def logits(self) -> Logits | None:
        """The logits for the id after those held, if a checkpoint has them, else None. Don't write to them."""
        return self._checkpoints[-1].logits if self._has_logits_after(len(self._ids)) else None

    def shared(self, ids: Sequence[int]) -> int:
        """The number of ids at the beginning that are the same as in `ids`, usable or not."""
        return _common(self._ids, ids)

    def holds(self, ids: Sequence[int]) -> bool:
        """True if decoding can go on after `ids` without decoding any of them again."""
        return self.shared(ids) == len(ids) and self._reaches(len(ids))

    def rewind(self, ids: Sequence[int], *, logits: bool = True) -> int:
        """Roll the memory back to the longest usable prefix that it shares with `ids`. Returns the prefix's length.

        That is all of `ids` only if the logits after them are known or not wanted (`logits` False); otherwise the last
        id must be decoded again to get them. 0 when nothing is usable; the memory is then empty.
        """
        shared = _common(self._ids, ids)
        if self._others:
            shared = max((one.length for one in self._checkpoints if one.stays and one.length <= shared), default=0)
            self._others = False
        reached = self._roll_back(shared, ids, logits=logits)
        self.lost = shared - reached
        return reached

    def cut_back(self, length: int) -> bool:
        """Roll back to exactly this many ids. False: there is no way back to there."""
        if length > len(self._ids) or not (self._reaches(length) or length in self.checkpoint_lengths):
            return False
        return self._roll_back(length, self._ids[:length], logits=False) == length

    def keep_static(self) -> None:
        """Forget all that comes after the last static part; the next `rewind` uses whole static parts only."""
        self._others = True
        static = max((one.length for one in self._checkpoints if one.stays), default=0)
        if not self.cut_back(static):
            self.clear()

    def extend(self, ids: Sequence[int]) -> None:
        """These ids were decoded, right after those already held."""
        self._ids += ids

    def checkpoint(self, logits: Logits | None = None, *, stays: bool = False) -> None:
        """Make a checkpoint at the present length, if memory allows. `logits` are copied."""
        length = len(self._ids)
        if not self._window or not length or length in self.checkpoint_lengths:
            return
        saved = self._memory.save_window()
        if saved is not None:
            self._checkpoints.append(Checkpoint(length, saved, None if logits is None else logits.copy(), stays))
            self._show(self._checkpoints[-1:])
            self._keep_within_budget()

    def adopt(self, ids: Sequence[int], checkpoints: Sequence[Checkpoint]) -> int:
        """The memory was loaded from elsewhere with these ids. Returns how many it holds; 0 if it doesn't hold them."""
        self._ids, self._checkpoints, self._others = list(ids), list(checkpoints), False
        if self._memory.newest + 1 != len(ids) or not self._reaches(len(ids)):
            self.clear()
        self._show(self._checkpoints)
        return len(self._ids)

    def resync(self, attempted: Sequence[int]) -> None:
        """After a decode of `attempted` that broke off: note what the memory really holds."""
        held = self._memory.newest + 1
        self._ids = [*self._ids, *attempted][:held]
        self._drop_checkpoints_after(held)
        if not self._reaches(held):
            self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._checkpoints.clear()
        self._truncate(0)

    def _roll_back(self, length: int, ids: Sequence[int], *, logits: bool) -> int:
        self._drop_checkpoints_after(length)
        if logits and length == len(ids) and not self._has_logits_after(length):
            length -= 1
            self._drop_checkpoints_after(length)
        if self._reaches(length):
            self._truncate(length)
            if self._reaches(length):  # another lane may just have taken cells from behind the window
                return length
        while self._checkpoints:
            checkpoint = self._checkpoints[-1]
            if self._memory.restore_window(checkpoint.saved):
                self._truncate(checkpoint.length)
                if self._reaches(checkpoint.length):
                    return checkpoint.length
            self._checkpoints.pop()  # it doesn't hold what it should, so it is of no later use
        self.clear()
        return 0

    def _has_logits_after(self, length: int) -> bool:
        last = self._checkpoints[-1] if self._checkpoints else None
        return last is not None and last.length == length and last.logits is not None

    def _reaches(self, length: int) -> bool:
        """True if every layer holds everything that the token at position `length` can see."""
        if length == 0:
            return True
        return 0 <= self._memory.oldest <= max(0, length - self._window + 1) if self._window else True

    def _show(self, checkpoints: Sequence[Checkpoint]) -> None:
        for one in checkpoints:
            if self._shelf is not None and one.stays:
                self._shelf.put(self._ids[: one.length], one)

    def _truncate(self, length: int) -> None:
        if self._shelf is not None:
            self._shelf.cut(length)
        self._memory.truncate(length)
        del self._ids[length:]

    def _drop_checkpoints_after(self, length: int) -> None:
        while self._checkpoints and self._checkpoints[-1].length > length:
            self._checkpoints.pop()

    def _keep_within_budget(self) -> None:
        while self._checkpoints and self.checkpoint_bytes > self._max_bytes:
            spare = (place for place, one in enumerate(self._checkpoints) if place and not one.stays)
            self._checkpoints.pop(next(spare, -1))


def _common(held: Sequence[int], wanted: Sequence[int]) -> int:
    for position, (ours, theirs) in enumerate(zip(held, wanted, strict=False)):
        if ours != theirs:
            return position
    return min(len(held), len(wanted))
