"""A task and its verdict; the tools for tasks alone: functions over a table, a browser over a few pages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ossia.harmony.messages import Effort, ResponseFormat
from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit
from ossia.tools.spec import (
    Preview,
    Stop,
    Taint,
    Tool,
    ToolContext,
    ToolFailed,
    ToolFinished,
    ToolOutput,
    ToolResult,
    ToolSpec,
)

if TYPE_CHECKING:
    from ossia.agent.stream.account import Account


Call = tuple[str, object]
"""A tool's name and the arguments: an object, or the code of python: `("python", "print(2)")`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict: `reason` is the fault, in a line; `f1` the fit of the calls, where measured."""

    passed: bool
    reason: str = ""
    f1: float | None = None


Judge = Callable[["Account"], Verdict]


def solved(report: Account) -> Verdict:
    """For tasks judged by their hidden tests alone."""
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
        """The version of the task: results of another one don't count."""
        parts = [self.prompt, self.answer, repr(self.calls), self.effort or ""]
        parts += [json.dumps(self.schema.schema)] if self.schema else []
        parts += [f"{name}\n{data!r}" for name, data in {**(self.files or {}), **self.hidden}.items()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def called(report: Account, name: str = "") -> list[ToolFinished]:
    """The calls of a run, of this tool if it is named: `called(report, "functions.convert")`."""
    return [done for done in report.calls if not name or done.call.name.removeprefix("functions.") == name]


def arguments_of(done: ToolFinished) -> object:
    """A call's arguments as a value; without JSON, as their text."""
    try:
        value: object = json.loads(done.call.arguments)
    except ValueError:
        return done.call.arguments
    return value


HOST = "https://pages.example/"


class Function:
    """`functions.NAME`: `answer` gets the arguments and returns the text, or raises ToolFailed.

    Function("area", "The area of a rectangle.", {"w": {"type": "number"}, "h": {"type": "number"}}, lambda a: …)
    """

    def __init__(
        self, name: str, about: str, properties: Mapping[str, object], answer: Callable[[dict[str, Any]], str],
        *, optional: Sequence[str] = (),
    ) -> None:  # fmt: skip
        schema = {
            "type": "object",
            "properties": dict(properties),
            "required": [key for key in properties if key not in optional],
            "additionalProperties": False,
        }
        self.spec = ToolSpec(
            f"functions.{name}", about, schema, effects=frozenset({"read"}), provenance="user", origin="ossia eval"
        )
        self._name, self._answer = name, answer

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        return Preview(f"call {self._name}")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        assert isinstance(args, dict)
        return ToolResult(self._answer(args))
        yield  # a generator, as every tool's

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The only pages there are: a source and a loader for the browser's tools. Any search finds all of them."""

    pages: Mapping[str, Document]
    name: str = "web"
    taints: frozenset[Taint] = frozenset({"outside"})
    sends: bool = False

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        found = (Hit(page.title, url, page.text[:120]) for url, page in self.pages.items())
        return tuple(found)[:limit]

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        page = self.pages.get(url)
        if page is None:
            raise ToolFailed("Error: the server answered 404 Not Found")
        return page

    def kept(self, url: str, *, source: bool) -> Document | None:
        return self.pages.get(url)


def browser_over(pages: Mapping[str, str]) -> tuple[Tool, ...]:
    """`browser.search`, `open` and `find` over pages by title: their texts, under `HOST`. The network isn't touched."""
    documents = {}
    for title, text in pages.items():
        url = f"{HOST}{title.lower().replace(' ', '-')}"
        documents[url] = Document(title, url, text)
    source = Pages(documents)
    return Browser([source], {"https": source}, count_view_tokens=lambda text: len(text) // 4 + 1).tools
