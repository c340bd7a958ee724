"""The figures of turns, added up from their events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ossia.agent.engine.base import StepStats
from ossia.agent.events import ContextTrimmed, Event, MessageAdded, Stats, ToolFinished, TurnEnded

_LAST_TURNS = 8


@dataclass(slots=True)
class Sums:
    """The sums over some turns and their steps; feed it every event. Seconds are of monotonic time.

    `prompt`, `reused`, `evaluated` and `lost` are tokens, see `StepStats`. `unreported` of the `prompt` are in neither
    `reused` nor `evaluated`: the server doesn't say how much of them its cache held. They took `unreported_s` of
    `prefill_s`.

        Sums(steps=2, calls=1, prompt=812, reused=640, evaluated=172, completion=97, prefill_s=0.4, …)
    """

    turns: int = 0
    steps: int = 0
    calls: int = 0
    prompt: int = 0
    reused: int = 0
    evaluated: int = 0
    unreported: int = 0
    lost: int = 0
    completion: int = 0
    prefill_s: float = 0.0
    unreported_s: float = 0.0
    decode_s: float = 0.0
    tools_s: float = 0.0
    trimmed: int = 0

    def see(self, event: Event) -> None:
        """Add one event of a turn."""
        match event:
            case MessageAdded(message, steers=False) if message.role == "user":
                self.turns += 1
            case Stats(step):
                self.add(step)
            case ToolFinished(ms=ms):
                self.calls += 1
                self.tools_s += ms / 1000
            case ContextTrimmed():
                self.trimmed += 1

    def add(self, step: StepStats) -> None:
        """Add one step."""
        self.steps += 1
        self.prompt += step.prompt_tokens
        if step.cache_reported:
            self.reused += step.reused_tokens
            self.evaluated += step.evaluated_tokens
        else:
            self.unreported += step.prompt_tokens
            self.unreported_s += step.prefill_s
        self.lost += step.lost_tokens
        self.completion += step.completion_tokens
        self.prefill_s += step.prefill_s
        self.decode_s += step.decode_s

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed; None when nothing was decoded."""
        return self.completion / self.decode_s if self.decode_s > 0 and self.completion else None

    @property
    def prefill_per_s(self) -> float | None:
        """Prompt tokens read a second, without the cached ones; None: all were cached."""
        seconds = self.prefill_s - self.unreported_s
        return self.evaluated / seconds if seconds > 0 and self.evaluated else None

    @property
    def reused_share(self) -> float | None:
        """The cached share of the prompts, from 0 to 1; None: unknown."""
        reported = self.prompt - self.unreported
        return self.reused / reported if reported else None


@dataclass(slots=True)
class Tally:
    """The sums of a chat; feed it every event.

    `turn`: of the last turn, `chat`: of all turns since it was opened, `last`: of each of the last turns that are over,
    with its seconds, oldest first.
    """

    clock: Callable[[], float] = time.monotonic
    turn: Sums = field(default_factory=Sums)
    chat: Sums = field(default_factory=Sums)
    turn_s: float | None = None  # None while a turn is under way, or before the first one
    last: deque[tuple[Sums, float]] = field(default_factory=lambda: deque(maxlen=_LAST_TURNS))
    _since: float = 0.0

    def see(self, event: Event) -> None:
        match event:
            case MessageAdded(message, steers=False) if message.role == "user":
                self.turn, self.turn_s, self._since = Sums(), None, self.clock()
            case TurnEnded():
                self.turn_s = self.clock() - self._since
                self.last.append((self.turn, self.turn_s))
        self.turn.see(event)
        self.chat.see(event)
