"""The events of a turn as `session/update`s."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.stream import events
from ossia.cli.acp.rpc import INTERNAL, RpcError
from ossia.cli.clean import one_line
from ossia.cli.visible import seen_line
from ossia.cli.words import ENDS

Update = dict[str, object]
Send = Callable[[Update], None]

_KINDS = {"read": "read", "write": "edit", "run": "execute", "send": "fetch", "other": "other"}
_NAMED_KINDS = {
    "python": "execute",
    "container.exec": "execute",
    "repo_browser.print_tree": "read",
    "repo_browser.list_dir": "read",
    "repo_browser.open_file": "read",
    "repo_browser.search": "search",
    "repo_browser.apply_patch": "edit",
    "browser.search": "search",
    "browser.find": "search",
    "browser.open": "fetch",
}
_STOPS: Mapping[events.End, str] = {
    "answered": "end_turn",
    "silent": "end_turn",
    "stopped": "cancelled",
    "tokens": "max_tokens",
    "context": "max_tokens",
    "loop": "max_tokens",
    "time": "max_turn_requests",
    "steps": "max_turn_requests",
}
_MAX_LINE = (1 << 32) - 1
"""The protocol's: clients refuse the update with another."""
_OUTPUT_CHARS = 16_000
"""Shown of a running call's output: its end."""
_OUTPUT_S = 0.2
_RESULT_CHARS, _SOURCE_CHARS = 200_000, 500
_DRAFT_S = 0.5
"""A call that is written for longer is shown meanwhile, as often."""


def text(value: str) -> dict[str, object]:
    """A block of text: `{"type": "text", "text": "816"}`."""
    return {"type": "text", "text": value}


def message(value: str) -> Update:
    """More of the answer."""
    return {"sessionUpdate": "agent_message_chunk", "content": text(value)}


def thought(value: str) -> Update:
    """More of the thinking, or a line about the turn."""
    return {"sessionUpdate": "agent_thought_chunk", "content": text(value)}


def said(value: str) -> Update:
    """The user's own words."""
    return {"sessionUpdate": "user_message_chunk", "content": text(value)}


def content(value: str) -> dict[str, object]:
    """A text of a call."""
    return {"type": "content", "content": text(value)}


def code(value: str, language: str = "") -> dict[str, object]:
    """A text of a call, drawn as code."""
    from ossia.cli.attach.content import block

    head, _, rest = block("", value).removeprefix("\n").partition("\n")
    return content(f"{head}{language}\n{rest}")


def diffs(changes: Sequence[tuple[str, str | None, str]], root: Path) -> list[dict[str, object]]:
    """The changes of files, each with its old text (None: a new file) and its new one."""
    return [{"type": "diff", "path": str(root / name), "oldText": old, "newText": new} for name, old, new in changes]


def tool_call(call: events.ToolCall, root: Path) -> Update:
    """The beginning of a call."""
    first = call.arguments.get("line_start") if isinstance(call.arguments, Mapping) else None
    line = {"line": first} if type(first) is int and 0 < first <= _MAX_LINE else {}
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call.id,
        "title": seen_line(call.title or call.name),
        "kind": _NAMED_KINDS.get(call.name) or _KINDS[call.kind],
        "status": "pending",
        "locations": [{"path": str(root / path), **line} for path in call.paths],
        "rawInput": _raw(call.arguments),
    }


def result(done: events.ToolResult, name: str, shown: Sequence[Mapping[str, object]] = ()) -> Update:
    """The end of the call `name`. `shown`: its diffs, instead of an output with the files' names."""
    from ossia.tools.work.result import for_people

    changed = shown or ([code(done.diff, "diff")] if done.diff else [])
    said = "" if changed and done.status == "done" else _cut(for_people(done.output, name))
    links = [{"type": "resource_link", "uri": Path(file).as_uri(), "name": Path(file).name} for file in done.files]
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": done.id,
        "status": "completed" if done.status in ("done", "shown") else "failed",
        "content": [
            *map(content, done.notices),
            *changed,
            *([code(said)] if said else []),
            *({"type": "content", "content": link} for link in links),
        ],
        "rawOutput": {"status": done.status, "output": _cut(done.output)},
    }


def _cut(output: str) -> str:
    return output if len(output) <= _RESULT_CHARS else f"{output[:_RESULT_CHARS]}\n[cut here]"


def _raw(arguments: object) -> object:
    """The arguments as an object: clients expect no other."""
    return arguments if isinstance(arguments, Mapping) else {"text": arguments}


@dataclass(slots=True)
class _Running:
    """The output of a running call: its end, and when the client has to have it."""

    text: str = ""
    cut: bool = False
    due: float | None = None


