"""How far the loading of a model is, in words: `reading the model · 43 % · 7 s`."""

from __future__ import annotations

import time
from collections.abc import Callable

from ossia.agent.models.memory import mapped_bytes
from ossia.cli.runtime.pace import Pace, worded

_BEGUN = 0.01  # of the file


class LoadProgress:
    """Words for a load: llama.cpp reports to it, and `text` is asked for as often as it is drawn. From any thread.

    First the whole file, of `file_bytes`, is mapped: the part that isn't in memory is read from the disk. Meanwhile
    llama.cpp reports nothing, but the system's tables tell (Linux's; elsewhere nothing is known). Its reports come
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

    def text(self) -> str:
        """`repacking the weights · 12 % · 26 s`."""
        if 0 < self._share < 1 and self._then:
            return self._worded(self._then, self._share, self._second)
        if self._share == 1.0:  # seconds for a long context: its cache is filled with zeros
            return "preparing the context"
        mapped, before = self._mapped(), self._mapped_before
        if self._share or mapped is None or before is None:
            return "loading the model"
        share = (mapped - before) / self._file_bytes
        if share < _BEGUN:  # llama.cpp reads the header and the vocabulary first: that says nothing of the rest
            return "loading the model"
        return self._worded("reading the model", min(max(share, 0.0), 1.0), self._first)

    def _worded(self, what: str, share: float, pace: Pace) -> str:
        return worded(what, f"{100 * share:.0f} %", pace.seconds_left(share, 1.0))
