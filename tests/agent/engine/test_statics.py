"""A static part that lanes share, while a step of others is under way."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Static
from ossia.agent.engine.cache import PrefixCache
from ossia.agent.engine.statics import Shelf


class _Memory:
    """A sequence's memory that can be had only once `free` is set, as after a step."""

    newest, oldest = -1, 0

    def __init__(self) -> None:
        self.asked, self.free = threading.Event(), threading.Event()

    def truncate(self, length: int) -> None:
        self.newest = min(self.newest, length - 1)

    def save_window(self) -> bytes:
        return b"window"

    def share(self, source: _Memory, length: int, window: bytes) -> bool:
        self.asked.set()
        self.newest = length - 1
        return self.free.wait(60)


def test_who_stops_one_that_waits_for_a_part_waits_for_no_step() -> None:
    memories: list[Any] = [_Memory() for _ in range(4)]
    shelves = Shelf.row(memories)
    pairs = zip(memories, shelves, strict=True)
    caches = [PrefixCache(one, window=128, max_bytes=99, shelf=shelf) for one, shelf in pairs]
    short, long = (Prompt(tuple(range(40)), static=tuple(map(Static, ends))) for ends in ((10,), (10, 30)))
    memories[0].newest = 9
    caches[0].extend(short.ids[:10])
    caches[0].checkpoint(stays=True)
    memories[1].free.set()
    shelves[1].borrow(long, caches[1], Control())  # it reads the rest of it now
    control = Control()
    with ThreadPoolExecutor(3) as pool:
        waiting = pool.submit(shelves[2].borrow, long, caches[2], control)
        sharing = pool.submit(shelves[3].borrow, short, caches[3], Control())
        try:
            assert memories[3].asked.wait(60)
            pool.submit(control.stop).result(10)
        finally:
            memories[2].free.set()
            memories[3].free.set()
        waiting.result(60)
        sharing.result(60)
    assert [len(cache) for cache in caches] == [10, 10, 10, 10]
