"""`browser.search`: a page of results from one of the sources."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from ossia.tools.browser import _arguments
from ossia.tools.browser.document import Source
from ossia.tools.browser.page import search_page
from ossia.tools.browser.stack import Stack
from ossia.tools.spec import Effect, Fault, Preview, ToolContext, ToolFailed, ToolOutput, ToolResult, ToolSpec

DEFAULT_RESULTS = 10
"""The trained text's own default of `topn`. (The reference tool always gives 20, whatever is asked for.)"""
MAX_RESULTS = 20
"""How a failed search begins, and what it holds if there is no source as the model named it."""
_WITHOUT = "`browser.open` of a URL works without one"

_PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "topn": {"type": "number", "default": DEFAULT_RESULTS},
        "source": {"type": "string"},
    },
    "required": ["query"],
}


@dataclass(frozen=True, slots=True)
class _Plan:
    query: str
    source: Source
    limit: int


class SearchTool:
    """Asks a source: `web`, unless the call names another one or there is no `web`."""

    def __init__(self, stack: Stack, sources: Mapping[str, Source], *, default: str, section: str) -> None:
        self._stack, self._sources, self._default = stack, sources, default
        self._no_web = () if "web" in sources else (f"No web search service is set up: {_WITHOUT}",)
        effects: frozenset[Effect] = frozenset().union(*map(_effects, sources.values()))
        self.spec = ToolSpec(
            "browser.search",
            "Searches for information related to `query` and displays `topn` results.",
            _PARAMETERS,
            effects=effects or frozenset({"read"}),
            trained=True,
            section=section,
            provenance="built-in",
            result_taints=frozenset(),  # each result has those of its page
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        plan = self._plan(_arguments.as_mapping(args))
        summary = f"search {plan.source.name} for {plan.query!r}"
        return Preview(summary, subjects=(plan.query,), effects=_effects(plan.source), plan=plan)

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """The page of results. A failure of the source is `Error during search for …`."""
        plan = context.preview.plan if context.preview is not None else None
        if not isinstance(plan, _Plan):
            plan = self._plan(_arguments.as_mapping(args))
        try:
            hits = plan.source.search(plan.query, limit=plan.limit, stop=context.stop)
        except ToolFailed as failure:
            query = _arguments.shortened(plan.query)
            taints = plan.source.taints if failure.taints is None else failure.taints
            told = f"Error during search for `{query}`: {_arguments.reason(failure)}"
            fault = failure.fault or Fault("search")
            raise ToolFailed(". ".join([told, *self._no_web]), taints=taints, fault=fault) from failure
        yield from ()
        note = ". ".join([f"Nothing found in {plan.source.name}", *self._no_web]) if self._no_web and not hits else ""
        return self._stack.show(search_page(plan.query, hits[: plan.limit], note=note), taints=plan.source.taints)

    def close(self) -> None:
        """Nothing to release."""

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
    return frozenset({"read", "send"}) if source.sends else frozenset({"read"})


def _results_wanted(args: Mapping[str, object]) -> int:
    """`topn`, at most `MAX_RESULTS`; the default if it is missing, or less than 1."""
    value = args.get("topn")
    if not isinstance(value, int | float) or not value >= 1:
        return DEFAULT_RESULTS
    return int(min(value, MAX_RESULTS))
