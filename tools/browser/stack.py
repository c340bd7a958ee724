"""The pages of a conversation, each under its cursor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from sys import getsizeof

from ossia.tools.browser._arguments import fault
from ossia.tools.browser.page import Page
from ossia.tools.spec import Taint, ToolFailed, ToolResult

MAX_BYTES = 64 << 20
"""The most memory for the pages of one conversation, as `Stack` estimates it."""

_MAX_CURSOR = 999_999
_LINK_SHOWN = re.compile(r"【(\d+)†")
_NEXT_LINE = re.compile(r"\nL\d+: ")
_VIEW_SOURCE = "view-source:"


@dataclass(frozen=True, slots=True)
class View:
    """The page under a cursor: `View(4, 3, …)` is cursor 4, a scroll on the page that cursor 3 brought.

    `found_in`, of a find page: the page (the cursor that brought it) whose matches it lists. `shown` are the ids of the
    links in the lines that were shown.
    """

    cursor: int
    page: int
    title: str
    url: str
    total_lines: int
    taints: frozenset[Taint]
    found_in: int | None = None
    shown: frozenset[int] = frozenset()

    @property
    def address(self) -> str:
        """The URL of the page or document itself, even for its source or a find in it; "" for a search."""
        url = self.url.removeprefix(_VIEW_SOURCE)
        return url if self.found_in is None else url.rpartition("/find?pattern=")[0]


@dataclass(slots=True)
class _Kept:
    """A page, parsed from its stored form only when it is needed."""

    stored: Mapping[str, object]
    page: Page | None = None
    shown: set[int] = field(default_factory=set)

    def cost(self) -> int:
        """Bytes in memory, roughly: the text is there twice, unwrapped and as lines."""
        links = self.stored.get("links")
        return 2 * getsizeof(self.stored.get("text", "")) + 300 * (len(links) if isinstance(links, Mapping) else 0)


class Stack:
    """Views by cursor. Each search, open (also a scroll) and find that succeeds pushes one.

    A page stays as it was when its cursor showed it: neither another search nor a reload changes it. The most recently
    used pages are kept, up to `max_bytes` in all; the newest one always. `count_tokens` counts in the vocabulary of
    `view_tokens`, the size of a view.
    """

    def __init__(self, count_tokens: Callable[[str], int], view_tokens: int, max_bytes: int) -> None:
        self._count_tokens, self._view_tokens, self._max_bytes = count_tokens, view_tokens, max_bytes
        self._views: dict[int, View] = {}
        self._kept: dict[int, _Kept] = {}  # by View.page, in the order of their last use
        self._bytes = 0

    @property
    def next_cursor(self) -> int:
        """The cursor of the next page."""
        return max(self._views, default=-1) + 1

    def view(self, cursor: int) -> View:
        """The view of `cursor`; -1 is the newest. Raises `ToolFailed` if there is no such cursor."""
        if not self._views:
            raise fault("No pages to access!")
        newest = self.next_cursor - 1
        if not -1 <= cursor <= newest:
            raise fault(f"Cursor `{cursor}` is out of range. Available cursor indices: [0 - {newest}].")
        view = self._views.get(newest if cursor == -1 else cursor)
        if view is None:  # its message is gone from the conversation, or could not be read
            raise fault(f"The page at cursor `{cursor}` is no longer kept. Open its URL again.")
        return view

    def page(self, number: int) -> Page:
        """The page of cursor `number` (`View.page`). Raises `ToolFailed` if it is no longer kept."""
        kept = self._kept.get(number)
        if kept is None:
            view = self._views.get(number)
            again = f"Open `{view.address}` again." if view is not None and view.address else "Search again."
            raise ToolFailed(f"The page at cursor `{number}` is no longer kept. {again}")
        if kept.page is None:
            try:
                kept.page = Page.from_json(kept.stored)
            except (ValueError, TypeError):
                raise fault(f"The page at cursor `{number}` can't be read. Open its URL again.") from None
        return kept.page

    def shown_links(self, number: int) -> frozenset[int]:
        """The ids of the links on page `number` shown in any view of it."""
        kept = self._kept.get(number)
        return frozenset(kept.shown) if kept is not None else frozenset()

    def known_urls(self) -> Iterator[tuple[str, str]]:
        """The URLs known in this conversation, each with the address of the page that showed it.

        The URL of an opened page counts as shown by itself; a search has no address ("").
        """
        for view in self._views.values():
            if view.address:
                yield view.address, view.address
        for number, kept in self._kept.items():
            links = kept.stored.get("links")
            if isinstance(links, Mapping):
                page = self._views[number].address
                yield from ((str(links[str(link)]), page) for link in kept.shown if str(link) in links)

    def show(
        self,
        page: Page,
        *,
        taints: frozenset[Taint],
        loc: int = -1,
        num_lines: int = -1,
        found_in: int | None = None,
    ) -> ToolResult:
        """The result of pushing a new page under the next cursor. Raises `ToolFailed`, with nothing pushed."""
        cursor, text = self.next_cursor, self._text(page, loc, num_lines)
        view = View(cursor, cursor, page.title, page.url, page.total_lines, taints, found_in, _links_in(text))
        return self._pushed(view, _Kept(page.to_json(), page), text)

    def show_again(self, number: int, *, loc: int, num_lines: int) -> ToolResult:
        """The result of showing page `number` again: a scroll, or a link of a find page."""
        text = self._text(self.page(number), loc, num_lines)
        view = replace(self._views[number], cursor=self.next_cursor, shown=_links_in(text))
        return self._pushed(view, self._kept[number], text)

    def restore(self, states: Iterable[Mapping[str, object]]) -> None:
        """Become the stack that these states of results describe; drop everything else."""
        self._views.clear()
        self._kept.clear()
        self._bytes = 0
        for view, stored in _read(states):
            kept = _Kept(stored) if stored is not None else self._kept.get(view.page)
            self._add(view, kept)

    def _text(self, page: Page, loc: int, num_lines: int) -> str:
        cursor, count, size = self.next_cursor, self._count_tokens, self._view_tokens
        return page.show(cursor, count_tokens=count, loc=loc, num_lines=num_lines, view_tokens=size)

    def _pushed(self, view: View, kept: _Kept, text: str) -> ToolResult:
        self._add(view, kept)
        return ToolResult(text, state=self._state(view), taints=view.taints)

    def _state(self, view: View) -> dict[str, object]:
        """JSON-like data of a view for `restore`; with its page, unless an earlier cursor has it."""
        state: dict[str, object] = {"cursor": view.cursor, "shown": sorted(view.shown)}
        if view.page != view.cursor:
            return {**state, "same_as": view.page}
        state |= {"total_lines": view.total_lines, "taints": sorted(view.taints)}
        if view.found_in is not None:
            state["found_in"] = view.found_in
        return {**state, "page": dict(self._kept[view.page].stored)}

    def _add(self, view: View, kept: _Kept | None) -> None:
        self._views[view.cursor] = view
        if kept is None:  # a view of a page that was dropped since
            return
        kept.shown |= view.shown
        self._drop(view.page)
        self._kept[view.page] = kept
        self._bytes += kept.cost()
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, number: int) -> None:
        kept = self._kept.pop(number, None)
        self._bytes -= kept.cost() if kept is not None else 0


def read_states(states: Iterable[Mapping[str, object]]) -> tuple[View, ...]:
    """The views in the states of a conversation, by cursor; other tools' states, and junk, are skipped."""
    views = {view.cursor: view for view, _ in _read(states)}
    return tuple(views.values())


