"""What the user is told about the servers: whether they are connected, and which of their tools are on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ossia.tools.mcp._server import MAX_TOOLS

ToolState = Literal["accepted", "first", "new", "changed"]
"""accepted: unchanged since the user accepted it. new, changed: off until it is accepted.

first: nothing of its server was ever accepted, so its description counts as text from outside.
"""


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
    """How connecting to one server went. `error` is one line, None when it is connected; `ms` is how long it took.

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
        """What the user should be told, a line each: a failure, a new server, tools that are off."""
        test = f"`ossia mcp test {self.name}`"
        if self.error is not None:
            return (f"mcp {self.name} is off: {self.error}: check it with {test}",)
        lines = []
        first = [tool.name for tool in self.tools if tool.state == "first"]
        if first:
            shown = f"count as text from outside until you have looked at them with {test}"
            lines.append(f"mcp {self.name} is new: the descriptions of its tools ({_listed(first)}) {shown}")
        for state, what in (("new", "new tools"), ("changed", "tools that have changed")):
            off = [tool.name for tool in self.tools if tool.state == state]
            if off:
                accept = f"look at them with {test}, then accept them with --accept"
                lines.append(f"mcp {self.name}: {what} are off: {_listed(off)}: {accept}")
        lines += [f"mcp {self.name}: the tool {tool} is left out: {why}" for tool, why in self.left_out[:12]]
        if more := len(self.left_out[12:]):
            lines.append(f"mcp {self.name}: {more} more tools are left out: {test} lists them")
        if self.more_tools:
            lines.append(f"mcp {self.name} has more than {MAX_TOOLS} tools: only the first {MAX_TOOLS} are used")
        return tuple(lines)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
