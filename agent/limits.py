"""The limits of one turn."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ossia.agent.control import Control
from ossia.tools.spec import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a turn. None: bounded only by the context.

    `max_steps` counts generations that may call tools; after those, one more answers with what there is. `max_tokens`
    counts all generated tokens of the turn, reasoning included. After `max_thinking` tokens of reasoning before a call
    or before the answer, the answer is opened. `max_seconds` is the turn's wall time. Once the same call (name and
    arguments) has failed `max_failures` times, tools are off for the turn. The first step calls one of `must_call`;
    empty: it may.
    """

    max_steps: int = 50
    max_tokens: int | None = None
    max_thinking: int | None = None
    max_seconds: float | None = None
    max_failures: int = 3
    must_call: tuple[str, ...] = ()


@contextmanager
def deadline(control: Control, seconds: float | None) -> Iterator[None]:
    """Stop `control` with the reason "time" once `seconds` have passed inside the block."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), control.stop, args=("time",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass(slots=True)
class Budget:
    """The used part of a turn's limits."""

    limits: Limits
    tokens: int = 0
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def tokens_left(self) -> int | None:
        """The most tokens of the next step; None: no limit but the context."""
        return None if self.limits.max_tokens is None else max(0, self.limits.max_tokens - self.tokens)

    def failed_too_often(self, call: ToolCall, result: ToolResult) -> bool:
        """Count this result; True once the same call has failed `max_failures` times."""
        if not result.error:
            return False
        key = (call.name, call.arguments)
        self.failures[key] += 1
        return self.failures[key] >= self.limits.max_failures