def _read(states: Iterable[Mapping[str, object]]) -> Iterator[tuple[View, Mapping[str, object] | None]]:
    """Each view with its stored page; None for a page of an earlier view."""
    views: dict[int, View] = {}
    for state in states:
        cursor, page = _number(state.get("cursor")), state.get("page")
        if cursor is None:
            continue
        if isinstance(page, Mapping):
            view, stored = _new_view(cursor, state, page), page
        else:
            same_as = _number(state.get("same_as"))
            earlier = views.get(same_as) if same_as is not None else None
            if earlier is None:
                continue
            view, stored = replace(earlier, cursor=cursor, shown=_numbers(state.get("shown"))), None
        views[cursor] = view
        yield view, stored


def _new_view(cursor: int, state: Mapping[str, object], page: Mapping[str, object]) -> View:
    title, url, stored = page.get("title"), page.get("url"), state.get("taints")
    taints: tuple[Taint, ...] = ("outside", "private")
    return View(
        cursor,
        cursor,
        title if isinstance(title, str) else "",
        url if isinstance(url, str) else "",
        _number(state.get("total_lines"), most=10**9) or 0,
        # Junk counts as both.
        frozenset(taint for taint in taints if not isinstance(stored, list) or taint in stored),
        _number(state.get("found_in")),
        _numbers(state.get("shown")),
    )


def _number(value: object, *, most: int = _MAX_CURSOR) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def _numbers(value: object) -> frozenset[int]:
    return frozenset(number for number in value if isinstance(number, int)) if isinstance(value, list) else frozenset()


def _links_in(text: str) -> frozenset[int]:
    """The ids of the links in shown text. A line break may split a link anywhere."""
    return frozenset(int(number) for number in _LINK_SHOWN.findall(_NEXT_LINE.sub("", text)))
