"""The events of a turn for other programs: lines of JSON, Python, editors. Version 1; docs/events.schema.json.

    Begin("gpt-oss-20b")
    Reasoning("They want a product.")
    ToolCall("python", "print(48*17)", id="call_1", title="Run Python: print(48*17)", kind="run")
    ToolStarted("call_1", "python", "print(48*17)")
    ToolOutput("call_1", "816\\n")
    ToolResult("call_1", "done", "816\\n", title="Run Python: print(48*17)", ms=84)
    Text("816")
    Result("answered", text="816", …)

Field names are those of the lines of JSON; `TYPES` names the kinds. All text is as it came from the model or a tool.
Only the standard library is imported here: `from ossia import Text` must be quick.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_args

VERSION = 1

End = Literal["answered", "silent", "called", "stopped", "tokens", "time", "steps", "context", "loop", "error"]
"""The end of a turn: `agent.events.TurnEnd`."""

CallKind = Literal["read", "write", "run", "send", "other"]
"""The nature of a call, by its effects or its tool's; other: unknown, such as a tool that is off."""

CallStatus = Literal["done", "failed", "refused", "stopped", "shown", "returned"]
"""refused: by a rule, by the user, or since nobody could be asked; shown: a dry run; returned: a client runs it."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The first event of a turn. `session_id`: None for a session that isn't stored."""

    model: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer, its citations numbered; `preamble`: words to the user before a call instead.

    `item` numbers the messages of a turn from 0: texts of one item belong together.
    """

    delta: str
    item: int = 0
    preamble: bool = False


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of the chain of thought."""

    delta: str
    item: int = 0


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of a call that is being written: `name` is the recipient as the model wrote it. Not a call yet."""

    name: str
    delta: str
    item: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model calls a tool. One `ToolResult` with its `id` follows, whatever happens.

    `arguments`: an object, or a text (python's code; what can't be read as JSON). `title`: the call in people's words.
    `paths`: the files that it is about, as the tool was given them.
    """

    name: str
    arguments: Any
    id: str = ""
    title: str = ""
    kind: CallKind = "other"
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Approval:
    """A question to the user: may this call run? `id` is the question's own, and is never used again.

    `call`: the call's id, with the `arguments` that would run. `detail`: the diff, the command, the code, in
    `language`. `reason`: for asking. `firm`: a person must answer. `always`: the rules that an "always" stores;
    `wider`: the same for any arguments; empty: not offered. `session`, `edits`: an answer may hold for the session,
    or for all later edits. `fault`: the changed arguments can't be used. `form`: a server of MCP asks for these
    values. `allow`: ossia's flags that would allow the call; "": none would.
    """

    id: str
    call: str
    name: str
    arguments: Any
    title: str
    detail: str
    language: str
    reason: str
    conditions: str = ""
    firm: bool = False
    always: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    session: bool = False
    edits: bool = False
    fault: str = ""
    form: Mapping[str, str] | None = None
    allow: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """The decision on a call: by a rule of the policy, or by the user. `id`: the question's, None if none was asked."""

    call: str
    allow: bool
    by: Literal["policy", "user"]
    reason: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The call runs, with these arguments: the user may have changed them. Again, if it was given what it lacked."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Output while the call runs. The model reads `ToolResult.output`."""

    id: str
    delta: str
    stream: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The call is over. `output`: what the model reads; `diff`: what changed in files, perhaps cut.

    `title`: the call in people's words. `notices`: what the user must see. `ms`: time in the tool, 0: it never ran.
    `files`: pictures and other files on this machine that it made.
    """

    id: str
    status: CallStatus
    output: str
    title: str = ""
    diff: str = ""
    notices: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    ms: int = 0


@dataclass(frozen=True, slots=True)
class Steered:
    """The user said this in the middle of the turn, and the model has it now."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The prompt is read: `done` of `total` tokens, `reused` of them from the cache. Or a summary is written."""

    done: int
    total: int
    reused: int = 0
    phase: Literal["prefill", "summary"] = "prefill"


@dataclass(frozen=True, slots=True)
class Loading:
    """A wait before the turn: a share from 0 to 1, and seconds left, if known."""

    what: str
    share: float | None = None
    left_s: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for people. code: `"repaired"`, `"sampled-again"`, `"trimmed"`, …, or the level of a message."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and seconds: of one step as an event, of the turn in a `Result`.

    Of the `prompt` tokens, `reused` came from the cache and `evaluated` were read.
    """

    prompt: int = 0
    reused: int = 0
    evaluated: int = 0
    completion: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """A line of control that had no effect: `line` is its beginning, `reason` what was expected."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a `Result`."""

    name: str
    arguments: Any
    id: str
    status: CallStatus
    output: str


@dataclass(frozen=True, slots=True)
class Source:
    """The source behind `[number]` in the text. Lines are counted from 0; None: the whole page.

    `places`: where the number stands in the text, as ranges of characters, the end excluded.
    """

    number: int
    title: str
    url: str
    first_line: int | None = None
    last_line: int | None = None
    verified: bool = True
    places: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The last event, exactly one, however the turn ended. `text`: None without an answer that may be used.

    `data`: the answer as JSON, with a schema that it follows. `error`: a line on what broke or didn't fit. `exit`: the
    exit code of `ossia run`. `reasoning_tokens`: those of `usage.completion` that were reasoning; 0 with a server's
    model.
    """

    end: End
    text: str | None = None
    data: Any = None
    calls: tuple[Call, ...] = ()
    sources: tuple[Source, ...] = ()
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    error: str | None = None
    exit: int = 0
    reasoning_tokens: int = 0


Event = (
    Begin | Text | Reasoning | Arguments | ToolCall | Approval | ApprovalDecided | ToolStarted | ToolOutput | ToolResult
    | Steered | Progress | Loading | Notice | Usage | Refused | Result
)  # fmt: skip

TYPES: Mapping[type, str] = {
    kind: re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)
}
"""The `type` of each event's line: `"tool_started"` of a `ToolStarted`."""


def to_json(event: Event, turn: int) -> dict[str, object]:
    """The object of an event's line. `turn` counts from 1.

    to_json(Text("816"), 1)    # {"v": 1, "type": "text", "turn": 1, "delta": "816", "item": 0, "preamble": False}
    """
    return {"v": VERSION, "type": TYPES[type(event)], "turn": turn, **_plain(event)}


def _plain(event: Any) -> dict[str, object]:
    """The fields, with events for dicts and tuples for lists. (`asdict` copies all the rest, to any depth.)"""
    values = {one.name: getattr(event, one.name) for one in fields(event)}
    return {name: _item(value) for name, value in values.items()}


def _item(value: object) -> object:
    if isinstance(value, tuple):
        return [_item(one) for one in value]
    return _plain(value) if is_dataclass(value) else value
