"""The end of work: `Watch` brings it, `to_its_end` and `wait` keep the process until it is reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from ossia.tools.spec import Stop

MAX_WAIT_S = 60.0
"""Inspecting 20,000 changed files takes some seconds."""
_under_way: set[threading.Event] = set()


@contextmanager
def to_its_end() -> Iterator[None]:
    """Work that must be finished even if its call is given up: `wait` waits for this block.

    What a command left is inspected after it, which may take longer than a user who pressed Ctrl-C will wait.
    """
    done = threading.Event()
    _under_way.add(done)
    try:
        yield
    finally:
        _under_way.discard(done)
        done.set()


def is_under_way() -> bool:
    """True while there is something to wait for."""
    return bool(_under_way)


def wait(timeout_s: float = MAX_WAIT_S) -> bool:
    """Wait until all of it is done; False if it isn't by then. An interrupt passes through."""
    give_up_at = time.monotonic() + timeout_s
    return all(done.wait(max(0.0, give_up_at - time.monotonic())) for done in tuple(_under_way))


class WasCut(Exception):
    """The user stopped the turn, or the time is over."""


class Watch:
    """Ends what blocks, at a stop or after `timeout_s`, by its wakers. `close` ends the watch.

    A server that sends a byte now and then would renew the timeouts of single reads.
    """

    def __init__(self, stop: Stop, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self._timer = threading.Timer(timeout_s, self._cut, ("too slow",))
        self._timer.daemon = True
        self.reason: Literal["stopped", "too slow"] | None = None
        self._timer.start()
        self._forget = stop.on_stop(lambda: self._cut("stopped"))

    def close(self) -> None:
        self._timer.cancel()
        self._forget()

    @property
    def left_s(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        if self.reason is not None:
            raise WasCut(self.reason)

    def on_cut(self, waker: Callable[[], None]) -> None:
        """Call `waker` when it ends early; at once if it has. It must not block."""
        with self._lock:
            if self.reason is None:
                self._wakers.append(waker)
                return
        waker()

    def _cut(self, reason: Literal["stopped", "too slow"]) -> None:
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            wakers = list(self._wakers)
        for waker in wakers:
            waker()
