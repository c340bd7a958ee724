"""The owner's tools, as clients may use them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from ossia.agent.serving.asked import Asked, BadRequest, Hosted
from ossia.agent.vocabulary import TokenCounter
from ossia.tools.approval.grants import Grants
from ossia.tools.build import Toolset, ToolsSpec, toolset
from ossia.tools.folder import Folder
from ossia.tools.functions.returned import ReturnedFunction
from ossia.tools.host import Host, Report
from ossia.tools.spec import ToolSpec
from ossia.tools.undo.journal import Journal

if TYPE_CHECKING:
    from ossia.harmony.tokenizer import Tokenizer

MAX_TOOLSETS = 8
"""Toolsets kept alive between turns: each may have a Python kernel."""

_UNUSED = ""
_FAMILIES: Final[Mapping[Hosted, tuple[str, ...]]] = {
    "web_search": ("browser.",),
    "code_interpreter": ("python",),
    "shell": ("container.", "repo_browser."),
}
_NEEDED: Final[Mapping[Hosted, str]] = {
    "web_search": "ossia serve --web …",
    "code_interpreter": "ossia serve --tools python",
    "shell": "ossia serve --workspace FOLDER",
}


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner's tools for clients, and the rules about them, by `spec`.

    `yes` answers questions that aren't firm. `always`: every client is offered all of them, whatever it asks for;
    otherwise only those hosted tools that it asks for, and no functions or MCP servers. `only_look`: nothing that
    writes, runs or sends, whatever rules say.
    """

    spec: ToolsSpec
    yes: bool = False
    always: bool = False
    only_look: bool = False


@dataclass(slots=True)
class Lent:
    """Tools for one turn, but those in `off`.

    `used`: one of those that run here may have been called, so that they are the conversation's own from now on.
    `ended`: the turn came to its end; otherwise its client will ask again.
    """

    toolset: Toolset
    off: frozenset[str]
    used: bool = True
    ended: bool = False

    @property
    def folder(self) -> Folder | None:
        """The workspace, if the model may look at it in this turn."""
        offered = (spec.name for spec in self.toolset.toolbox.every_spec if spec.name not in self.off)
        return self.toolset.folder if any(name.startswith(_FAMILIES["shell"]) for name in offered) else None


class Tools:
    """The toolsets of conversations, by the marks of the responses that left them. Thread-safe.

    So whoever goes on from an earlier response, as others may whose conversations began the same, gets new ones.
    `report` gets the notices of building them.
    """

    def __init__(self, owner: Owner, host: Host, report: Report, *, most: int = MAX_TOOLSETS) -> None:
        self.owner, self._host, self._report, self._most = owner, host, report, most
        self._grants = Grants(host.data)
        self._idle: OrderedDict[str, Toolset] = OrderedDict()  # those that nobody has used have a key of their own
        self._lock, self._closed = threading.Lock(), False

    @contextmanager
    def lent(self, after: str | None, mark: str, asked: Asked) -> Iterator[Lent]:
        """The tools as the response `after` left them, with the client's functions, for the turn of response `mark`.

        Raises BadRequest for a hosted tool that is off, and for a function of the name of the owner's.
        """
        hosted = _hosts(asked) and (bool(asked.hosted) or self.owner.always)
        with self._lock:
            own = self._idle.pop(after, None) if after is not None else None
            base = (own or self._idle.pop(_UNUSED, None)) if hosted else None
        if base is None:
            base = self._built(self.owner.spec if hosted else ToolsSpec(trained=(), rules=self.owner.spec.rules))
        lent = None
        try:
            lent = self._lent(base, asked)
            yield lent
        finally:
            left_by = mark if after is None or (lent is not None and lent.ended) else after
            used = own is not None or (lent is not None and lent.used)
            self._keep({left_by if used else _UNUSED: base} if hosted else {left_by: own} if own else {})
            if not hosted:
                base.close()

    def _keep(self, tools: Mapping[str, Toolset]) -> None:
        closing = []
        with self._lock:
            for mark, one in tools.items():
                if self._closed or mark in self._idle:
                    closing.append(one)
                else:
                    self._idle[mark] = one
            while len(self._idle) > self._most:
                closing.append(self._idle.popitem(last=False)[1])
        for one in closing:
            one.close()

    def close(self) -> None:
        """End the tools of all conversations, those of a turn under way with it."""
        with self._lock:
            idle, self._idle, self._closed = list(self._idle.values()), OrderedDict(), True
        for tools in idle:
            tools.close()

    def _off(self, tools: Toolset, asked: Asked) -> frozenset[str]:
        """The names of the tools not offered to this request."""
        wanted = tuple(prefix for family in asked.hosted for prefix in _FAMILIES[family])
        here = [spec for spec in tools.toolbox.every_spec if not spec.returned]
        offered = [spec for spec in here if self.owner.always or spec.name.startswith(wanted)] if _hosts(asked) else []
        on = [spec.name for spec in offered if _looks(spec) or not self.owner.only_look]
        return frozenset(spec.name for spec in here).difference(on)

    def _built(self, spec: ToolsSpec) -> Toolset:
        if not self.owner.always:
            spec = replace(spec, files={}, packages={}, servers=())
        if spec.folder is not None:  # each conversation has its turns
            folder = spec.folder
            journal = Journal(self._host.data, folder.workspace.root, private=spec.private)
            workspace = replace(folder.workspace, keeper=journal)
            spec = replace(spec, folder=replace(folder, workspace=workspace, journal=journal))
        counter = TokenCounter(cast("Tokenizer", None), self._host)  # the lane's, from the turn on
        return toolset(spec, self._host, self._report, counter, grants=self._grants)

    def _lent(self, base: Toolset, asked: Asked) -> Lent:
        for place, function in enumerate(asked.functions):
            if function.spec.name in {spec.name for spec in base.toolbox.every_spec if not spec.returned}:
                message = f"tools[{place}].name: the server has a function {function.name!r} of its own: rename it"
                raise BadRequest(message, param=f"tools[{place}].name")
        off = self._off(base, asked)
        for family in sorted(asked.hosted if _hosts(asked) else ()):
            names = [spec.name for spec in base.toolbox.every_spec if spec.name.startswith(_FAMILIES[family])]
            waits = family == "web_search" and not base.browses
            if waits or not [name for name in names if name not in off]:
                why = base.missing.get({"web_search": "browser", "code_interpreter": "python"}.get(family, ""), "")
                message = f"tools: {family} is off here{why and f' ({why})'}: its owner turns it on, {_NEEDED[family]}"
                raise BadRequest(message, param="tools", code="tool_unavailable")
        functions = () if asked.tool_choice == "none" else asked.functions
        toolbox = base.toolbox.with_tools(ReturnedFunction(one.spec) for one in functions)
        return Lent(replace(base, toolbox=toolbox), off)


def _hosts(asked: Asked) -> bool:
    """True if tools may run here for this request."""
    return asked.tool_choice != "none" and asked.max_calls != 0


def _looks(spec: ToolSpec) -> bool:
    """True for a tool without any effect but reading."""
    runs = spec.present.language in ("python", "bash")
    return spec.provenance == "built-in" and spec.effects <= {"read"} and not runs
