"""The browser of a conversation: three tools over one stack of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ossia.tools.browser.document import Loader, Source
from ossia.tools.browser.open import LinkBudget, OpenTool
from ossia.tools.browser.page import VIEW_TOKENS
from ossia.tools.browser.search import FindTool, SearchTool
from ossia.tools.browser.stack import MAX_BYTES, Stack
from ossia.tools.spec import Tool

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
