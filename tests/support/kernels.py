"""Calls of the python tool by hand. Imports no more than the tool does: a plain user's copy runs on it too."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox.job import Place, Toolchains
from ossia.tools.spec import NoStop, Stop, StopReason, ToolCall, ToolContext, ToolOutput, ToolResult
from ossia.tools.toolbox import Toolbox

BACKENDS = (pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock")
NO_BWRAP = os.devnull
"""As the program of bubblewrap: nothing that could start."""


def confinement(name: str = "") -> sandbox.Confinement:
    """How the model's Python is confined, by name; the test is skipped where it can't be had.

    "": the strongest here, for what is the same under each.
    """
    return _had(_for_python(name), name)


def shell_confinement(name: str = "") -> sandbox.Confinement:
    """The same for commands."""
    return _had(_for_commands(name), name)


@cache
def _for_python(name: str) -> sandbox.Confinement:
    return sandbox.choose(sandbox.inspect(), bwrap=NO_BWRAP if name == "landlock" else None)


@cache
def _for_commands(name: str) -> sandbox.Confinement:
    return sandbox.choose(bwrap=NO_BWRAP if name == "landlock" else None, unconfined=name == "unconfined")


def _had(found: sandbox.Confinement, name: str) -> sandbox.Confinement:
    if found.name != name if name else found.name == "off":
        pytest.skip(f"no {name or 'confinement'} here: {found.reason}")
    return found


@cache
def with_python() -> Mapping[str, Any]:
    """The arguments of `Exec` with which commands have a `python3`: none, or that of these tests, in a home."""
    if shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"):
        return {}
    base = Path(sys.base_prefix)
    return {"search_path": str(base / "bin"), "toolchains": lambda: Toolchains((Place(base, "of the tests"),))}


def count_tokens(text: str) -> int:
    """A stand-in for a vocabulary: four characters a token."""
    return (len(text) + 3) // 4


def context() -> ToolContext:
    return ToolContext(stop=NoStop(), workspace=None, data_dir=Path("/nowhere"), count_tokens=count_tokens)


@dataclass
class StopByHand:
    """A `Stop` that a test stops."""

    stopped: bool = False
    stop_reason: StopReason | None = None
    _callbacks: list[Callable[[], None]] = field(default_factory=list)

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self.stopped:
            callback()
            return lambda: None
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback) if callback in self._callbacks else None

    def stop(self) -> None:
        self.stopped = True
        for callback in list(self._callbacks):
            callback()

    def stop_after(self, seconds: float) -> None:
        threading.Timer(seconds, self.stop).start()


@dataclass
class Ran:
    """A finished call: what the screen got and what the model gets."""

    outputs: list[ToolOutput]
    result: ToolResult

    @property
    def text(self) -> str:
        return self.result.text


def run(tool: PythonTool, code: str, stop: Stop | None = None) -> Ran:
    """One call through a toolbox, as a model's."""
    box = Toolbox([tool], policy=Policy([Rule("*", "allow")]), context=context())
    call = box.run(ToolCall("call_1", "python", code), stop=stop or NoStop())
    outputs: list[ToolOutput] = []
    while True:
        try:
            event = next(call)
        except StopIteration as end:
            return Ran(outputs, end.value)
        if isinstance(event, ToolOutput):
            outputs.append(event)


def descendants(pid: int) -> list[int]:
    """All processes below one, from /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found: list[int] = []
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found += sorted(frontier)
    return found
