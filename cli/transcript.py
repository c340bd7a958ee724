"""The log of a session as a person reads it: what was said, thought, called and answered, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from agent.events import Delta, Event, MessageAdded, ToolFinished, ToolOutput, ToolStarted
from agent.session import Session

Kind = Literal["user", "thinking", "preamble", "answer", "call", "note"]


@dataclass(slots=True)
class Item:
    """One thing that happened. `text` is raw outside text: the user's, the model's, or a call's result.

    A call has `name` and `arguments`; `ms` is None while it runs, `output` is what it printed so far.
    """

    kind: Kind
    text: str = ""
    name: str = ""
    arguments: str = ""
    ms: int | None = None
    error: bool = False
    seconds: float | None = None
    output: str = ""


@dataclass(slots=True)
class Transcript:
    """Everything so far. `version` grows with each change, so that a reader knows when to look again."""

    items: list[Item] = field(default_factory=list)
    version: int = 0

    def see(self, event: Event) -> None:
        """Take note of one event of a turn."""

    @classmethod
    def of(cls, session: Session) -> Transcript:
        """That of a stored session."""
        return cls()

    def calls(self) -> Iterator[Item]:
        """The calls, oldest first."""
        return (item for item in self.items if item.kind == "call")


__all__ = ["Delta", "Item", "Kind", "MessageAdded", "ToolFinished", "ToolOutput", "ToolStarted", "Transcript"]
