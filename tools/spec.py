"""What a tool is, seen from outside: its description, a call, a result, and what happens in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Protocol

from tools.workspace import Workspace

Effect = Literal["read", "write", "run", "send"]
"""read: looks at things; write: changes files; run: starts code; send: lets data leave the machine."""

Provenance = Literal["built-in", "user", "mcp"]
"""Who wrote a tool: we; the user, in a file or a package that they named; whoever runs an MCP server."""

Taint = Literal["outside", "private"]
"""What a text contains.

outside: what somebody else wrote (the web, MCP, a folder that isn't trusted). private: what is the user's own (a
workspace, the local library, python's output) and could be leaked by a URL or a search.
"""


StopReason = Literal["user", "time"]
"""Who stopped a turn: the user, or its time limit."""

INTERRUPTED: Final[Mapping[StopReason, str]] = MappingProxyType(
    {"user": "interrupted by the user", "time": "interrupted: out of time"}
)
"""How the model is told that a call was stopped."""


class Stop(Protocol):
    """The half of a turn's control that a tool sees. Thread-safe."""

    @property
    def stopped(self) -> bool:
        """True once the user wants the turn to end. It never becomes False again."""
        ...

    @property
    def stop_reason(self) -> StopReason | None:
        """Who stopped it; None while it goes on."""
        ...

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, from whatever thread stops the turn (at once if it is stopped already).

        Returns a function that takes the callback back. The callback must be quick and must not raise: it sets a flag,
        closes a socket, interrupts a kernel.
        """
        ...


def interrupted(stop: Stop) -> str:
    """Why a call that was stopped brought no more, in words for the model: `"interrupted by the user"`."""
    return INTERRUPTED[stop.stop_reason or "user"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model and the policy know of a tool.

    `name` is the whole recipient: `"python"`, `"browser.open"`, `"functions.get_weather"`. `parameters` is a JSON
    Schema of the arguments, or None when there are none (or, with `input="text"`, when the arguments are raw text, as
    python's are). `trained`: it is described by a section of the system prompt that the model was trained on; `section`
    is that section's whole text (all tools of a section give the same), None for the text as it was trained.
    `effects`: the most that a call can do; a `Preview` may say less. `provenance`: who wrote it: policy decides by it;
    `origin`: what it was found in, `"file tools.py"`, `"package weather"`, or the MCP server's name. `brings`: what
    kinds of text its name, description and parameters are, which stand in the prompt.
    """

    name: str
    description: str
    parameters: Mapping[str, object] | None = None
    input: Literal["json", "text"] = "json"
    effects: frozenset[Effect] = frozenset()
    trained: bool = False
    section: str | None = None
    provenance: Provenance = field(kw_only=True)
    origin: str = ""
    brings: frozenset[Taint] = frozenset()

    @property
    def source(self) -> str:
        """Where it comes from, for people: `"built-in"`, `"file tools.py"`, `"mcp weather"`."""
        return f"mcp {self.origin}" if self.provenance == "mcp" else self.origin or self.provenance


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's wish: `ToolCall("call_1", "python", "print(2+2)")`. `arguments` is the text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a call made, e.g. a picture: a path on this machine and a media type."""

    path: Path
    media_type: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What goes back to the model (`text`) and what only we keep.

    `error`: the call failed or was refused; the text says so in a form the model can act on. `brings`: the kinds of
    text in it. `state` is JSON-like data that is stored with the message, and that resume, fork and undo restore.
    `notices` are lines for the user, who is told whatever else they are shown of a call.
    """

    text: str
    error: bool = False
    attachments: tuple[Attachment, ...] = ()
    state: Mapping[str, object] | None = None
    brings: frozenset[Taint] = frozenset()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What a person is asked to agree to, and what the policy rules on.

    `summary` is one line; `detail` is the diff, the command or the code. `subjects` are what the patterns of rules
    are matched against: the paths in the workspace that are read or written (`"docs/a.md"`), the URL; with
    `command` it is one shell command, matched token by token. Every subject must be allowed. `effects`: of this
    very call, None: the tool's. `caution` is a reason to ask although the effects alone would not ("it reads .env,
    which often holds secrets"); `firm`: only a person may answer that, `--yes` doesn't. `own`: those of the
    subjects that ossia itself is made of. `unconfined`: it runs code that nothing confines. `plan` is the tool's
    own: `run` finds it in `context.preview`, so that what runs is what was previewed.
    """

    summary: str
    detail: str = ""
    language: str = ""
    subjects: tuple[str, ...] = ()
    command: bool = False
    effects: frozenset[Effect] | None = None
    caution: str = ""
    firm: bool = False
    own: tuple[str, ...] = ()
    unconfined: bool = False
    plan: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may rely on. `count_tokens` counts in the vocabulary of the model that reads the result.

    `taint`: what kinds of text stand in the prompt, or in a summary of it. `said` is what the user typed in this
    conversation (not what was piped in or read from files). `preview` is what `preview` gave for this very call; None
    while that is being made.
    """

    stop: Stop
    workspace: Workspace | None
    data_dir: Path
    count_tokens: Callable[[str], int]
    taint: frozenset[Taint] = frozenset()
    said: str = ""
    preview: Preview | None = None


# -- the events of a call, in the order they come ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A question. Whoever drives the turn answers with `send(Decision(call.id, …))`; None is a refusal.

    `call.name` is the tool's own name, whatever the model wrote (`shell;it-only-reads` is `functions.shell`).
    `firm`: a person must answer it; `--yes` doesn't (it is tainted or unconfined). `rules` are what "always" would
    store, in the form of `--allow` (`"shell:git status"`); empty: there is no always. `arguments` are the call's as
    they were read, a dict or a text: what a person edits. `fault` says what is wrong with the arguments that the user
    wrote last, which are `rejected`: the question is still about the ones before.
    """

    call: ToolCall
    preview: Preview
    reason: str
    firm: bool = False
    rules: tuple[str, ...] = ()
    fault: str = ""
    rejected: str = ""
    arguments: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to an `ApprovalAsked`. `remember`: for this call only, or for the rest of the session.

    "always" is "session" to a toolbox: whoever answers stores the rules of the question. With `arguments`, which the
    user wrote in place of the model's, an allowing decision is no agreement yet: the changed call is previewed, and
    asked about.
    """

    call_id: str
    allow: bool
    remember: Literal["once", "session"] = "once"
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """What was decided, and by whom: the policy's rule or the user."""

    call_id: str
    allow: bool
    by: Literal["policy", "user"]
    reason: str


@dataclass(frozen=True, slots=True)
class ToolShown:
    """A dry run: what the call would do, whole, in place of doing it. The result has as much of it as a model reads."""

    call: ToolCall
    preview: Preview


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The call passed every check and begins to run; it is the user's version where they changed it."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Output while the tool runs: for the screen only, the model sees `ToolResult.text`. Raw outside text."""

    call_id: str
    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The call is over; `ms` is wall time spent in the tool (0 for one that never ran). `call`: as in `ToolStarted`."""

    call: ToolCall
    result: ToolResult
    ms: int


ToolEvent = ApprovalAsked | ApprovalDecided | ToolShown | ToolStarted | ToolOutput | ToolFinished


class Tool(Protocol):
    """A thing that can be done.

    `args` is what `spec.parameters` describes: a dict that the toolbox has parsed and validated, or a str with
    `input="text"`. A fault of the call (a file that isn't there) is a `ToolResult(error=True)` or a `ToolFailed`, never
    another exception; another exception is a bug of ours and ends the turn.
    """

    spec: ToolSpec

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        """What would happen, without doing it."""
        ...

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """Do it: yield output as it comes, return the result. Ends soon after a stop, and at once when closed."""
        ...

    def close(self) -> None:
        """Give everything back (processes, files). May be called more than once."""
        ...


class ToolFailed(Exception):
    """A call's own fault; the message goes to the model as it stands: `Error: <what> <where> <what to do>`.

    `brings`: the kinds of text in the message; None: whatever this tool's results usually bring. `state`: what is kept
    of the call although it failed, as a `ToolResult`'s.
    """

    def __init__(self, message: str, *, brings: frozenset[Taint] | None = None) -> None:
        super().__init__(message)
        self.brings = brings
        self.state: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class NoStop:
    """A `Stop` that never stops: for calls made by hand and in tests."""

    stopped: bool = field(default=False, init=False)
    stop_reason: StopReason | None = field(default=None, init=False)

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None
