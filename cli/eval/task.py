"""What a task is, what is looked at once it was played, and the verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ossia.harmony.messages import Effort, ResponseFormat
from ossia.tools.spec import Tool, ToolFinished

if TYPE_CHECKING:
    from ossia.cli.oneshot.report import Report

Call = tuple[str, object]
"""A tool's name and the arguments: an object, or the code of python: `("python", "print(2)")`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is it solved? `reason` says what is wrong, in a line. `f1`: how well the calls fit, where that is measured."""

    passed: bool
    reason: str = ""
    f1: float | None = None


Judge = Callable[["Report"], Verdict]


def solved(report: Report) -> Verdict:
    """For tasks that are judged by their hidden tests alone."""
    return Verdict(True)


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `id` is `"SUITE/NAME"`.

    `functions` makes the tools that it offers, new ones for each run. `files` are those of the workspace, None: there
    is none; `hidden` are tests that are put there once the turn is over. `effort` and `schema` replace the user's.
    `calls` and `answer` are a right solution, which the model never sees: tests prove with it that it can be solved.
    """

    id: str
    prompt: str
    judge: Judge = solved
    functions: Callable[[], Sequence[Tool]] = tuple
    python: bool = False
    files: Mapping[str, bytes] | None = None
    hidden: Mapping[str, bytes] = field(default_factory=dict)
    effort: Effort | None = None
    schema: ResponseFormat | None = None
    calls: tuple[Call, ...] = ()
    answer: str = "Done."

    @property
    def suite(self) -> str:
        return self.id.partition("/")[0]

    @property
    def digest(self) -> str:
        """Changes with what is asked and judged: results of another version of the task don't count."""
        parts = [self.prompt, self.answer, repr(self.calls), self.effort or ""]
        parts += [json.dumps(self.schema.schema)] if self.schema else []
        parts += [f"{name}\n{data!r}" for name, data in {**(self.files or {}), **self.hidden}.items()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def called(report: Report, name: str = "") -> list[ToolFinished]:
    """The calls of a run, of this tool if it is named: `called(report, "functions.convert")`."""
    return [done for done in report.calls if not name or done.call.name.removeprefix("functions.") == name]


def arguments_of(done: ToolFinished) -> object:
    """A call's arguments as a value; its text where that is no JSON."""
    try:
        value: object = json.loads(done.call.arguments)
    except ValueError:
        return done.call.arguments
    return value
