"""How far the loading of a model is, in words: `reading the model · 43 % · 7 s`."""

from __future__ import annotations

import time
from collections.abc import Callable

from agent.models.memory import mapped_bytes
from cli.pace import Pace, worded


class LoadProgress:
    """Words for a load: llama.cpp reports to it, and `text` is asked for as often as it is drawn. From any thread.

    A file of `file_bytes` is mapped first, all of it: what of it isn't in memory comes from the disk. llama.cpp says
    nothing meanwhile, the system's tables do (Linux's; elsewhere nothing is known). What it reports comes afterwards:
    `then`, in words, is what takes its time there ("repacking the weights"); "" nothing does, or it isn't known yet.
    """

    def __init__(
        self,
        file_bytes: int,
        *,
        then: str = "",
        mapped: Callable[[], int | None] = mapped_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.then = then
        self._file_bytes = file_bytes
        self._mapped, self._mapped_before = mapped, mapped() or 0
        self._share = 0.0
        self._first, self._second = Pace(clock), Pace(clock)

    def report(self, share: float) -> bool:
        """llama.cpp's callback: 0.0 to 1.0. Always true: go on."""
        self._share = share
        return True

    def text(self) -> str:
        """`repacking the weights · 12 % · 26 s`."""
        if self._share and self.then:
            return self._worded(self.then, self._share, self._second)
        mapped = self._mapped()
        if self._share or mapped is None:
            return "loading the model"
        share = (mapped - self._mapped_before) / self._file_bytes
        return self._worded("reading the model", min(max(share, 0.0), 1.0), self._first)

    def _worded(self, what: str, share: float, pace: Pace) -> str:
        return worded(what, f"{100 * share:.0f} %", pace.seconds_left(share, 1.0))
