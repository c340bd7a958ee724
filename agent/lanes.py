"""The lanes of a loaded model: each answers one turn at a time, with a KV cache of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ossia.agent.errors import EngineFailed
from ossia.agent.kv_cache import save_prompt_cache
from ossia.agent.worker import WaitStopped

if TYPE_CHECKING:
    from ossia.agent.build import Model

_STEP_S = 0.1  # of a wait


class Stopped(Protocol):
    """Ends a wait: a `Control`."""

    @property
    def stopped(self) -> bool: ...


@dataclass(slots=True)
class _Lane:
    model: Model
    key: str | None = None  # of the conversation that its cache holds
    used: int = 0  # the number of its last use: the least one was used longest ago
    busy: bool = False


class Lanes:
    """Gives each turn a lane, in the order in which they ask. `models`: one for each lane. Thread-safe.

    A lane is best the one that had the same conversation before (`key`), whose cache holds its beginning; else the one
    used longest ago.

        with lanes.lane("resp_1", stop=control) as model:
            conversation.use(model, tools)
            turn = conversation.say("And 48*18?")
            …                                          # to its end
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._lanes = [_Lane(model) for model in models]
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._uses, self._closed = 0, False

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def models(self) -> tuple[Model, ...]:
        """The model of each lane."""
        return tuple(lane.model for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """The turns that wait for a lane."""
        return len(self._waiting)

    @property
    def busy(self) -> int:
        """The turns under way."""
        return sum(lane.busy for lane in self._lanes)

    @contextmanager
    def lane(
        self, key: str | None = None, *, stop: Stopped, on_wait: Callable[[int], object] = lambda before: None
    ) -> Iterator[Model]:
        """A lane's model for one turn. `on_wait` gets the number of turns that come before, some ten times a second.

        `key` None: the conversation comes never again. Raises WaitStopped once `stop` is stopped, EngineFailed once
        the lanes are closed.
        """
        lane = self._take(key, stop, on_wait)
        try:
            yield lane.model
        finally:
            with self._changed:
                lane.busy = False
                self._changed.notify_all()

    def close(self, wait_s: float | None = None) -> None:
        """Refuse further turns, and free the model once those under way have ended; wait at most so long for that.

        First the static part of the last prompt is stored, for the next load.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        first = self._lanes[0].model
        first.worker.submit(lambda: save_prompt_cache(first.engine))
        freed: list[Future[None]] = [lane.model.close() for lane in self._lanes]
        for lane in self._lanes:
            lane.model.worker.close(0)
        wait(freed, wait_s)

    def _take(self, key: str | None, stop: Stopped, on_wait: Callable[[int], object]) -> _Lane:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
        try:
            while True:
                with self._changed:
                    if self._closed:
                        raise EngineFailed("the model is closed")
                    before = self._waiting.index(ticket)
                    if self._free and not before:
                        return self._chosen(self._free, key)
                on_wait(before + 1)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or (self._free and self._waiting[0] is ticket), _STEP_S)
                if stop.stopped:
                    raise WaitStopped
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    @property
    def _free(self) -> list[_Lane]:
        return [lane for lane in self._lanes if not lane.busy]

    def _chosen(self, free: Sequence[_Lane], key: str | None) -> _Lane:
        lane = min(free, key=lambda lane: (key is None or lane.key != key, lane.key is not None, lane.used))
        self._uses += 1
        lane.busy, lane.key, lane.used = True, key, self._uses
        return lane
