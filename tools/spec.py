"""The interface of a tool: its description, a call, a result, and the events in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from ossia.tools.present import JSON, Present
from ossia.tools.workspace import Workspace

Effect = Literal["read", "write", "run", "send"]
"""read: looks at things; write: changes files; run: starts code; send: lets data leave the machine."""

Provenance = Literal["built-in", "user", "mcp"]
"""The author of a tool: ossia; the user, by a file or a package that they named; whoever runs an MCP server."""

Taint = Literal["outside", "private"]
"""A kind of text. outside: by somebody else (the web, MCP, a folder that isn't trusted). private: the user's own (a
workspace, the local library, python's output), which a URL or a search could leak."""

Need = Literal["network", "git", "unconfined"]
"""Something beyond the confinement that one command may be given. network: TCP, UDP and DNS; git: to change the
repository (commit, stash, checkout); unconfined: all of the user's rights."""

StopReason = Literal["user", "time"]
"""The cause of a stopped turn: the user, or its time limit."""

INTERRUPTED: Final[Mapping[StopReason, str]] = {"user": "interrupted by the user", "time": "interrupted: out of time"}
"""The words for the model about a stopped call."""


class Stop(Protocol):
    """A tool's view of whether its turn was stopped. Thread-safe."""

    @property
    def stopped(self) -> bool:
        """True once the turn is to end. It never becomes False again."""

    @property
    def stop_reason(self) -> StopReason | None:
        """The cause; None while the turn goes on."""

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, from whatever thread stops the turn (at once if it is stopped already).

        Returns a function that removes the callback. The callback must be quick and must not raise: it may set a flag,
        close a socket, interrupt a kernel.
        """


def interrupted(stop: Stop) -> str:
    """The reason for the model that a stopped call has no more output: `"interrupted by the user"`."""
    return INTERRUPTED[stop.stop_reason or "user"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool for the model and the policy.

    `name` is the whole recipient: `"python"`, `"container.exec"`, `"functions.get_weather"`. `parameters` is a JSON
    Schema of the arguments. It is None if there are none, or if they are raw text (`input="text"`, as for python).
    `trained`: the model was trained to call it; a section of the system prompt describes it. `section` is the text of
    that section, the same for all of its tools; None: the text as it was trained. `effects`: the most that a call can
    do; a `Preview` may narrow it. `provenance`: its author; the policy decides by that. `origin`: the place it was
    found: `"file tools.py"`, `"package weather"`, or the MCP server's name. `taints`: the kinds of text in its name,
    description and parameters. `result_taints`: those in a call's result, however it ends; None: those of the
    workspace. `present`: the form of its calls for a person. `note`: a line for the instructions about this machine or
    workspace. (In the section it would change the beginning of the prompt, which all of them share in the KV cache.)
    `returned`: a client of ours runs it; its calls are read, and the turn ends with one. `shown`: the parameters as the
    prompt has them; None: as they are.
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
    taints: frozenset[Taint] = frozenset()
    result_taints: frozenset[Taint] | None = None
    present: Present = JSON
    note: str = ""
    returned: bool = False
    shown: Mapping[str, object] | None = None

    @property
    def source(self) -> str:
        """Its source, for people: `"built-in"`, `"file tools.py"`, `"mcp weather"`."""
        return f"mcp {self.origin}" if self.provenance == "mcp" else self.origin or self.provenance


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call by the model: `ToolCall("call_1", "python", "print(2+2)")`. `arguments`: the text as it was written."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a call produced, e.g. a picture: a path on this machine and a media type."""

    path: Path
    media_type: str


CHANGED = "The user changed this call to:"
"""The beginning of the result of a call that the user changed; the changed call follows on the same line."""


FaultKind = Literal[
    "missing", "refused", "unasked", "planning", "timeout", "server", "search", "source", "key", "workspace", "module"
]


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason of a failed call, for whoever helps the user: `Fault("module", "numpy")`.

    missing: no such tool is on. refused: the user said no; unasked: nobody was asked (again). planning: only a plan is
    being made. timeout: the command ran out of time. server: its MCP server failed. search: the search failed; source:
    it has no such source; key: its service doesn't take the key. workspace: no commands run in this one. module: Python
    has no such module, the `subject`.
    """

    kind: FaultKind
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: `text` goes back to the model, the rest stays here.

    `error`: the call failed or was refused; the text says so in a form the model can act on. `fault`: the reason, where
    something can be done about it; not stored. `taints`: the kinds of text in it, beyond its tool's `result_taints`.
    `state` is JSON-like data that is stored with the message, and that resume, fork and undo restore. `notices` are
    lines for the user, shown even where little else of the call is. `retry`: it failed for the lack of something that a
    person may give; this is the call as it would be run again, with its `needs`. `returned`: the call is whole, and for
    the client to run (`ToolSpec.returned`): there is no result yet.
    """

    text: str
    error: bool = False
    attachments: tuple[Attachment, ...] = ()
    state: Mapping[str, object] | None = None
    taints: frozenset[Taint] = frozenset()
    notices: tuple[str, ...] = ()
    fault: Fault | None = None
    retry: Preview | None = None
    returned: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """A call as a person is asked to approve it, and as the policy judges it.

    `summary` is one line without the tool's name (`tools.saying`); `conditions` says how it would run, `"confined by
    bwrap, no network"`, and what can't be undone. `detail` is the diff, the command or the code. `subjects` are matched
    against the patterns of rules: the paths in the workspace that are read or written (`"docs/a.md"`), or the URL; with
    `command`, one shell command, matched token by token. Every subject must be allowed. `deletes`: those that are gone
    after the call. `inside`: they are folders, and what lies in folders below them is shown, too.
    `effects`: those of this call; None: the tool's.
    `caution` is a reason to ask even if the effects alone give none ("it reads .env, which often holds secrets").
    `firm`: only a person may answer that; `--yes` doesn't. `own`: those of the subjects that are parts of ossia itself.
    `unconfined`: it runs code that nothing confines. `needs`: what it is given beyond the confinement, which only a
    person or a rule that says so can allow. `plan` is for the tool alone: `run` finds it in `context.preview`,
    so that what runs is what was previewed.
    """

    summary: str
    detail: str = ""
    language: str = ""
    subjects: tuple[str, ...] = ()
    command: bool = False
    deletes: tuple[str, ...] = ()
    inside: bool = False
    effects: frozenset[Effect] | None = None
    caution: str = ""
    firm: bool = False
    own: tuple[str, ...] = ()
    unconfined: bool = False
    needs: frozenset[Need] = frozenset()
    conditions: str = ""
    plan: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The circumstances of a call. `count_tokens` counts in the vocabulary of the model that reads the result.

    `taint`: the kinds of text in the prompt, or in a summary of it. `said` is the text that the user typed in this
    conversation (not what was piped in or read from files). `read_only`: a plan is being made, and a command must not
    be able to change anything. `given`: the needs that the user's rules give a command. `preview` is what the tool's
    `preview` returned for this call; None while that runs.
    """

    stop: Stop
    workspace: Workspace | None
    data_dir: Path
    count_tokens: Callable[[str], int]
    taint: frozenset[Taint] = frozenset()
    said: str = ""
    read_only: bool = False
    given: Callable[[str], frozenset[Need]] = lambda command: frozenset()
    preview: Preview | None = None


# -- the events of a call, in order ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A question. Whoever drives the turn answers with `send(Decision(call.id, …))`; None is a refusal.

    `call.name` is the tool's own name, whatever the model wrote (`bash;it-only-reads` is `container.exec`).
    `firm`: a person must answer it; `--yes` doesn't (it is tainted, unconfined or needs something); `lasting`: even so
    the answer may hold for the session. `rules` are what "always" would store, in the form of `--allow`
    (`"container.exec:git status"`); empty: there is no "always". `wider` is the same for any arguments
    (`"container.exec:git status *"`), empty where that isn't offered. `arguments` are the call's, parsed: a dict or a
    text, which a person may edit. `edits`: to accept edits for the session answers it. If the arguments that the user
    wrote last are wrong, `rejected` holds them and `fault` says why; the question is still about the ones before.

    `form`: the call runs, and its server asks the user for something: each field with what may stand in it; empty: only
    a yes or no. Then `arguments` are the defaults, and those of an allowing decision are the values, as JSON.
    """

    call: ToolCall
    preview: Preview
    reason: str
    firm: bool = False
    rules: tuple[str, ...] = ()
    fault: str = ""
    rejected: str = ""
    edits: bool = False
    arguments: object = field(default=None, compare=False, repr=False)
    form: Mapping[str, str] | None = None
    lasting: bool = False
    wider: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to an `ApprovalAsked`. `remember`: for this call only, or for the rest of the session; "edits": for
    the rest of the session, and for every other edit of a plain file that can be undone.

    A toolbox treats "always" as "session": whoever answers stores the question's rules. `arguments`: written by the
    user instead of the model. Then even an allowing decision is no approval yet: the changed call is previewed and
    asked about. `unasked`: a refusal because nobody could be asked; the model reads that. `reason`: why the user
    refuses, in their words, for the model; "" without one. (Of an unasked one, for the program's log.)
    """

    call_id: str
    allow: bool
    remember: Literal["once", "session", "edits"] = "once"
    arguments: str | None = None
    unasked: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """The decision, by a rule of the policy or by the user."""

    call_id: str
    allow: bool
    by: Literal["policy", "user"]
    reason: str


@dataclass(frozen=True, slots=True)
class ToolShown:
    """A dry run: the call is only described. The result holds as much of that as a model reads."""

    call: ToolCall
    preview: Preview


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The call passed every check and begins to run. `call` is the user's version if they changed it."""

    call: ToolCall
    preview: Preview | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Output while the tool runs: for the screen only, the model sees `ToolResult.text`. Raw outside text."""

    call_id: str
    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The call is over. `ms`: wall time spent in the tool, 0 if it never ran. `call`: as in `ToolStarted`."""

    call: ToolCall
    result: ToolResult
    ms: int


ToolEvent = ApprovalAsked | ApprovalDecided | ToolShown | ToolStarted | ToolOutput | ToolFinished


class Tool(Protocol):
    """Something the model can call.

    `args` is what `spec.parameters` describes: a dict that the toolbox has parsed and validated, or a str with
    `input="text"`. A fault of the call (a file that isn't there) is a `ToolResult(error=True)` or a `ToolFailed`. Any
    other exception is a bug and ends the turn.
    """

    spec: ToolSpec

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        """Describe what would happen, without doing it."""

    def run(
        self, args: object, *, call_id: str, context: ToolContext
    ) -> Generator[ToolOutput | ApprovalAsked, Any, ToolResult]:
        """Do it: yield output as it comes, return the result. Ends soon after a stop, and at once when closed.

        A `Decision`, or None, is sent after an `ApprovalAsked` with a form.
        """

    def close(self) -> None:
        """Release everything (processes, files). May be called more than once."""


class ToolFailed(Exception):
    """A call's own fault; the message goes to the model as it stands: `Error: <what> <where> <what to do>`.

    `taints`: the kinds of text in the message; None: the usual ones of this tool's results. `fault` and `state`:
    as a `ToolResult`'s; the state is stored although the call failed.
    """

    def __init__(self, message: str, *, taints: frozenset[Taint] | None = None, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.taints, self.fault = taints, fault
        self.state: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class NoStop:
    """A `Stop` that never stops: for calls made by hand and in tests."""

    stopped: bool = field(default=False, init=False)
    stop_reason: StopReason | None = field(default=None, init=False)

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None
