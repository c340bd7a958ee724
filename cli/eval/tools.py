"""Tools that exist for a task: functions that answer from a table, and a browser over a few pages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit
from ossia.tools.spec import Preview, Stop, Taint, Tool, ToolContext, ToolFailed, ToolOutput, ToolResult, ToolSpec

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
