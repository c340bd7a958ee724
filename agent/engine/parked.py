"""Caches of conversations that have no lane now, kept in memory: none of them reads its prompt again."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ossia.agent.engine.cache import Checkpoint

MAX_BYTES = 1 << 30
MAX_CACHES = 64
"""Beyond either, those that were parked longest ago are dropped. gpt-oss-20b takes about 25 kB a token; of a small
model the bytes would hold thousands of conversations, most of which nobody goes on with."""


@dataclass(frozen=True, slots=True)
class ParkedCache:
    """The contents of a `PrefixCache`, and the state of its memory."""

    ids: tuple[int, ...]
    checkpoints: tuple[Checkpoint, ...]
    state: bytearray

    @property
    def size_bytes(self) -> int:
        return len(self.state) + sum(one.size_bytes for one in self.checkpoints)


class Parked:
    """The parked caches of a model's lanes, by the conversations' keys. Thread-safe. Never on disk."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_caches: int = MAX_CACHES) -> None:
        self.max_bytes, self._max_caches = max_bytes, max_caches
        self._caches: dict[str, ParkedCache] = {}  # the first one was parked longest ago
        self._lock = threading.Lock()

    def put(self, key: str, cache: ParkedCache) -> None:
        """Keep it, if there is room for it at all."""
        with self._lock:
            self._caches.pop(key, None)
            if cache.size_bytes > self.max_bytes:  # the others stay
                return
            self._caches[key] = cache
            while self._bytes() > self.max_bytes or len(self._caches) > self._max_caches:
                del self._caches[next(iter(self._caches))]

    def take(self, key: str) -> ParkedCache | None:
        """The conversation's cache, which isn't kept any longer. None: there is none."""
        with self._lock:
            return self._caches.pop(key, None)

    def _bytes(self) -> int:
        return sum(one.size_bytes for one in self._caches.values())
