"""What a turn is at, in words."""

from __future__ import annotations

from ossia.agent.events import Delta, Event, Progress, ToolStarted
from ossia.cli.runtime.pace import Reading
from ossia.cli.words import count
from ossia.harmony.messages import ANALYSIS


class Doing:
    """Feed it each event, and ask for `text` as often as it is drawn.

    `reading the prompt · 212 of 633 · 24 s`, `thinking · 31 tokens`, `running python`; "waiting" before the first.
    """

    def __init__(self) -> None:
        self._reading = Reading()
        self._tokens = 0
        self._words = "waiting"

    def see(self, event: Event) -> bool:
        """Take note of an event. False: it says nothing of what the turn is at."""
        match event:
            case Progress(done, phase="summary"):
                self._words = f"summing up older turns · {count(done, 'token')}"
            case Progress():
                self._reading.see(event)
                self._words = ""
            case Delta(channel=channel):
                self._tokens += 1
                self._words = f"{'thinking' if channel == ANALYSIS else 'writing'} · {count(self._tokens, 'token')}"
            case ToolStarted(call):
                self._words = f"running {call.name}"
            case _:
                return False
        return True

    def text(self) -> str:
        return self._words or self._reading.text()
