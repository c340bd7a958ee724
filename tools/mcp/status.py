"""MCP servers and their tools as the user sees them: connected or not, on or off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MAX_TOOLS = 100
ToolState = Literal["accepted", "first", "new", "changed"]
"""accepted: unchanged since the user accepted it. new, changed: off until it is accepted.

first: nothing of its server was ever accepted, so its description counts as text from outside.
"""


class ServerFailed(Exception):
    """A server or a call failed: one line, which may quote the server.

    `lost`: it must be started again first. `undone`: the server said that it did nothing, so the call may be repeated.
    """

    def __init__(self, message: str, *, lost: bool = False, undone: bool = False) -> None:
        super().__init__(message)
        self.lost, self.undone = lost, undone


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool as the server describes it: raw, unbounded, untrusted. `read_only` is only the server's claim."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool


@dataclass(frozen=True, slots=True)
class McpToolStatus:
    """One tool of a server. `name` is the server's, `offered` the one the model calls; `description` is cleaned.

    `parameters` are those of its `ToolSpec`.
    """

    name: str
    offered: str
    description: str
    state: ToolState
    read_only: bool
    parameters: Mapping[str, object] | None = None

    @property
    def is_on(self) -> bool:
        return self.state in ("accepted", "first")


@dataclass(frozen=True, slots=True)
class McpStatus:
    """The outcome of connecting to one server. `error` is one line, None when it is connected; `ms`: how long it took.

    `title` is what the server calls itself: `"files 1.2.0, protocol 2026-07-28"`. `more_tools`: it has more than 100,
    and the others are left out. `left_out`: names of tools that can't be used, each with the reason.
    """

    name: str
    target: str
    ms: int
    title: str = ""
    tools: tuple[McpToolStatus, ...] = ()
    more_tools: bool = False
    left_out: tuple[tuple[str, str], ...] = ()
    error: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for the user: a failure, a new server, tools that are off."""
        test = f"`ossia mcp test {self.name}`"
        if self.error is not None:
            return (f"mcp {self.name} is off: {self.error}: check it with {test}",)
        lines = []
        first = [tool.name for tool in self.tools if tool.state == "first"]
        if first:
            until = f"count as text from outside until you accept them: {test}"
            lines.append(f"mcp {self.name} is new: the descriptions of its tools ({_listed(first)}) {until}")
        for state, what in (("new", "new tools"), ("changed", "tools that have changed")):
            off = [tool.name for tool in self.tools if tool.state == state]
            if off:
                lines.append(f"mcp {self.name}: {what} are off until you accept them: {_listed(off)}: {test}")
        lines += [f"mcp {self.name}: the tool {tool} is left out: {why}" for tool, why in self.left_out[:12]]
        if more := len(self.left_out[12:]):
            lines.append(f"mcp {self.name}: {more} more tools are left out: {test} lists them")
        if self.more_tools:
            lines.append(f"mcp {self.name} has more than {MAX_TOOLS} tools: only the first {MAX_TOOLS} are used")
        return tuple(lines)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
