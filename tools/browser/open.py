"""`browser.open`: a link of a page, a URL, or another place in an open page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias
from urllib.parse import urlsplit

from ossia.tools.browser import _arguments
from ossia.tools.browser._arguments import READ, PageTool
from ossia.tools.browser.document import Document, Loader, plain
from ossia.tools.browser.page import Page
from ossia.tools.browser.stack import Stack, View
from ossia.tools.fetch.guard import Refused, as_address, normal_host, parse_url
from ossia.tools.spec import Effect, Preview, Taint, ToolContext, ToolFailed, ToolOutput, ToolResult

# As trained, but `cursor`, `loc` and `num_lines` have no type: the tool answers a bad number in the reference's words.
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

MAX_LINKS = 3
"""The most links from or to one site that are followed unasked, in a conversation, once private text is in it.

A malicious page may show tens of thousands of links: choosing one leaks 16 bits, three leak six letters. Three are also
enough for a page, a page that it links to, and one more."""
_NUMBERS = "addresses in numbers"
_WHY = (
    f"{MAX_LINKS} links from or to {{site}} have been followed since the model read private text: "
    "its choice of links could leak that text."
)


@dataclass(frozen=True, slots=True)
class _Look:
    """Show page `number` (the cursor that brought it) from `loc` on."""

    number: int
    loc: int


@dataclass(frozen=True, slots=True)
class _Fetch:
    """Load `url`, or its source, and show it from `loc` on.

    `kept`: the document, if no request is needed. `sends`: the request could leak what the model has read; `why` says
    more, if the URL itself doesn't. `sites`: the sites whose link budgets it uses.
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


class OpenTool(PageTool):
    """Opens URLs by the loaders of their schemes. Without an `id` it scrolls."""

    def __init__(self, stack: Stack, loaders: Mapping[str, Loader], budget: LinkBudget, *, section: str) -> None:
        self._stack, self._loaders, self._budget = stack, loaders, budget
        sends: frozenset[Effect] = frozenset({"send"} if {"http", "https"} & set(loaders) else ())
        about = (
            "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, "
            "showing `num_lines` lines."
        )
        super().__init__("open", about, _PARAMETERS, sends | READ, section)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        plan, link = self._wanted(_arguments.as_mapping(args))
        if isinstance(plan, _Look):
            view = self._stack.view(plan.number)
            where = f"{view.title or view.url}, from line {plan.loc}" if plan.loc > 0 else view.title or view.url
            return Preview(f"Read {where}", subjects=(view.address or view.title,), effects=READ, plan=plan)
        plan = self._weighed(plan, link, context)
        summary = f"Open {'the source of ' if plan.source else ''}{plan.url}{unlike(plan.url)}"
        effects: frozenset[Effect] = READ | {"send"} if plan.sends else READ
        return Preview(summary, plan.why, subjects=(plan.url,), effects=effects, plan=plan)

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """The page: `num_lines` lines of it, or a view. A failure pushes nothing."""
        assert context.preview is not None
        plan = context.preview.plan
        assert isinstance(plan, _Look | _Fetch)
        num_lines = _arguments.whole_number(_arguments.as_mapping(args), "num_lines")
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

    def _wanted(self, args: Mapping[str, object]) -> tuple[_Plan, tuple[View, int] | None]:
        """The plan, and the view and id of the followed link, if any."""
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
        return _Fetch(url, loader, loc, refresh, source)

    def _weighed(self, plan: _Fetch, link: tuple[View, int] | None, context: ToolContext) -> _Fetch:
        """The plan, with what the request could leak.

        A URL that the user typed leaks nothing, nor does a cached page. The model didn't make up a URL that it was
        shown, but its choice among many leaks something: to the owner of the requested site, and to that of the page
        that offered the links.
        """
        if scheme_of(plan.url) not in ("http", "https") or is_typed(plan.url, context.said):
            return plan
        if not plan.refresh and (kept := plan.loader.kept(plan.url, source=plan.source)) is not None:
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

        A link in a line that wasn't shown doesn't count.
        """
        if link is not None and link[1] in self._stack.shown_links(link[0].page):
            return frozenset({link[0].address})
        wanted = _same(url)
        return frozenset(page for other, page in self._stack.known_urls() if _same(other) == wanted)


def _brought_by(url: str) -> frozenset[Taint]:
    return frozenset({"private"} if scheme_of(url) == "doc" else {"outside"})


def _loaded(plan: _Fetch, context: ToolContext) -> Document:
    try:
        load = plan.loader.load
        document = plan.kept or load(plan.url, source=plan.source, refresh=plan.refresh, stop=context.stop)
    except ToolFailed as failure:
        taints = _brought_by(plan.url) if failure.taints is None else failure.taints
        raise _failed(plan.url, _arguments.reason(failure), taints) from failure
    fragment = plan.url.partition("#")[2] if scheme_of(plan.url) in ("http", "https") else ""
    url = f"{document.url}#{fragment}" if fragment else document.url  # a redirect keeps it
    if not plan.source:
        return replace(document, url=url)
    return replace(document, url=f"view-source:{url}", text=plain(document.text), links={})


def _failed(url: str, reason: str, taints: frozenset[Taint] = frozenset()) -> ToolFailed:
    return ToolFailed(f"Error fetching URL `{_arguments.shortened(' '.join(url.split()))}`: {reason}", taints=taints)


# -- URLs as models write them -----------------------------------------------------------------------------------------


def scheme_of(url: str) -> str:
    """The scheme, in lower case; "" for a host first, as in `www.a.test/x` or `localhost:8080`."""
    found = _SCHEME.match(url)
    if found is None:
        return ""
    rest = url[found.end() :]
    if not rest.startswith("//") and ("." in found[1] or rest[:1].isdigit()) and found[1].lower() != "doc":
        return ""
    return found[1].lower()


def whole_url(text: str) -> str:
    """A URL with a scheme: `https://` is added to one without."""
    text = text.strip()
    return text if scheme_of(text) else f"https://{text.lstrip('/')}"


def unlike(url: str) -> str:
    """A warning about a host whose letters only look like another's: `" (xn--80ak6aa92e.com)"`, or ""."""
    try:
        host = urlsplit(url).hostname or ""
        return "" if host.isascii() else f" ({normal_host(host)})"
    except (ValueError, Refused):
        return ""


