"""`browser.open`: a link of a page, a URL, or another place in a page that is already open."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import urlsplit

from ossia.tools.browser import _arguments
from ossia.tools.browser._budget import MAX_LINKS, LinkBudget, site_of
from ossia.tools.browser._text import plain
from ossia.tools.browser.document import Document, Loader, SourceLoader
from ossia.tools.browser.page import Page
from ossia.tools.browser.stack import Stack, View
from ossia.tools.fetch.guard import Refused, normal_host
from ossia.tools.spec import Effect, Preview, Taint, ToolContext, ToolFailed, ToolOutput, ToolResult, ToolSpec

# As trained, except that `cursor`, `loc` and `num_lines` have no type: a bad number shall reach the tool, which answers
# in the words of the reference tool.
_PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "id": {"type": ["number", "string"], "default": -1},
        "cursor": {"description": "number", "default": -1},
        "loc": {"description": "number", "default": -1},
        "num_lines": {"description": "number", "default": -1},
        "view_source": {"type": "boolean", "default": False},
        "source": {"type": "string"},
    },
}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WORD = re.compile(r"[^\s<>\"'`|「」『』（）()\[\]{}]+(?:\([^\s()]*\)[^\s<>\"'`()\[\]{}]*)*")
_BEHIND = ".,;:!?…。，、；：！？*_~"


@dataclass(frozen=True, slots=True)
class _Look:
    """Show page `number` (the cursor that brought it) from `loc` on."""

    number: int
    loc: int


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Load `url`, or its source, and show it from `loc` on.

    `kept`: the document, if no request is needed. `sends`: the request could carry out what the model has read; `why`
    is the reason, if the URL itself isn't. `sites`: those whose link budgets it uses.
    """

    url: str
    loader: Loader
    loc: int
    refresh: bool
    source: bool
    kept: Document | None = None
    sends: bool = False
    why: str = ""
    sites: frozenset[str] = frozenset()


_Plan: TypeAlias = _Look | _Fetch


