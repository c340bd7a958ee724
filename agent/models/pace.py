"""The seconds left of something slow, and the progress of a load."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ossia.agent.models.memory import mapped_bytes
from ossia.tools.host import Loading

_FIRST_S, _FIRST_SHARE = 2.0, 0.02
"""No forecast before both have passed: the time, and the share of the work."""
_OFF_S, _OFF_SHARE = 2.0, 0.2
"""A forecast off by more is corrected; until then the number counts down with the clock."""
_BEGUN = 0.01  # of the file


class Pace:
    """The seconds left, reported steadily: they count down with the clock, and are corrected only when well off.

    `clock`: seconds of monotonic time. `seconds_left` takes how much is done, and out of how much, in any unit.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at: float | None = None
        self._began_with = 0.0
        self._ends_at: float | None = None

    def seconds_left(self, done: float, total: float) -> int | None:
        """Whole seconds, at least 1; None while nothing can be said, in the first two seconds above all."""
        now = self._clock()
        if self._began_at is None:
            self._began_at, self._began_with = now, done
        took, brought = now - self._began_at, done - self._began_with
        if took < _FIRST_S or brought < _FIRST_SHARE * (total - self._began_with) or not brought:
            return None
        left_s = (total - done) * took / brought
        if self._ends_at is None or abs(now + left_s - self._ends_at) > max(_OFF_S, _OFF_SHARE * left_s):
            self._ends_at = now + left_s
        return max(1, math.ceil(self._ends_at - now))


class LoadProgress:
    """The progress of a load: llama.cpp reports to it, and `now` is read as often as it is shown. From any thread.

    First the whole file, of `file_bytes`, is mapped: the part that isn't in memory is read from the disk. Meanwhile
    llama.cpp reports nothing, but the system's tables do (Linux's; elsewhere nothing is known). Its reports come
    afterwards.
    """

    def __init__(
        self,
        file_bytes: int,
        *,
        mapped: Callable[[], int | None] = mapped_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file_bytes = file_bytes
        self._mapped = mapped
        self._mapped_before: int | None = None
        self._then = ""
        self._share = 0.0
        self._first, self._second = Pace(clock), Pace(clock)

    def begin(self, *, then: str = "") -> None:
        """The mapping begins. `then`: what takes its time afterwards ("repacking the weights"); "": nothing does."""
        self._then, self._mapped_before = then, self._mapped()

    def report(self, share: float) -> bool:
        """llama.cpp's callback: 0.0 to 1.0. Always true: go on."""
        self._share = share
        return True

    def now(self) -> Loading:
        """The part of the load under way: `Loading("repacking the weights", 0.12, 26)`."""
        if 0 < self._share < 1 and self._then:
            return Loading(self._then, self._share, self._second.seconds_left(self._share, 1.0))
        if self._share == 1.0:  # seconds for a long context: its cache is filled with zeros
            return Loading("preparing the context")
        mapped, before = self._mapped(), self._mapped_before
        share = 0.0 if self._share or mapped is None or before is None else (mapped - before) / self._file_bytes
        if share < _BEGUN:  # llama.cpp reads the header and the vocabulary first: that says nothing of the rest
            return Loading("loading the model")
        share = min(share, 1.0)
        return Loading("reading the model", share, self._first.seconds_left(share, 1.0))
