"""The browser of a conversation: three tools over one stack of pages; of these, search and find."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ossia.tools.browser import _arguments
from ossia.tools.browser._arguments import READ, PageTool
from ossia.tools.browser.document import Loader, Source
from ossia.tools.browser.open import LinkBudget, OpenTool
from ossia.tools.browser.page import VIEW_TOKENS, find_page, search_page
from ossia.tools.browser.stack import MAX_BYTES, Stack, View
from ossia.tools.saying import find_line, search_line
from ossia.tools.spec import Effect, Fault, Preview, Tool, ToolContext, ToolFailed, ToolOutput, ToolResult

DESCRIPTION = """\
Tool for browsing.
The `cursor` appears in brackets before each browsing display: `[{cursor}]`.
Cite information from the tool using the following format:
`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.
Do not quote more than 10 words directly from the tool output.
"""
"""The trained text, as in openai_harmony 0.0.8, without its last line about the sources."""


class Browser:
    """`browser.search`, `browser.open` and `browser.find`, in `tools`.

    `sources` are what can be searched; `web`, if it is among them, is the default. `loaders` get pages by the scheme of
    their URL. `count_view_tokens` counts in the vocabulary of `view_tokens`: gpt-oss's, whatever model reads the pages.
    `max_bytes` is the memory for pages; the least recently used ones are dropped, and using them says so.

        web = web_source("searxng", url="http://127.0.0.1:8888", client=JsonClient)
        browser = Browser([library, web], {"doc": library, "https": loader}, count_view_tokens=count)
        toolbox = Toolbox(browser.tools, policy=policy, context=context)
    """

    def __init__(
        self,
        sources: Sequence[Source],
        loaders: Mapping[str, Loader],
        *,
        count_view_tokens: Callable[[str], int],
        view_tokens: int = VIEW_TOKENS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        named = {source.name: source for source in sources}
        default = "web" if "web" in named else next(iter(named), "web")
        self._stack = stack = Stack(count_view_tokens, view_tokens, max_bytes)
        self._budget = LinkBudget()
        section = section_of(named, default=default)
        self.tools: tuple[Tool, ...] = (
            SearchTool(stack, named, default=default, section=section),
            OpenTool(stack, dict(loaders), self._budget, section=section),
            FindTool(stack, section=section),
        )

    def restore(self, states: Iterable[Mapping[str, object]]) -> None:
        """Restore the pages of these states, and no others: after a resume, a fork, an undo.

        `states` are those of the conversation's results, in order; those that aren't the browser's, or can't be read,
        are skipped.
        """
        states = tuple(states)
        self._stack.restore(states)
        self._budget.restore(states)


def section_of(sources: Iterable[str], *, default: str) -> str:
    """The browser's section of the system prompt: the last line names the sources that are on.

    `section_of(["docs", "web"], default="web")` ends with `sources=docs, web (default: web)`.
    """
    names = ", ".join(sources)
    return DESCRIPTION + (f"sources={names} (default: {default})" if names else "sources=none")


DEFAULT_RESULTS = 10
"""The trained text's own default of `topn`. (The reference tool always gives 20.)"""
MAX_RESULTS = 20
_WITHOUT = "`browser.open` of a URL works without one"

_SEARCH: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "topn": {"type": "number", "default": DEFAULT_RESULTS},
        "source": {"type": "string"},
    },
    "required": ["query"],
}
_FIND: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string"},
        "cursor": {"description": "number", "default": -1},  # see open.py
    },
    "required": ["pattern"],
}


@dataclass(frozen=True, slots=True)
class _Plan:
    query: str
    source: Source
    limit: int


class SearchTool(PageTool):
    """Asks a source: `web`, unless the call names another one or there is no `web`."""

    def __init__(self, stack: Stack, sources: Mapping[str, Source], *, default: str, section: str) -> None:
        self._stack, self._sources, self._default = stack, sources, default
        self._no_web = () if "web" in sources else (f"No web search service is set up: {_WITHOUT}",)
        about = "Searches for information related to `query` and displays `topn` results."
        super().__init__("search", about, _SEARCH, READ.union(*map(_effects, sources.values())), section)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        plan = self._plan(_arguments.as_mapping(args))
        summary = search_line(plan.query, plan.source.name)
        return Preview(summary, subjects=(plan.query,), effects=_effects(plan.source), plan=plan)

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """The page of results. A failure of the source is `Error during search for …`."""
        assert context.preview is not None
        plan = context.preview.plan
        assert isinstance(plan, _Plan)
        try:
            hits = plan.source.search(plan.query, limit=plan.limit, stop=context.stop)
        except ToolFailed as failure:
            query = _arguments.shortened(plan.query)
            taints = plan.source.taints if failure.taints is None else failure.taints
            error = f"Error during search for `{query}`: {_arguments.reason(failure)}"
            fault = failure.fault or Fault("search")
            raise ToolFailed(". ".join([error, *self._no_web]), taints=taints, fault=fault) from failure
        yield from ()
        note = ". ".join([f"Nothing found in {plan.source.name}", *self._no_web]) if self._no_web and not hits else ""
        return self._stack.show(search_page(plan.query, hits[: plan.limit], note=note), taints=plan.source.taints)

    def _plan(self, args: Mapping[str, object]) -> _Plan:
        query, name = _arguments.text(args, "query"), args.get("source")
        source = self._sources.get(str(name).strip().lower() if name else self._default)
        if source is not None:
            return _Plan(query, source, _results_wanted(args))
        on = ", ".join(self._sources) or "none"
        what = "no web search service is set up" if name in ("web", None, "") else f"there is no source {name!r}"
        raise _arguments.fault(
            f"Error during search for `{_arguments.shortened(query)}`: {what}. The sources are: {on}. {_WITHOUT}.",
            why=Fault("source"),
        )


def _effects(source: Source) -> frozenset[Effect]:
    return READ | {"send"} if source.sends else READ


def _results_wanted(args: Mapping[str, object]) -> int:
    """`topn`, at most `MAX_RESULTS`; the default if it is missing, or less than 1."""
    value = args.get("topn")
    if not isinstance(value, int | float) or not value >= 1:
        return DEFAULT_RESULTS
    return int(min(value, MAX_RESULTS))


class FindTool(PageTool):
    """Pushes a page of the matches; its links lead to the places in the searched page."""

    def __init__(self, stack: Stack, *, section: str) -> None:
        self._stack = stack
        about = "Finds exact matches of `pattern` in the current page, or the page given by `cursor`."
        super().__init__("find", about, _FIND, READ, section)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        pattern, view = self._plan(_arguments.as_mapping(args))
        return Preview(find_line(pattern, view.title or view.url), subjects=(view.address or view.title,))

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """The page of matches, at most 50 of them."""
        pattern, view = self._plan(_arguments.as_mapping(args))
        page = self._stack.page(view.page)
        if page.kind == "find":  # despite its message, the reference does search in search results
            raise _arguments.fault("Cannot run `find` on search results page or find results page")
        yield from ()
        return self._stack.show(find_page(page, pattern), taints=view.taints, found_in=view.page)

    def _plan(self, args: Mapping[str, object]) -> tuple[str, View]:
        cursor = _arguments.whole_number(args, "cursor")
        view = self._stack.view(cursor)
        return _arguments.text(args, "pattern"), view
