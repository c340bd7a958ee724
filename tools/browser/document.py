"""What a page is before it is shown, and where pages come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tools.spec import Stop, Taint


@dataclass(frozen=True, slots=True)
class Document:
    """A page as text: `text` holds links as `【0†About】`, `【2†wiki†en.wikipedia.org】`; `links` are their URLs by id.

    The text is not wrapped and has no `URL: …` line in front. `url` is where it was found in the end, after redirects;
    the local library's is `doc:17`; a page of search results has none (""). `brings`: what its text is beside what
    its scheme says: "outside" for a web page in the local library.
    """

    title: str
    url: str
    text: str
    links: Mapping[int, str] = field(default_factory=dict)
    brings: frozenset[Taint] = frozenset()


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
    def brings(self) -> frozenset[Taint]:
        """What its results are."""
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
        """The page; `refresh` passes a cache by. Raises `ToolFailed` with a line for the model."""
        ...


@runtime_checkable
class SourceLoader(Protocol):
    """A loader that can also give a page's source (`view_source`): HTML, Markdown, whatever it is made from."""

    def load_source(self, url: str, *, refresh: bool, stop: Stop) -> Document:
        """The source as it came, as a text without links; `title` and `url` are the page's. Raises `ToolFailed`."""
        ...


@runtime_checkable
class KeepingLoader(Protocol):
    """A loader that keeps what it loaded: what `load` and `load_source` would give without asking anybody for it."""

    def kept(self, url: str, *, source: bool) -> Document | None:
        """The page, or with `source` its source; None if it isn't kept (any more)."""
        ...
