"""The figures of a chat, added up from its events: for the turn under way or the last one, and for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ossia.agent.events import ContextTrimmed, Event, MessageAdded, Stats, ToolFinished, TurnEnded
from ossia.agent.sums import Sums


@dataclass(slots=True)
class Tally:
    """Feed it every event. `turn` is for the last turn, `chat` for all turns since the chat opened the session."""

    clock: Callable[[], float] = time.monotonic
    turn: Sums = field(default_factory=Sums)
    chat: Sums = field(default_factory=Sums)
    turn_s: float | None = None  # None while a turn is under way, or before the first one
    _since: float = 0.0

    def see(self, event: Event) -> None:
        """Take note of one event."""
        match event:
            case MessageAdded(message, steers=False) if message.role == "user":
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
