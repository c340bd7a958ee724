"""What a page is before it is shown, and where pages come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from ossia.tools.spec import Stop, Taint


@dataclass(frozen=True, slots=True)
class Document:
    """A page as text: `text` holds links as `【0†About】`, `【2†wiki†en.wikipedia.org】`; `links` are their URLs by id.

    The text is not wrapped and has no `URL: …` line in front. `url` is where it was finally found, after redirects; in
    the local library it is `doc:17`; a page of search results has none (""). `taints`: kinds of text in it beyond those
    that its scheme implies: "outside" for a web page in the local library. `guessed`: the name of the encoding it was
    read in, if that was a guess.
    """

    title: str
    url: str
    text: str
    links: Mapping[int, str] = field(default_factory=dict)
    taints: frozenset[Taint] = frozenset()
    guessed: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result, plain text: `Hit("Capybara facts", "http://a.test/capy", "The capybara is …")`."""

    title: str
    url: str
    snippet: str


class Source(Protocol):
    """Something that can be searched: the local library (`docs`), a web search service (`web`)."""

    @property
    def name(self) -> str:
        """As the model names it in a call's `source`: `"docs"`, `"web"`."""
        ...

    @property
    def taints(self) -> frozenset[Taint]:
        """The kinds of text in its results."""
        ...

    @property
    def sends(self) -> bool:
        """Does a search leave this machine?"""
        ...

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        """At most `limit` results, best first. Raises `ToolFailed`, e.g. when the service can't be reached."""
        ...


class Loader(Protocol):
    """Gets the page behind a URL of the schemes it is registered for."""

    def load(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        """The page; `refresh` bypasses a cache. Raises `ToolFailed` with a line for the model."""
        ...


@runtime_checkable
class SourceLoader(Protocol):
    """A loader that can also return a page's source (`view_source`), and tell what it would return without a request.

    The source is HTML, Markdown, whatever the page was made from.
    """

    def load_source(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        """The source as received, as text without links; `title` and `url` are the page's. Raises `ToolFailed`."""
        ...

    def kept(self, url: str, *, source: bool) -> Document | None:
        """The page, or with `source` its source; None if it isn't kept (any more)."""
        ...
