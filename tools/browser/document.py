"""The text of a page, before it is wrapped and numbered, and the sources of pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ossia.tools.spec import Stop, Taint
from ossia.tools.text import BROKEN, CONTROLS, REORDERS, TAGS

_ACTS = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}]")
_SURROGATES = re.compile(f"[{BROKEN}]")
_OUTSIDE = re.compile("[\U00010000-\U0001ffff\u200b]")


@dataclass(frozen=True, slots=True)
class Document:
    """A page as text, with links as `【0†About】` or `【2†wiki†en.wikipedia.org】`; `links` are their URLs by id.

    `url` is where it was found, after redirects; in the local library it is `doc:17`. `taints`: kinds of text in it
    beyond those of its scheme: "outside" for a web page in the local library. `guessed`: the name of its encoding, if
    that was a guess.
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
    """A place to search: the local library (`docs`), a web search service (`web`)."""

    @property
    def name(self) -> str:
        """Its name in a call's `source`: `"docs"`, `"web"`."""
        ...

    @property
    def taints(self) -> frozenset[Taint]:
        """The kinds of text in its results."""
        ...

    @property
    def sends(self) -> bool:
        """True if a search leaves this machine."""
        ...

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        """At most `limit` results, best first. Raises `ToolFailed`, e.g. when the service can't be reached."""
        ...


class Loader(Protocol):
    """Gets the page behind a URL of the schemes it is registered for."""

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        """The page, or with `source` what it was made from (HTML, Markdown…), as text without links.

        `refresh` bypasses a cache. Raises `ToolFailed` with a line for the model.
        """
        ...

    def kept(self, url: str, *, source: bool) -> Document | None:
        """The result of `load`, if that needs no request; else None."""
        ...


# -- outside text, made fit for a page: nothing that controls a terminal or forges a link ------------------------------


def printable(text: str) -> str:
    r"""The text without control characters; `\n` and `\t` stay, `\r` is removed. `"a\x1b[2J\u202eb"` → `"a[2Jb"`."""
    return _SURROGATES.sub("\ufffd", _ACTS.sub("", text))


def without_brackets(text: str) -> str:
    """The text with 【】 as 〖〗, so without links. `"see 【1†fake†evil】"` → `"see 〖1†fake†evil〗"`."""
    return text.replace("【", "〖").replace("】", "〗")


def plain(text: str) -> str:
    """Outside text as the text of a `Document`, printable and without links: for all but HTML."""
    return without_brackets(printable(text))


def one_line(text: str) -> str:
    r"""The same for a title, on one line with single spaces. `" A\n\n  title "` → `"A title"`."""
    return " ".join(plain(text).split())


def fewer_signs(text: str) -> str:
    """The text as the reference browser normalises it first. `"a😀【b】"` → `"a〖b〗"`.

    Emoji (the whole first supplementary plane) and zero-width spaces are dropped, 【】 become 〖〗, and ◼ becomes ◾.
    """
    return without_brackets(_OUTSIDE.sub("", text)).replace("◼", "◾")