class Updates:
    """Sends a turn's events to the client. `context`: the model's, in tokens; `root`: the session's folder."""

    def __init__(self, send: Send, root: Path, context: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._send, self._root, self._context, self._clock = send, root, context, clock
        self._names: dict[str, str] = {}  # of the calls
        self._running: dict[str, _Running] = {}
        self._shown: dict[str, list[dict[str, object]]] = {}
        self._last: tuple[type, int] | None = None  # the message that the last chunk belongs to
        self._ids: dict[str, str] = {}  # of calls that were shown while they were written
        self._draft, self._due = "", 0.0  # the id of the call being written, and when it is shown

    def see(self, event: events.Event) -> None:
        """Send one event."""
        if isinstance(event, events.Text | events.Reasoning):
            self._drop_draft()
        match event:
            case events.Text(delta, item):
                self._send(message(self._apart(event, item) + delta))
            case events.Reasoning(delta, item):
                self._send(thought(self._apart(event, item) + delta))
            case events.ToolCall():
                self._last = None
                self._names[event.id] = event.name
                begun = tool_call(event, self._root)
                if self._draft:
                    self._ids[event.id] = self._draft
                    begun |= {"sessionUpdate": "tool_call_update", "toolCallId": self._draft, "content": []}
                self._draft, self._due = "", 0.0
                self._send(begun)
            case events.ToolStarted(id_, _, arguments):
                shown = {"content": self._shown[id_]} if id_ in self._shown else {}
                self._update(id_, status="in_progress", rawInput=_raw(arguments), **shown)
                self._running[id_] = _Running()
            case events.ToolOutput(id_, delta):
                self._output(id_, delta)
            case events.ToolResult():
                self._running.pop(event.id, None)
                ended = result(event, self._names[event.id], self._shown.pop(event.id, ()))
                self._send(ended | {"toolCallId": self.id_of(event.id)})
            case events.Usage():
                used = event.prompt + event.completion
                self._send({"sessionUpdate": "usage_update", "used": used, "size": self._context})

    def id_of(self, call: str) -> str:
        """The client's id of a call."""
        return self._ids.get(call, call)

    def write(self, said: str, lines: Sequence[str]) -> None:
        """Show the call being written, if that takes a while: `write("writing big.py · line 130", ["x = 1"])`."""
        now = self._clock()
        self._due = self._due or now + _DRAFT_S
        if now < self._due:
            return
        self._due = now + _DRAFT_S
        kind = "tool_call_update" if self._draft else "tool_call"
        self._draft = self._draft or f"draft-{secrets.token_hex(4)}"
        self._send(
            {
                "sessionUpdate": kind,
                "toolCallId": self._draft,
                "title": said[:1].upper() + said[1:],
                "status": "pending",
                "content": [code("\n".join(map(seen_line, lines)))],
            }
        )

    def _drop_draft(self) -> None:
        if self._draft:
            self._send({"sessionUpdate": "tool_call_update", "toolCallId": self._draft, "status": "failed"})
        self._draft, self._due = "", 0.0

    def show(self, call: str, changes: Sequence[tuple[str, str | None, str]]) -> None:
        """Note the changes of a call to files: they are shown once it runs."""
        if changes:
            self._shown[call] = diffs(changes, self._root)

    def shown(self, call: str) -> list[dict[str, object]]:
        """The diffs of a call."""
        return self._shown.get(call, [])

    def tick(self) -> None:
        """Send the due output of running calls."""
        now = self._clock()
        for call, running in self._running.items():
            if running.due is not None and now >= running.due:
                running.due = None
                shown = code(f"{'[…]' if running.cut else ''}{running.text}")
                self._update(call, content=[*self._shown.get(call, ()), shown])

    def end(self, turn: events.Result) -> dict[str, object]:
        """The sources of the answer, then the response. Raises RpcError if the turn broke."""
        self._drop_draft()
        if turn.end == "error":
            raise RpcError(INTERNAL, turn.error or "the turn broke off")
        if turn.sources:
            lines = (one_line(f"[{one.number}] {one.title} {one.url}", _SOURCE_CHARS) for one in turn.sources)
            self._send(message("\n\n" + "\n".join(lines)))
        if turn.end not in ("answered", "stopped"):
            self._send(message(f"\n\n[{ENDS[turn.end]}]"))
        return {"stopReason": _STOPS[turn.end]}

    def _apart(self, event: events.Event, item: int) -> str:
        """A blank line before another message of the same kind."""
        before, self._last = self._last, (type(event), item)
        return "\n\n" if before and before[0] is type(event) and before[1] != item else ""

    def _output(self, call: str, delta: str) -> None:
        running = self._running.setdefault(call, _Running())
        whole = running.text + delta
        running.cut = running.cut or len(whole) > _OUTPUT_CHARS
        running.text = whole[-_OUTPUT_CHARS:]
        running.due = running.due or self._clock() + _OUTPUT_S
        self.tick()

    def _update(self, call: str, **fields: object) -> None:
        self._send({"sessionUpdate": "tool_call_update", "toolCallId": self.id_of(call), **fields})
