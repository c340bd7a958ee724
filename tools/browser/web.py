"""Web search services: a table of their requests and answers; and ddgs.

The package `ddgs` (an extra) needs no key and no server: it asks search engines as a browser would, with a network
stack of its own, for which our fetch guard and proxy settings don't hold. It may find nothing for hours.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ossia.tools.browser.document import Hit, Source
from ossia.tools.ending import WasCut, Watch
from ossia.tools.spec import Fault, Stop, Taint, ToolFailed, interrupted
from ossia.tools.text import has_unseen, one_line

if TYPE_CHECKING:
    from ossia.tools.fetch.client import JsonClient

_HIGHLIGHT = re.compile(r"</?(?:b|em|i|mark|span|strong)(?:\s[^<>]{0,200})?>|<br\s*/?>", re.IGNORECASE)
_MAX_TITLE_CHARS, _MAX_URL_CHARS, _MAX_SNIPPET_CHARS = 300, 2_000, 2_000
_INSTALL = "ddgs isn't installed: run `uv sync --extra ddgs` or `uv tool install '.[ddgs]'` in ossia's clone"


@dataclass(frozen=True, slots=True)
class Service:
    """The request that a service expects, and the places of the results in its answer.

    `base` "": the user gives it. `key_in` is the header or the parameter for the key, `key_as` its form there.
    `results` are paths to lists. Of the names in `title`, `url` and `snippet`, the first one present is used.
    `marked_up`: titles and snippets are HTML (entities, tags around matched words).
    """

    base: str
    path: str
    method: Literal["GET", "POST"] = "GET"
    query: str = "q"
    limit: str = ""
    fixed: Mapping[str, object] = field(default_factory=dict)
    key_in: str = ""
    key_as: str = "{key}"
    key_is_parameter: bool = False
    results: tuple[str, ...] = ("results",)
    title: tuple[str, ...] = ("title",)
    url: tuple[str, ...] = ("url",)
    snippet: tuple[str, ...] = ("content",)
    marked_up: bool = False


# From the services' own documentation; Exa and You.com also as the reference tool (gpt-oss 0.0.9) asks them.
_SERVICES: Mapping[str, Service] = {
    "searxng": Service("", "search", fixed={"format": "json"}),
    "brave": Service(
        "https://api.search.brave.com/res/v1/",
        "web/search",
        limit="count",
        key_in="X-Subscription-Token",
        results=("web.results",),
        snippet=("description",),
        marked_up=True,
    ),
    "exa": Service(
        "https://api.exa.ai/",
        "search",
        "POST",
        "query",
        "numResults",
        {"contents": {"summary": True, "text": {"maxCharacters": 500}}},
        "x-api-key",
        snippet=("summary", "text"),
    ),
    "mojeek": Service(
        "https://api.mojeek.com/",
        "search",
        limit="t",
        fixed={"fmt": "json"},
        key_in="api_key",
        key_is_parameter=True,
        results=("response.results",),
        snippet=("desc",),
        marked_up=True,
    ),
    "serper": Service(
        "https://google.serper.dev/",
        "search",
        "POST",
        limit="num",
        key_in="X-API-KEY",
        results=("organic",),
        url=("link",),
        snippet=("snippet",),
    ),
    "tavily": Service(
        "https://api.tavily.com/",
        "search",
        "POST",
        "query",
        "max_results",
        key_in="Authorization",
        key_as="Bearer {key}",
    ),
    "you": Service(
        "https://api.ydc-index.io/",
        "v1/search",
        query="query",
        limit="count",
        key_in="X-API-Key",
        results=("results.web", "results.news"),
        snippet=("snippets", "description"),
    ),
}


KINDS: tuple[str, ...] = (*_SERVICES, "ddgs")
"""The names of the services in a configuration."""


def web_source(
    kind: str, *, url: str | None = None, key: str | None = None, client: Callable[[str], JsonClient]
) -> Source:
    """The source `web`: `web_source("searxng", url="http://127.0.0.1:8888", client=JsonClient)`.

    `url` is the service's base if it isn't the public one. Raises `ValueError`, with a line for the user, for an
    unknown kind, or if an address, a key or an extra is missing.
    """
    if kind == "ddgs":
        return DdgsSource()
    service = _SERVICES.get(kind)
    if service is None:
        raise ValueError(f"unknown search service {kind!r}: choose one of {', '.join(KINDS)}")
    if not (base := (url or service.base).strip()):
        raise ValueError(f"{kind} needs a url, for example http://127.0.0.1:8888")
    key = (key or "").strip()
    if service.key_in and not key:
        raise ValueError(f"{kind} needs a key: name the environment variable that holds it")
    if not re.fullmatch("[!-~]*", key):  # it would break a header
        raise ValueError(f"{kind}'s key has spaces or other characters that a key can't have")
    return WebSource(kind, service, client(base), key)


@dataclass(frozen=True, slots=True)
class WebSource:
    """One of the services of the table, as the source `web`."""

    kind: str
    _service: Service = field(repr=False)
    _client: JsonClient = field(repr=False)
    _key: str = field(repr=False)
    name: str = field(default="web", init=False)
    taints: frozenset[Taint] = field(default=frozenset({"outside"}), init=False)
    sends: bool = field(default=True, init=False)

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        try:
            answer = self._ask(query, limit, stop)
        except ToolFailed as failure:
            fault = Fault("key") if getattr(failure, "status", None) in (401, 403) else None
            raise ToolFailed(self._explained(failure), fault=fault) from failure
        if not isinstance(answer, dict):
            raise ToolFailed(f"{self.kind} answered with JSON that isn't search results")
        return tuple(_hits(self._service, answer, limit))

    def _ask(self, query: str, limit: int, stop: Stop) -> object:
        service = self._service
        asked: dict[str, object] = {service.query: query, **service.fixed}
        if service.limit:
            asked[service.limit] = limit
        headers = {"Accept": "application/json"}
        if service.key_in and service.key_is_parameter:
            asked[service.key_in] = self._key
        elif service.key_in:
            headers[service.key_in] = service.key_as.format(key=self._key)
        if service.method == "POST":
            return self._client.request_json("POST", service.path, headers=headers, json=asked, stop=stop)
        params = {name: value for name, value in asked.items() if isinstance(value, str | int)}
        return self._client.request_json("GET", service.path, headers=headers, params=params, stop=stop)

    def _explained(self, failure: ToolFailed) -> str:
        """The failure in one line, with its remedy, if known."""
        reason = " ".join(str(failure).removeprefix("Error: ").split())
        if self._key:
            reason = reason.replace(self._key, "…")
        status = getattr(failure, "status", None)
        if self.kind == "searxng" and status == 403:
            return f"{reason}: enable json in settings.yml search.formats"
        if status in (401, 403):
            return f"{reason}: {self.kind} does not take the key"
        if status in (402, 429):
            return f"{reason}: too many searches{f' for the {self.kind} key' if self._key else ''}"
        return reason


def _hits(service: Service, answer: Mapping[str, object], limit: int) -> Iterator[Hit]:
    """The results with a URL of the web, each URL once."""
    seen: set[str] = set()
    for path in service.results:
        for result in _list_at(answer, path):
            hit = hit_of(service, result) if isinstance(result, dict) else None
            if hit is not None and hit.url not in seen and len(seen) < limit:
                seen.add(hit.url)
                yield hit


def _list_at(answer: Mapping[str, object], path: str) -> list[object]:
    value: object = answer
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def hit_of(service: Service, result: Mapping[str, object]) -> Hit | None:
    """A result as a hit; None if it leads nowhere on the web."""
    url = _text(result, service.url).strip()
    if not _is_web(url):
        return None
    title, snippet = (_text(result, names)[: 4 * _MAX_SNIPPET_CHARS] for names in (service.title, service.snippet))
    if service.marked_up:  # `Use <b>x</b> &lt;script&gt;` is `Use x <script>`
        title, snippet = (html.unescape(_HIGHLIGHT.sub("", text)) for text in (title, snippet))
    return Hit(one_line(title, _MAX_TITLE_CHARS) or url, url, one_line(snippet, _MAX_SNIPPET_CHARS))


def _text(result: Mapping[str, object], names: tuple[str, ...]) -> str:
    for name in names:
        value = result.get(name)
        if isinstance(value, list):
            value = " ".join(item for item in value if isinstance(item, str))
        if isinstance(value, str) and value:
            return value
    return ""


def _is_web(url: str) -> bool:
    """True for a complete http or https URL of an accepted length."""
    try:
        parts = urlsplit(url)
    except ValueError:  # "http://[::1"
        return False
    odd = " " in url or has_unseen(url) or len(url) > _MAX_URL_CHARS
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not odd


_DDGS = Service("", "", url=("href",), snippet=("body",))


@dataclass(frozen=True, slots=True)
class DdgsSource:
    """The source `web`, asked through ddgs in at most `timeout_s`. Raises `ValueError` if ddgs isn't installed."""

    timeout_s: float = 20.0
    name: str = field(default="web", init=False)
    taints: frozenset[Taint] = field(default=frozenset({"outside"}), init=False)
    sends: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if find_spec("ddgs") is None:
            raise ValueError(_INSTALL)

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        from ossia.tools.fetch._network import in_a_thread

        ddgs: Any = import_module("ddgs")  # takes 0.2 s, so only when somebody searches
        try:
            with closing(Watch(stop, self.timeout_s)) as watch:  # the thread is abandoned: ddgs can't be interrupted
                found = in_a_thread(lambda: list(ddgs.DDGS().text(query, max_results=limit)), watch)
        except WasCut:
            slow = f"ddgs gave no answer within {self.timeout_s:g} s"
            raise ToolFailed(interrupted(stop) if stop.stopped else slow) from None
        except Exception as error:  # whatever an engine's page makes it raise
            raise ToolFailed(f"ddgs: {' '.join(str(error).split())[:200] or type(error).__name__}") from None
        hits = (hit_of(_DDGS, result) for result in found)
        return tuple(hit for hit in hits if hit is not None)[:limit]
