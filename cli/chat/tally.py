"""The figures of a chat, added up from its events: of the turn under way or the last one, and of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.events import ContextTrimmed, Event, MessageAdded, Stats, ToolFinished, TurnEnded
from cli.runtime.sums import Sums


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
                self.turn.add(step)
                self.chat.add(step)
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
