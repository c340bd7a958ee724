"""The count of a batch, in words: how many are answered, how fast, how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ossia.cli.eval.results import duration
from ossia.cli.words import count, listed, speed_of

_NAMED = 5


@dataclass(slots=True)
class Tally:
    """The sums of a batch. `total` None: unknown, the input is read only once.

    `done` and `failed` count the answers from before, too; `tokens` are those of this run.
    """

    total: int | None = None
    done: int = 0
    failed: int = 0
    tokens: int = 0
    clock: Callable[[], float] = time.monotonic
    _before: int = 0
    _since: float = 0.0
    _named: dict[int, str] = field(default_factory=dict)

    def before(self, number: int, code: int, reason: str) -> None:
        """Count the answer to line `number` that was there already."""
        self._before += 1
        self.add(number, code, 0, reason)

    def begin(self) -> None:
        """From now on time is measured."""
        self._since = self.clock()

    def add(self, number: int, code: int, tokens: int, reason: str) -> None:
        """Count the answer to line `number`. `reason`: if its exit code isn't 0."""
        self.done += 1
        self.tokens += tokens
        if code:
            self.failed += 1
            self._named |= {number: reason} if len(self._named) < _NAMED else {}

    @property
    def counted(self) -> str:
        """`12 of 30`, `12` if it isn't known of how many."""
        return f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"

    @property
    def failures(self) -> str:
        """`2 of 30 failed: lines 3 and 17; line 3: end: tokens`; "" if none did."""
        if not self.failed:
            return ""
        more = self.failed - len(self._named)
        number, reason = min(self._named.items())
        lines = listed([*map(str, sorted(self._named)), *([f"{more:,} more"] if more else [])])
        first = f"lines {lines}; " if self.failed > 1 else ""
        return f"{self.failed:,} of {self.done:,} failed: {first}line {number}: {reason}"

    @property
    def speed(self) -> str:
        """`1.6/s · 212 tok/s`, `4.2/min · 31.0 tok/s`; "" before the first answer."""
        seconds, new = self.clock() - self._since, self.done - self._before
        if not new or seconds <= 0:
            return ""
        rate = new / seconds
        each = f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min"
        return f"{each} · {speed_of(self.tokens / seconds)}"

    def text(self) -> str:
        """The live line: `12 of 30 · 1 failed · 1.6/s · 212 tok/s · 11 s left`."""
        new, seconds = self.done - self._before, self.clock() - self._since
        left = duration((self.total - self.done) * seconds / new) if new and self.total is not None else ""
        failed = f"{self.failed:,} failed" if self.failed else ""
        done = self.counted if self.total is not None else f"{self.counted} answered"
        return " · ".join(filter(None, [done, failed, self.speed, left and f"{left} left"]))

    def whole(self, model: str) -> str:
        """The last line: `etude · 30 questions · 1.6/s · 212 tok/s`."""
        return " · ".join(filter(None, [model, count(self.done, "question"), self.speed]))
