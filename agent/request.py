"""The input of one step of a turn, and the protocol of its generator, a responder."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ossia.agent.control import Control
from ossia.agent.engine.base import ConstraintDropped, Progress, Sampling
from ossia.agent.events import Stats
from ossia.harmony.messages import Channel, Completion, Delta, Effort, Message, Repaired, ResponseFormat
from ossia.tools.spec import ToolSpec


@dataclass(frozen=True, slots=True)
class Request:
    """All that one step needs.

    `history` begins with the first user message; the system and developer messages are made from the other fields.
    `date` is `"2025-06-28"`. `max_tokens` None: to the end of the context. `max_thinking`: the most tokens of reasoning
    before the step is broken off, so that the answer can be opened. `open_with` starts the step inside a message
    on that channel (for "answer now" and the step limit): one message comes back, and no tool can be called.
    `summarised`: the history begins with a summary of what came before it. `side_question`: its last message is
    asked beside the conversation, which goes on without it (`agent.engine.base.Prompt`). `skills` is the end of the
    instructions that names skills; only a meter tells it apart.
    """

    history: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    effort: Effort = "medium"
    instructions: str | None = None
    date: str | None = None
    response_format: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    max_thinking: int | None = None
    open_with: Channel | None = None
    summarised: bool = False
    side_question: bool = False
    skills: str = ""


PartName = Literal[
    "system", "tools", "instructions", "skills", "summary", "user", "answers", "calls", "results", "thinking"
]
"""The parts of a prompt, in the order in which they are shown. system: what Harmony itself needs; tools: their
descriptions, in the system and the developer message; skills: their names and descriptions; summary: that of older
turns; answers: preambles too; thinking: that of the turn under way."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the prompt: `Part("tools", 812)`."""

    name: PartName
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextUse:
    """The use of the context, in tokens.

    `static_tokens` are those of the system and the developer message; `reserve_tokens` should be free for the answer.
    `parts` has every name once, even with 0 tokens, and adds up to `used_tokens`. `messages` are the tokens of each
    message of the request's history, 0 for one that the prompt leaves out.

        ContextUse(1180, 32768, 640, 8192, (Part("system", 63), Part("tools", 577), …), (12, 80, …))
    """

    used_tokens: int
    total_tokens: int
    static_tokens: int
    reserve_tokens: int
    parts: tuple[Part, ...]
    messages: tuple[int, ...]

    @property
    def fits(self) -> bool:
        """True if there is room for the prompt and for the answer."""
        return self.used_tokens + self.reserve_tokens <= self.total_tokens


StepEvent = Delta | Repaired | ConstraintDropped | Progress | Stats


class Responder(Protocol):
    """Generates one step, for the loop. `temperature` is the model's own, for sessions that name none."""

    temperature: float

    def measure(self, request: Request) -> ContextUse:
        """The tokens of the request, part by part, so that the loop can act before it is too late.

        A meter may call it too, on the engine's thread: `responder.measure(session.request(toolbox.specs))`.
        """

    def respond(self, request: Request, *, control: Control) -> Generator[StepEvent, None, Completion]:
        """Generate once. Raises `ContextFull` at the beginning, `EngineFailed` (with the messages so far) later."""