def is_typed(url: str, said: str) -> bool:
    """True if the user typed this URL in `said`: equal but for scheme, fragment and the host's case.

    Neither a part of it is enough, nor an extension: `?q=…` after a known page can carry data.
    """
    return _same(url) in map(_same, _words(said))


def _words(said: str) -> Iterable[str]:
    for word in _WORD.findall(said):
        if "." in word or ":" in word:
            yield word
            yield word.rstrip(_BEHIND)


def _same(url: str) -> tuple[str, ...]:
    """A key for equal requests to a server."""
    url = whole_url(url)
    try:
        parsed = parse_url(url)
    except Refused:
        return (url,)
    return parsed.host_header, parsed.target


# -- how many links of a site are followed unasked ---------------------------------------------------------------------


def site_of(url: str) -> str:
    """The site of a URL, as coarse as a domain that one owner can register: `"b.test"` for `https://x.a.b.test/c`.

    All of `co.uk` is one site: too coarse asks too often, too fine leaks. All numeric addresses are one site: the owner
    of an IPv6 network has 2**64. A URL that isn't of the web is a site of its own (`"doc:17"`).
    """
    try:
        host = parse_url(url).host
    except Refused:
        return url
    return _NUMBERS if as_address(host) else ".".join(host.split(".")[-2:])


class LinkBudget:
    """Counts the links followed unasked while private text was in the conversation, by site."""

    def __init__(self) -> None:
        self._followed: Counter[str] = Counter()

    def exhausted(self, sites: Iterable[str]) -> str:
        """The first of these sites without a link left; "" if all have some."""
        return next((site for site in sorted(sites) if self._followed[site] >= MAX_LINKS), "")

    def spend(self, sites: Iterable[str]) -> dict[str, object]:
        """Use up one link of each of these sites. Returns the state for `restore`."""
        taken = sorted(sites)
        self._followed.update(taken)
        return {"followed": taken}

    def restore(self, states: Iterable[Mapping[str, object]]) -> None:
        """Set the counts to those of these states."""
        self._followed.clear()
        for state in states:
            followed = state.get("followed")
            if isinstance(followed, list):
                self._followed.update(site for site in followed if isinstance(site, str))
