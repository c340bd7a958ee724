"""The figures of a chat, added up from its events: of the turn under way or the last one, and of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.events import ContextTrimmed, Event, MessageAdded, Stats, ToolFinished, TurnEnded


@dataclass(slots=True)
class Sums:
    """What some steps took. Seconds of monotonic time; `prompt`, `reused`, `evaluated` and `lost` are
    tokens, summed over the steps: see `agent.engine.base.StepStats`.

    Sums(steps=2, calls=1, prompt=812, reused=640, evaluated=172, completion=97, prefill_s=0.4, …)
    """

    turns: int = 0
    steps: int = 0
    calls: int = 0
    prompt: int = 0
    reused: int = 0
    evaluated: int = 0
    lost: int = 0
    completion: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    tools_s: float = 0.0
    trimmed: int = 0

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed; None when nothing was decoded."""
        return self.completion / self.decode_s if self.decode_s > 0 and self.completion else None

    @property
    def prefill_per_s(self) -> float | None:
        """Prompt tokens read a second, without those that the cache held; None when there were none."""
        return self.evaluated / self.prefill_s if self.prefill_s > 0 and self.evaluated else None

    @property
    def reused_share(self) -> float | None:
        """Which part of the prompts the cache held already, from 0 to 1; None before the first step."""
        return self.reused / self.prompt if self.prompt else None


@dataclass(slots=True)
class Tally:
    """Feed it every event. `turn` is the last turn's, `chat` the sum over all turns since this chat has the session."""

    clock: Callable[[], float] = time.monotonic
    turn: Sums = field(default_factory=Sums)
    chat: Sums = field(default_factory=Sums)
    turn_s: float | None = None  # None while a turn is under way, or before the first one
    _since: float = 0.0

    def see(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case MessageAdded(message) if message.role == "user":
                self.turn, self.turn_s, self._since = Sums(), None, self.clock()
                self._add(turns=1)
            case Stats(step):
                self._add(
                    steps=1,
                    prompt=step.prompt_tokens,
                    reused=step.reused_tokens,
                    evaluated=step.evaluated_tokens,
                    lost=step.lost_tokens,
                    completion=step.completion_tokens,
                    prefill_s=step.prefill_s,
                    decode_s=step.decode_s,
                )
            case ToolFinished(ms=ms):
                self._add(calls=1, tools_s=ms / 1000)
            case ContextTrimmed():
                self._add(trimmed=1)
            case TurnEnded():
                self.turn_s = self.clock() - self._since

    def _add(self, **values: float) -> None:
        for sums in (self.turn, self.chat):
            for name, value in values.items():
                setattr(sums, name, getattr(sums, name) + value)
