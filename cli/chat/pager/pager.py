"""The transcript on the alternate screen: all of the session, the thinking too. The scrollback is not touched.

It is a prompt_toolkit application of its own, run while the chat's is suspended (`Screen.aside`). The chat goes on: a
few times a second the pager looks at the transcript's version, and draws news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl, UIContent, UIControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import ColorDepth, Output
from rich.cells import cell_len

from ossia.cli.chat.pager.find import Finder, Query
from ossia.cli.chat.pager.scroll import Block, Line, View
from ossia.cli.chat.pager.sections import Page
from ossia.cli.clean import clean, fitted, one_line
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.input.keys import key_parser
from ossia.cli.terminal.markdown.paint import Painter, Row

if TYPE_CHECKING:
    from ossia.cli.chat.pager.transcript import Transcript

POLL_S = 0.2
_SWITCH = {True: "hides", False: "shows"}
_HIT, _THIS_HIT, _FOLD = "underline bold", "reverse", "reverse"


async def show(
    transcript: Transcript,
    painter: Painter,
    *,
    output: Output,
    input: Input | None = None,
    follow: bool = True,
    page: Page | None = None,
    head: Callable[[], list[Row]] = list,
    poll_s: float = POLL_S,
) -> None:
    """Show the transcript until the reader leaves. To be called inside `Screen.aside()`.

    `follow`: begin at its end and stay there as it grows, or at the call that is asked about; else at its top.
    `head`: rows that stay above it, at most half of the screen. `page` gives the page behind a cursor of the browser,
    for footnotes. `painter` says whether there are colours; it is not changed.
    """
    pager = Pager(transcript, Painter(painter.width, colour=painter.colour, links=False), page=page, head=head)
    pager.view.begin(follow=follow)
    await pager.run(output=output, input=input, poll_s=poll_s)


class Pager:
    """The keys, the foot line and the search around a `View`."""

    def __init__(
        self,
        transcript: Transcript,
        painter: Painter,
        *,
        page: Page | None = None,
        head: Callable[[], list[Row]] = list,
    ) -> None:
        self._head = head
        self.view = View(transcript, painter, page=page)
        self._finder: Finder | None = None
        self._chosen: Block | None = None  # the item that Enter opens, if it is on screen
        self._height = 1
        self._searching = False
        self._query = Buffer(multiline=False)
        self._body = Window(_Rows(self), wrap_lines=False)
        self._line = Window(BufferControl(self._query), height=1)
        self._drawn = -1
        self._app: Application[None] | None = None

    async def run(self, *, output: Output, input: Input | None, poll_s: float) -> None:
        """Until the reader leaves."""
        colour = self.view.painter.colour
        app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            full_screen=True,
            color_depth=ColorDepth.DEPTH_4_BIT if colour else ColorDepth.DEPTH_1_BIT,
            output=output,
            input=input,
        )
        key_parser(app.input)
        app.ttimeoutlen = 0.05
        self._app = app
        watch = asyncio.ensure_future(self._watch(app, poll_s))
        try:
            # The chat's application keeps its handlers of SIGINT and exceptions: prompt_toolkit would not restore them.
            await app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch(self, app: Application[None], poll_s: float) -> None:
        while True:
            await asyncio.sleep(poll_s)
            if self.view.transcript.version != self._drawn:
                app.invalidate()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[StyleAndTextTuples]:
        """The rows of the body."""
        self._height = max(1, height)
        lines = self.view.draw(max(2, width), self._height)
        self._drawn = self.view.transcript.version
        current = self._current()
        return [self._fragments(line, current) for line in lines]

    def _fragments(self, line: Line, current: Block | None) -> StyleAndTextTuples:
        fragments: StyleAndTextTuples = list(self.view.painter.fragments([line.row]))
        if line.piece.section.look == "fold" and line.block is current:
            fragments = [(f"{style} {_FOLD}", text) for style, text, *_ in fragments]
        for begin, end, this in self._finder.marks(line) if self._finder else ():
            fragments = _marked(fragments, begin, end, _THIS_HIT if this else _HIT)
        return fragments

    def _layout(self) -> Layout:
        typing = Condition(lambda: self._searching)
        prompt = VSplit([Window(FormattedTextControl("/"), width=1, height=1), self._line])
        foot = Window(FormattedTextControl(lambda: [("reverse", self._foot())]), height=1)

        def rows() -> list[Row]:
            return folded(self._head(), self.view.painter.width)

        above = Window(
            FormattedTextControl(lambda: list(self.view.painter.fragments(rows()))),
            height=lambda: Dimension.exact(min(len(rows()), get_app().output.get_size().rows // 2)),
        )
        head = ConditionalContainer(above, Condition(lambda: bool(rows())))
        parts = [head, self._body, ConditionalContainer(prompt, typing), ConditionalContainer(foot, ~typing)]
        return Layout(HSplit(parts), focused_element=self._body)

    def _foot(self) -> str:
        """The place and the keys, in words; the least important parts are left out where there is no room."""
        view = self.view
        width, wide = view.painter.width, view.painter.width > 60
        turns = sum(block.item.kind == "user" and not block.item.steers for block in view.blocks)
        here = view.lines[0].block.item.turn + 1 if view.lines else 0
        last = view.lines[-1].block.item.turn + 1 if view.lines else 0
        spans = f"{max(1, here)}–{last}" if last > max(1, here) else f"{max(1, here)}"
        finder = self._finder
        query = f"/{one_line(finder.query.text, 16 if wide else 6)}: {finder.where}" if finder else ""
        parts = [  # in the order of the line, each with its rank
            (3, (f"turn {spans} of {turns}" if wide else f"{spans}/{turns}") if turns else ""),  # /raw has none
            (4, "end" if not view.more_below else "↓ more below" if wide else "↓"),
            (1, fitted(query, width - 1)),
            (5, "n N next" if finder else ""),
            (6, "PgUp/PgDn pages"),
            (7, "/ searches"),
            (8, "Enter opens"),
            (9, f"t {_SWITCH[view.switches.thinking]} thinking"),
            (10, f"o {_SWITCH[view.switches.output]} output"),
            (11, "[ ] turns"),
            (12, "Tab next fold"),
            (2, "q leaves"),
        ]
        shown = ""
        chosen: list[tuple[int, str]] = []
        for part in sorted(part for part in parts if part[1]):
            more = [one for one in parts if one in (*chosen, part)]
            line = " " + " · ".join(text for _, text in more)
            if cell_len(line) <= width:
                chosen, shown = more, line
        return shown + " " * (width - cell_len(shown))

    def _redraw(self) -> None:
        """Bring `view.lines` up to date: keys come faster than frames."""
        self.view.draw(self.view.painter.width, self._height)

    # -- folds ---------------------------------------------------------------------------------------------------------

    def _current(self) -> Block | None:
        """The block for Enter: the one that Tab chose, else the first fold on screen, else the first item with one."""
        shown = [line.block for line in self.view.lines]
        if self._chosen in shown:
            return self._chosen
        folds = [line.block for line in self.view.lines if line.piece.section.look == "fold"]
        return next((block for block in [*folds, *shown] if block.foldable(self.view.switches)), None)

    def _toggle(self) -> None:
        block = self._current()
        if block is None:
            return
        block.opened = not block.opened
        if not block.opened and self.view.lines[0].block is block:
            self.view.to(block)  # what was at the top is folded away

    def _choose(self, step: int) -> None:
        """Choose the next item that can be opened or closed, and bring it into the view."""
        view, current = self.view, self._current()
        at = current.index if current else (view.lines[0].block.index - (step > 0) if view.lines else 0)
        ahead = view.blocks[at + 1 :] if step > 0 else view.blocks[: max(0, at)][::-1]
        chosen = next((block for block in ahead if block.foldable(view.switches)), None)
        if chosen is None:
            return
        self._chosen = chosen
        if chosen not in [line.block for line in view.lines]:
            view.to(chosen, above=self._height // 3)

    # -- search --------------------------------------------------------------------------------------------------------

    def _search(self, query: str) -> None:
        if query.strip():
            self._finder = Finder(self.view, Query(query))
        self._step(forward=True)

    def _step(self, *, forward: bool) -> None:
        if self._finder:
            self._redraw()
            self._finder.step(forward, self._height)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        reading = Condition(lambda: not self._searching)
        view = self.view

        def bind(*names: str, act: Callable[[], object]) -> None:
            def pressed(event: KeyPressEvent) -> None:
                self._redraw()
                act()

            for name in names:
                keys.add(name, filter=reading, eager=True)(pressed)

        def scroll(rows: int) -> None:
            view.scroll(rows, self._height)

        bind("down", "j", "c-n", act=lambda: scroll(1))
        bind("up", "k", "c-p", act=lambda: scroll(-1))
        bind("pagedown", "space", "c-f", act=lambda: scroll(max(1, self._height - 1)))
        bind("pageup", "b", "c-b", act=lambda: scroll(-max(1, self._height - 1)))
        bind("d", "c-d", act=lambda: scroll(max(1, self._height // 2)))
        bind("u", "c-u", act=lambda: scroll(-max(1, self._height // 2)))
        bind("g", "home", act=view.to_start)
        bind("G", "end", act=view.to_end)
        bind("[", act=lambda: view.to_turn(-1))
        bind("]", act=lambda: view.to_turn(1))
        bind("t", act=lambda: self._switch(thinking=not view.switches.thinking))
        bind("o", act=lambda: self._switch(output=not view.switches.output))
        bind("enter", act=self._toggle)
        bind("tab", act=lambda: self._choose(1))
        bind("s-tab", act=lambda: self._choose(-1))
        bind("n", act=lambda: self._step(forward=True))
        bind("N", act=lambda: self._step(forward=False))
        bind("q", "escape", "c-c", "c-o", act=self._leave)
        self._search_keys(keys, reading)
        return keys

    def _search_keys(self, keys: KeyBindings, reading: Condition) -> None:
        typing = Condition(lambda: self._searching)

        @keys.add("/", filter=reading)
        def _(event: KeyPressEvent) -> None:
            self._searching = True
            self._query.reset()
            event.app.layout.focus(self._line)

        @keys.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._end_search(event)
            self._search(self._query.text)

        @keys.add(Keys.BracketedPaste, filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._query.insert_text(clean(one_line(event.data)))

        @keys.add("escape", filter=typing, eager=True)
        @keys.add("c-c", filter=typing)
        @keys.add("c-o", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._finder = None
            self._end_search(event)

    def _end_search(self, event: KeyPressEvent) -> None:
        self._searching = False
        event.app.layout.focus(self._body)

    def _switch(self, **changed: bool) -> None:
        self.view.switches = replace(self.view.switches, **changed)

    def _leave(self) -> None:
        if self._app and self._app.is_running and not self._app.is_done:
            self._app.exit()


class _Rows(UIControl):
    """The body: its rows are asked for when they are drawn."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager

    def is_focusable(self) -> bool:
        return True

    def create_content(self, width: int, height: int) -> UIContent:
        rows = self._pager.draw(width, height)
        return UIContent(get_line=lambda number: rows[number], line_count=len(rows), show_cursor=False)


def _marked(fragments: StyleAndTextTuples, begin: int, end: int, style: str) -> StyleAndTextTuples:
    """The same row, with a style added between two characters."""
    chars = enumerate(explode_text_fragments(fragments))
    return [(f"{before} {style}" if begin <= at < end else before, char) for at, (before, char, *_) in chars]
