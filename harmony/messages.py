"""The values of a Harmony conversation: frozen, comparable, free of any vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

Role = Literal["system", "developer", "user", "assistant", "tool"]
ROLES: Final[Mapping[str, Role]] = {role: role for role in get_args(Role)}
Effort = Literal["low", "medium", "high"]
ClosedBy = Literal["call", "end", "return", "endoftext"]
"""The control token that closed a sampled message. None: nothing closed it, it was cut."""

ANALYSIS: Final = "analysis"
COMMENTARY: Final = "commentary"
FINAL: Final = "final"
Channel = Literal["analysis", "commentary", "final"]
"""The channels the model was trained on. A `Message.channel` is any str: what was parsed is kept as it came."""

CHANNELS: Final[tuple[str, ...]] = get_args(Channel)

NOT_TOOLS: Final = frozenset((None, "", "all", *get_args(Role), *CHANNELS))
"""The recipients that are no tool: a message of the model to any other one is a call."""


@dataclass(frozen=True, slots=True)
class FunctionDecl:
    """A function the model may call: `FunctionDecl("get_weather", "Weather of a city.", {"type": "object", …})`.

    `parameters` is a JSON Schema; None means that the function takes nothing (`() => any`).
    """

    name: str
    description: str
    parameters: object | None = None


@dataclass(frozen=True, slots=True)
class Namespace:
    """One block of a `# Tools` section: `functions`, `browser`, or `python` (a description and no functions)."""

    name: str
    description: str | None = None
    functions: tuple[FunctionDecl, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """The `# Valid channels` line."""

    valid: tuple[str, ...] = (ANALYSIS, COMMENTARY, FINAL)
    required: bool = True


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """The content of a system message. None leaves a line out; an empty string is an empty line.

    `date` is the conversation's start date as it is to be read, e.g. `"2025-06-28"`. `tools` maps a key (which orders
    the blocks) to a namespace; None and an empty mapping both leave the section out.
    """

    identity: str | None = "You are ChatGPT, a large language model trained by OpenAI."
    effort: Effort | None = "medium"
    knowledge_cutoff: str | None = "2024-06"
    date: str | None = None
    tools: Mapping[str, Namespace] | None = None
    channels: ChannelConfig | None = field(default_factory=ChannelConfig)


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A schema that the answer must follow, shown to the model under `# Response Formats`."""

    name: str
    schema: object
    description: str | None = None


@dataclass(frozen=True, slots=True)
class DeveloperPrompt:
    """The content of a developer message: instructions, functions, response formats (openai_harmony has none)."""

    instructions: str | None = None
    tools: Mapping[str, Namespace] | None = None
    response_formats: tuple[ResponseFormat, ...] = ()


Content = str | SystemPrompt | DeveloperPrompt


@dataclass(frozen=True, slots=True)
class Sampled:
    """The sampled form of a message: the ids of the whole message as it should stand in the next prompt.

    `ids` begin with `<|start|>` and end with the terminator (a sampled `<|return|>` is kept here; whoever replays it
    writes `<|end|>`). `repaired`: the parser changed something, so the ids are not a faithful form of it.
    `headless`: `<|message|>` was missing, so where the header ends is a guess (the repair `missing-message`).
    """

    ids: tuple[int, ...]
    closed_by: ClosedBy | None
    repaired: bool = False
    headless: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """The part between `<|start|>` and `<|message|>`: the fields of a `Message` without its content."""

    role: Role
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One Harmony message.

    `recipient` None means "to all"; `channel` and `content_type` None mean that the header has none. `name` is the
    author's name (a tool's: `functions.get_weather`). `sampled` takes no part in comparisons.

        Message("user", ("What is 2+2?",))
        Message("assistant", ("print(2+2)",), recipient="python", channel="analysis", content_type="code")
    """

    role: Role
    content: tuple[Content, ...] = ()
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    sampled: Sampled | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The plain text of all content items that are text, joined."""
        return "".join(item for item in self.content if isinstance(item, str))


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of the message being parsed. The header fields are final: a delta comes only after `<|message|>`.

    `index` counts the messages of this completion from 0. The texts of all deltas with one index, joined, are exactly
    the text of that message. An empty `text` announces a message that has none so far.
    """

    index: int
    text: str
    role: Role = "assistant"
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """The parser mended something.

    `code` is stable and short (`"missing-message"`), `message` is for people, `token` is the index of the token in the
    completion at which it was noticed.
    """

    code: str
    message: str
    token: int


CompletionEnd = Literal["stop", "tokens", "context", "stopped", "answer_now", "thinking", "loop", "unreadable"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One generation: its messages in order, why it ended, what had to be mended, how many ids it took."""

    messages: tuple[Message, ...]
    end: CompletionEnd
    repairs: tuple[Repaired, ...] = ()
    tokens: int = 0


def is_call(message: Message | Delta | Header) -> bool:
    """True for a message of the model to a tool. The recipient decides, not the channel."""
    return message.role == "assistant" and message.recipient not in NOT_TOOLS
