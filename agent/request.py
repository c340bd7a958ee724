"""The input of one step of a turn, its use of the context, and the protocol of its generator, a responder."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

from ossia.agent.control import Control
from ossia.agent.engine.base import ConstraintDropped, Progress, Sampling
from ossia.agent.events import Stats
from ossia.agent.kinds import Kind, kind_of
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
    instructions that names skills; only a meter tells it apart. `must_call`: the step calls one of these tools, if the
    engine can be held to that; empty: it may.
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
    must_call: tuple[str, ...] = ()


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


_PARTS: Final[Mapping[Kind, PartName]] = {"user": "user", "result": "results", "call": "calls", "thinking": "thinking"}


def reserve_tokens(context_tokens: int, max_tokens: int | None = None) -> int:
    """The tokens to have free before a step: a quarter of the context, but at most 8192, and at most `max_tokens`.

    `reserve_tokens(32_768)` is 8192, `reserve_tokens(2048)` 512, `reserve_tokens(2048, max_tokens=100)` 100.
    """
    reserve = min(8192, context_tokens // 4)
    return reserve if max_tokens is None else min(reserve, max_tokens)


def summary_tokens(context_tokens: int) -> int:
    """The longest summary of older turns: an eighth of the context, 1024 tokens at most."""
    return min(1024, context_tokens // 8)


def context_use(
    request: Request, *, static: Sequence[tuple[PartName, int]], tokens: Sequence[int], used: int, context_tokens: int
) -> ContextUse:
    """The meter's reading. `static` are the parts before the history, `tokens` those of each message of the history."""
    counts: dict[PartName, int] = dict.fromkeys(get_args(PartName), 0)
    for name, count in static:
        counts[name] += count
    for at, (message, count) in enumerate(zip(request.history, tokens, strict=True)):
        counts["summary" if request.summarised and at == 0 else part_of(message)] += count
    counts["system"] += used - sum(counts.values())  # the ids that open the next message
    return ContextUse(
        used_tokens=used,
        total_tokens=context_tokens,
        static_tokens=sum(count for _, count in static),
        reserve_tokens=reserve_tokens(context_tokens, request.max_tokens),
        parts=tuple(Part(name, count) for name, count in counts.items()),
        messages=tuple(tokens),
    )


def part_of(message: Message) -> PartName:
    """The meter's part for a message of the history."""
    return _PARTS.get(kind_of(message), "answers")


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
