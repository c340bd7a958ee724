"""What the three tools share: the stack, and how a page on it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.browser.page import Page
from tools.browser.stack import Stack, View
from tools.spec import Taint, ToolResult


@dataclass(frozen=True, slots=True)
class Display:
    """Shows pages and pushes what was shown; a page that can't be shown (a `loc` after its end) isn't pushed.

    `count_tokens` counts in the vocabulary of `view_tokens`, the size of a view.
    """

    stack: Stack
    count_tokens: Callable[[str], int]
    view_tokens: int

    def new(
        self,
        page: Page,
        *,
        brings: frozenset[Taint],
        loc: int = -1,
        num_lines: int = -1,
        found_in: int | None = None,
    ) -> ToolResult:
        """The result that shows a page for the first time. Raises `ToolFailed`."""
        text = self._text(page, loc, num_lines)
        return self._result(text, self.stack.push(page, text, brings=brings, found_in=found_in))

    def again(self, number: int, *, loc: int = -1, num_lines: int = -1) -> ToolResult:
        """The result that shows again the page that cursor `number` brought. Raises `ToolFailed`."""
        text = self._text(self.stack.page(number), loc, num_lines)
        return self._result(text, self.stack.push_again(number, text))

    def _text(self, page: Page, loc: int, num_lines: int) -> str:
        return page.show(
            self.stack.next_cursor,
            count_tokens=self.count_tokens,
            loc=loc,
            num_lines=num_lines,
            view_tokens=self.view_tokens,
        )

    def _result(self, text: str, view: View) -> ToolResult:
        return ToolResult(text, state=self.stack.state(view), brings=view.brings)