class OpenTool:
    """Opens what the loaders can load, by the scheme of its URL. No `id` is a scroll."""

    def __init__(self, stack: Stack, loaders: Mapping[str, Loader], budget: LinkBudget, *, section: str) -> None:
        self._stack, self._loaders, self._budget = stack, loaders, budget
        sends: frozenset[Effect] = frozenset({"send"} if {"http", "https"} & set(loaders) else ())
        self.spec = ToolSpec(
            "browser.open",
            "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
            "showing `num_lines` lines.",
            _PARAMETERS,
            effects=sends | {"read"},
            trained=True,
            section=section,
            provenance="built-in",
            result_taints=frozenset(),  # each result has those of its page
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        plan = self._plan(_arguments.as_mapping(args), context)
        if isinstance(plan, _Look):
            view = self._stack.view(plan.number)
            where = f"line {plan.loc} of {view.title or view.url}" if plan.loc > 0 else view.title or view.url
            return Preview(f"show {where}", subjects=(view.address or view.title,), effects=_READ, plan=plan)
        summary = f"open {'the source of ' if plan.source else ''}{plan.url}{unlike(plan.url)}"
        effects: frozenset[Effect] = _READ | {"send"} if plan.sends else _READ
        return Preview(summary, plan.why, subjects=(plan.url,), effects=effects, plan=plan)

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """The page: `num_lines` lines of it, or a view. Nothing is pushed if that fails."""
        given = _arguments.as_mapping(args)
        plan = context.preview.plan if context.preview is not None else None
        if not isinstance(plan, _Look | _Fetch):
            plan = self._plan(given, context)
        num_lines = _arguments.whole_number(given, "num_lines")
        yield from ()
        if isinstance(plan, _Look):
            return self._stack.show_again(plan.number, loc=plan.loc, num_lines=num_lines)
        spent = self._budget.spend(plan.sites) if plan.sites else {}
        try:
            document = _loaded(plan, context)
            taints = _brought_by(plan.url) | document.taints
            result = self._stack.show(Page.of(document), taints=taints, loc=plan.loc, num_lines=num_lines)
        except ToolFailed as failure:
            failure.state = spent or None  # the server was asked nevertheless
            raise
        return replace(result, state={**(result.state or {}), **spent})

    def close(self) -> None:
        """Nothing to release."""

    def _plan(self, args: Mapping[str, object], context: ToolContext) -> _Plan:
        plan, link = self._wanted(args)
        return plan if isinstance(plan, _Look) else self._weighed(plan, link, context)

    def _wanted(self, args: Mapping[str, object]) -> tuple[_Plan, tuple[View, int] | None]:
        """What to do, and the view and the id of the link that is followed, if it is one."""
        wanted, loc = _arguments.link_or_url(args), _arguments.whole_number(args, "loc")
        _arguments.whole_number(args, "num_lines")  # a bad one is reported before any request
        source = args.get("view_source") is True
        if isinstance(wanted, str):
            return self._fetch(whole_url(wanted), loc, refresh=True, source=source), None
        view = self._stack.view(_arguments.whole_number(args, "cursor"))
        if wanted < 0:
            return (self._source_of(view, loc) if source else _Look(view.page, loc)), None
        page = self._stack.page(view.page)
        if wanted not in page.links:
            raise _arguments.fault(f"Invalid link id `{wanted}`.")
        if view.found_in is not None and not source:  # the page that was searched, at the match
            self._stack.page(view.found_in)
            return _Look(view.found_in, loc if loc >= 0 else page.landings.get(wanted, 0)), None
        url = view.address if view.found_in is not None else page.links[wanted]
        return self._fetch(url, loc, refresh=False, source=source), (view, wanted)

    def _source_of(self, view: View, loc: int) -> _Fetch:
        if not view.address:
            raise _arguments.fault("`view_source` shows the source of a page; search results have none")
        return self._fetch(view.address, loc, refresh=False, source=True)

    def _fetch(self, url: str, loc: int, *, refresh: bool, source: bool) -> _Fetch:
        loader = self._loaders.get(scheme_of(url))
        if loader is None:
            can = ", ".join(f"{scheme}:" for scheme in self._loaders)
            raise _failed(url, f"only these can be opened: {can}")
        if source and not isinstance(loader, SourceLoader):
            raise _failed(url, "its source can't be shown; open it without `view_source`")
        return _Fetch(url, loader, loc, refresh, source)

    def _weighed(self, plan: _Fetch, link: tuple[View, int] | None, context: ToolContext) -> _Fetch:
        """The plan, with what the request could leak.

        A URL that the user typed leaks nothing, nor does a page that is kept. A URL that the model was shown wasn't
        made up by it, but the choice among many tells something: to the owner of the requested site, and to that of the
        page that offered the links.
        """
        if scheme_of(plan.url) not in ("http", "https") or is_typed(plan.url, context.said):
            return plan
        if not plan.refresh and isinstance(plan.loader, SourceLoader):
            kept = plan.loader.kept(plan.url, source=plan.source)
            if kept is not None:
                return replace(plan, kept=kept)
        pages = self._shown_on(plan.url, link)
        if not pages:
            return replace(plan, sends=True)
        if "private" not in context.taint:
            return plan
        sites = frozenset(site_of(url) for url in (plan.url, *pages) if url)
        if site := self._budget.exhausted(sites):
            return replace(plan, sends=True, why=_WHY.format(site=site))
        return replace(plan, sites=sites)

    def _shown_on(self, url: str, link: tuple[View, int] | None) -> frozenset[str]:
        """The addresses of the pages that showed this URL or have it ("" for a search). Empty: it was not shown.

        A link that exists, but in no line that was shown, doesn't count: a page may offer many, and the choice among
        them tells something.
        """
        if link is not None and link[1] in self._stack.shown_links(link[0].page):
            return frozenset({link[0].address})
        return pages_with(url, self._stack.known_urls())


_WHY = (
    f"{MAX_LINKS} links from or to {{site}} have been followed since the model read private text: "
    "its choice of links could leak that text."
)


_READ: frozenset[Effect] = frozenset({"read"})


def _brought_by(url: str) -> frozenset[Taint]:
    return frozenset({"private"} if scheme_of(url) == "doc" else {"outside"})


def _loaded(plan: _Fetch, context: ToolContext) -> Document:
    try:
        if not plan.source:
            document = plan.kept or plan.loader.load(plan.url, refresh=plan.refresh, stop=context.stop)
            return replace(document, url=with_fragment(document.url, plan.url))
        assert isinstance(plan.loader, SourceLoader)
        document = plan.kept or plan.loader.load_source(plan.url, refresh=plan.refresh, stop=context.stop)
    except ToolFailed as failure:
        taints = _brought_by(plan.url) if failure.taints is None else failure.taints
        raise _failed(plan.url, _arguments.reason(failure), taints) from failure
    url = with_fragment(document.url, plan.url)
    return replace(document, url=f"view-source:{url}", text=plain(document.text), links={})


def _failed(url: str, reason: str, taints: frozenset[Taint] = frozenset()) -> ToolFailed:
    told = _arguments.shortened(" ".join(url.split()))
    return ToolFailed(f"Error fetching URL `{told}`: {reason}", taints=taints)


# -- URLs as models write them; one that is known already leaks nothing when it is requested ---------------------------


def scheme_of(url: str) -> str:
    """The scheme, in lower case; "" for `www.a.test/x` and `localhost:8080`, which name a host first."""
    found = _SCHEME.match(url)
    if found is None:
        return ""
    rest = url[found.end() :]
    if not rest.startswith("//") and ("." in found[1] or rest[:1].isdigit()) and found[1].lower() != "doc":
        return ""
    return found[1].lower()


def whole_url(text: str) -> str:
    """A URL with a scheme: `https://` is added if there is none."""
    text = text.strip()
    return text if scheme_of(text) else f"https://{text.lstrip('/')}"


def with_fragment(found: str, asked: str) -> str:
    """Where a page was found, with the fragment it was asked for by: a redirect keeps that, too.

    with_fragment("https://a.test/new", "http://a.test/old#top")   → "https://a.test/new#top"
    """
    fragment = asked.partition("#")[2] if scheme_of(asked) in ("http", "https") else ""
    return f"{found}#{fragment}" if fragment else found


def unlike(url: str) -> str:
    """A warning to show for a host whose letters only look like another's: `" (xn--80ak6aa92e.com)"`, or ""."""
    try:
        host = urlsplit(url).hostname or ""
        return "" if host.isascii() else f" ({normal_host(host)})"
    except (ValueError, Refused):
        return ""


def is_typed(url: str, said: str) -> bool:
    """Is it a URL that the user typed in `said`? Equal except for scheme, fragment and the host's case.

    Neither a part of what was typed is enough, nor an extension of it: `?q=…` after a known page can carry data.
    """
    return _same(url) in map(_same, _words(said))


def pages_with(url: str, known: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The pages with this URL, from pairs of a URL and its page. URLs are equal as in `is_typed`."""
    wanted = _same(url)
    return frozenset(page for other, page in known if _same(other) == wanted)


def _words(said: str) -> Iterable[str]:
    for word in _WORD.findall(said):
        if "." in word or ":" in word:
            yield word
            yield word.rstrip(_BEHIND)


def _same(url: str) -> tuple[str, ...]:
    """A key that is the same for URLs that request the same thing from a server."""
    url = whole_url(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return (url,)
    if parts.scheme not in ("http", "https"):
        return (url,)
    host = (parts.hostname or "").rstrip(".")
    at_port = "" if port is None or (parts.scheme, port) in (("http", 80), ("https", 443)) else str(port)
    return host, at_port, parts.netloc.rpartition("@")[0], parts.path or "/", parts.query
