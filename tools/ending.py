"""Work that must be finished even if its call is given up: `wait` for it before the process ends.

What a command left is inspected after it, which may take longer than a user who pressed Ctrl-C will wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MAX_WAIT_S = 60.0
"""Inspecting 20,000 changed files takes some seconds."""
_under_way: set[threading.Event] = set()


@contextmanager
def to_its_end() -> Iterator[None]:
    """`wait` waits for what is done within this block."""
    done = threading.Event()
    _under_way.add(done)
    try:
        yield
    finally:
        _under_way.discard(done)
        done.set()


def is_under_way() -> bool:
    """Whether there is something to wait for."""
    return bool(_under_way)


def wait(timeout_s: float = MAX_WAIT_S) -> bool:
    """Wait until all of it is done; False if it isn't by then. An interrupt passes through."""
    give_up_at = time.monotonic() + timeout_s
    return all(done.wait(max(0.0, give_up_at - time.monotonic())) for done in tuple(_under_way))
