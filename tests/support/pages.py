"""Pages in memory: a loader and a source over a few documents, for tests of what stands above them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ossia.tools.browser.browser import Browser
from ossia.tools.browser.document import Document, Hit
from ossia.tools.spec import NoStop, Stop, Taint, ToolContext, ToolFailed, ToolResult


@dataclass(slots=True)
class Pages:
    """Loads `documents` by URL, their sources from `sources`. `loaded` are the URLs asked for, a refresh with `!`."""

    documents: dict[str, Document]
    sources: dict[str, str] = field(default_factory=dict)
    loaded: list[str] = field(default_factory=list)

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        self.loaded.append(url + "!" * refresh)
        if url not in self.documents:
            raise ToolFailed("Error: the server answered 404 Not Found")
        page = self.documents[url]
        return Document(page.title, page.url, self.sources[url]) if source else page

    def kept(self, url: str, *, source: bool) -> None:
        """Nothing is."""


@dataclass(slots=True)
class Results:
    """A source that gives the hits of each query, and keeps what it was asked: `("capybara", 10)`."""

    name: str
    hits: dict[str, tuple[Hit, ...]]
    taints: frozenset[Taint] = frozenset({"outside"})
    sends: bool = True
    asked: list[tuple[str, int]] = field(default_factory=list)

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        self.asked.append((query, limit))
        if query not in self.hits:
            raise ToolFailed(f"Error: {self.name}.test\ngave no answer")
        return self.hits[query]


def documents(*pages: Document) -> dict[str, Document]:
    """The documents by their own URLs."""
    return {page.url: page for page in pages}


def numbered(count: int) -> str:
    """A text of `count` lines that differ: `line 0`, `line 1`, …"""
    return "\n".join(f"line {number}" for number in range(count))


def links(urls: Iterable[str]) -> dict[int, str]:
    """The links of a document, by id."""
    return dict(enumerate(urls))


def opened(document: Document) -> ToolResult:
    """What `browser.open` leaves of a page, behind cursor 0."""
    browser = Browser([], {"https": Pages(documents(document))}, count_view_tokens=len)
    tool, args = browser.tools[1], {"id": document.url}
    context = ToolContext(NoStop(), None, Path("nowhere"), len)
    context = replace(context, preview=tool.preview(args, context=context))
    running = tool.run(args, call_id="call_1", context=context)
    while True:
        try:
            next(running)
        except StopIteration as done:
            result: ToolResult = done.value
            return result
