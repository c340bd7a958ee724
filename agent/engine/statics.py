"""The static parts of prompts that the lanes of a model hold: one lane reads a part, the others share its cells."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.agent.control import Control

if TYPE_CHECKING:
    from ossia.agent.engine._sequence import SequenceMemory
    from ossia.agent.engine.base import Prompt
    from ossia.agent.engine.cache import Checkpoint, PrefixCache

_STEP_S = 0.05  # of a wait: nobody who stops a turn waits for the lock, which may be held for as long as a step takes


class Shelf:
    """The static parts that one lane holds, for its siblings to see. `Shelf.row(memories)` makes one for each lane.

    A lane's own thread calls the methods. Only static parts are ever shared: what a conversation says stays its own.
    """

    def __init__(self, memory: SequenceMemory, row: list[Shelf], changed: threading.Condition) -> None:
        self._memory, self._row, self._changed = memory, row, changed
        self._held: list[tuple[tuple[int, ...], Checkpoint]] = []  # each part's ids, by length
        self._reading: tuple[int, ...] = ()  # the longest part of the prompt that it reads

    @classmethod
    def row(cls, memories: Sequence[SequenceMemory]) -> tuple[Shelf, ...]:
        row, changed = list[Shelf](), threading.Condition()
        row += [cls(memory, row, changed) for memory in memories]
        return tuple(row)

    def put(self, ids: Sequence[int], checkpoint: Checkpoint) -> None:
        """The memory holds these ids, and the way back to their end."""
        with self._changed:
            self._held.append((tuple(ids), checkpoint))
            self._changed.notify_all()

    def cut(self, length: int) -> None:
        """The memory is about to forget what is behind this length."""
        with self._changed:
            self._held = [held for held in self._held if len(held[0]) <= length]

    def done(self) -> None:
        """Nothing is read any longer."""
        with self._changed:
            self._reading = ()
            self._changed.notify_all()

    def borrow(self, prompt: Prompt, cache: PrefixCache, control: Control) -> None:
        """Bring the longest static part of `prompt` that a sibling holds into the memory of `cache`, this lane's.

        Waits for a sibling that is just reading a longer one. Nothing changes if the cache holds as much already.
        Afterwards this lane is the one that reads the rest, until `done`.
        """
        parts = [prompt.ids[: part.length] for part in prompt.static]
        if not parts or cache.shared(prompt.ids) >= len(parts[-1]):
            return
        with self._changed:
            while self._promised(parts) > len(self._best(parts)[0]) and not control.stopped:
                self._changed.wait(_STEP_S)
            best, owner = self._best(parts)
            if owner is not None and len(best) > cache.shared(prompt.ids):
                points = [point for ids, point in owner._held if ids == best[: len(ids)]]
                cache.clear()
                if self._memory.share(owner._memory, len(best), points[-1].saved):
                    cache.adopt(best, points)
            self._reading = parts[-1] if len(best) < len(parts[-1]) else ()

    def _best(self, parts: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], Shelf | None]:
        found = [(part, one) for part in parts for one in self._row if any(part == ids for ids, _ in one._held)]
        return max(found, key=lambda item: len(item[0]), default=((), None))

    def _promised(self, parts: Sequence[tuple[int, ...]]) -> int:
        reading = [one._reading for one in self._row if one is not self]
        return max((len(part) for part in parts for ids in reading if part == ids[: len(part)]), default=0)
