"""What one step needs, and the contract of whoever answers it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

from agent.control import Control
from agent.engine.base import Progress, Sampling
from agent.events import Stats
from harmony.messages import Channel, Completion, Delta, Effort, Message, Repaired, ResponseFormat
from tools.spec import ToolSpec


@dataclass(frozen=True, slots=True)
class Request:
    """All that one step needs.

    `history` begins with the first user message; the system and developer messages are made from the other fields.
    `date` is `"2025-06-28"`. `max_tokens` None: to the end of the context. `open_with` starts the step inside a message
    on that channel ("answer now", the step limit): one message comes back and no tool can be called.
    """

    history: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    effort: Effort = "medium"
    instructions: str | None = None
    date: str | None = None
    response_format: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    open_with: Channel | None = None


@dataclass(frozen=True, slots=True)
class ContextUse:
    """How full the context would be; `static_tokens` are those of the system and the developer message."""

    used_tokens: int
    total_tokens: int
    static_tokens: int


StepEvent = Delta | Repaired | Progress | Stats


class Responder(Protocol):
    """One step, as the loop sees it."""

    def measure(self, request: Request) -> ContextUse:
        """How much of the context the request takes, so that the loop can act before it is too late."""
        ...

    def respond(self, request: Request, *, control: Control) -> Generator[StepEvent, None, Completion]:
        """Generate once. Raises `ContextFull` before anything else, `EngineFailed` (with what came) in the middle."""
        ...
