"""`browser.find`: finds a text in a page."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from ossia.tools.browser import _arguments
from ossia.tools.browser.page import find_page
from ossia.tools.browser.stack import Stack, View
from ossia.tools.spec import Preview, ToolContext, ToolOutput, ToolResult, ToolSpec

_PARAMETERS: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string"},
        "cursor": {"description": "number", "default": -1},  # see open.py
    },
    "required": ["pattern"],
}


class FindTool:
    """Pushes a page of the matches; its links lead to the places in the searched page."""

    def __init__(self, stack: Stack, *, section: str) -> None:
        self._stack = stack
        self.spec = ToolSpec(
            "browser.find",
            "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
            _PARAMETERS,
            effects=frozenset({"read"}),
            trained=True,
            section=section,
            provenance="built-in",
            result_taints=frozenset(),  # each result has those of its page
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        pattern, view = self._plan(_arguments.as_mapping(args))
        return Preview(f"find {pattern!r} in {view.title or view.url}", subjects=(view.address or view.title,))

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """The page of matches, at most 50 of them."""
        pattern, view = self._plan(_arguments.as_mapping(args))
        page = self._stack.page(view.page)
        if page.kind == "find":  # despite its message, the reference does search in search results
            raise _arguments.fault("Cannot run `find` on search results page or find results page")
        yield from ()
        return self._stack.show(find_page(page, pattern), taints=view.taints, found_in=view.page)

    def close(self) -> None:
        """Nothing to release."""

    def _plan(self, args: Mapping[str, object]) -> tuple[str, View]:
        cursor = _arguments.whole_number(args, "cursor")
        view = self._stack.view(cursor)
        return _arguments.text(args, "pattern"), view
