"""The input line: typing, pastes, completions, history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import CompletionState
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.filters import Condition, Filter, emacs_mode, has_focus, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.utils import get_cwidth

from ossia.cli.mentions import mentions, of_dropped
from ossia.cli.terminal.input.completion import Completions, Sources, menu_rows
from ossia.cli.terminal.input.external import EditorFailed
from ossia.cli.terminal.input.history import Entry, History
from ossia.cli.terminal.input.line import Cleaned, Line, Pastes, Search, is_long
from ossia.cli.terminal.input.typed import Typed, block_is_open, without_quotes

_MAX_ROWS, _MAX_MENU_ROWS = 8, 6
_MAX_SET_CHARS = 20_000
"""A longer text put into the line (from an editor) becomes a placeholder, like a paste."""


class Editor:
    """The input line with its menu and its search row. `submit` gets the line, which is cleared then.

    `edit` takes a text to the user's own editor and returns the changed text, None for no change (`external`); `note`
    shows why that failed. All is called on the screen's thread.

        editor = Editor(chat.submit, history=History(paths.history_file()), sources=Sources(commands=…))
    """

    def __init__(
        self,
        submit: Callable[[Typed], None],
        *,
        history: History | None = None,
        sources: Sources | None = None,
        edit: Callable[[str], Awaitable[str | None]] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._submit, self._edit, self._note = submit, edit, note
        self.history = history or History()
        self.pastes = Pastes()
        self._last_choices: CompletionState | None = None
        self._completions = Completions(sources or Sources())
        wanted = Condition(lambda: not self._search.open and self._completions.wanted(self.buffer.document))
        self.buffer = Line(self.pastes, self.history, self._completions, complete_while_typing=wanted)
        self._search = Search(self.buffer, self.history, lambda: get_app().layout.focus(self.window))
        self.window = Window(
            BufferControl(self.buffer, input_processors=[Cleaned()]),
            height=lambda: Dimension(min=1, max=self._max_rows()),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda number, wrap: "› " if number == 0 and not wrap else "  ",
        )
        menu = Window(FormattedTextControl(self._menu), height=self._menu_height, dont_extend_height=True)
        menu_pane = ConditionalContainer(menu, Condition(lambda: self._menu_height() > 0))
        self.container = HSplit([self.window, self._search.container, menu_pane])
        self.keys = self._keys()

    @property
    def text(self) -> str:
        """The line, with placeholders."""
        return self.buffer.text

    @property
    def typing(self) -> bool:
        """Is something being typed, a text or a search?"""
        return bool(self.text) or self._search.open

    def set(self, text: str) -> None:
        """Put `text` into the line, the cursor behind it; pastes of this chat become placeholders again."""
        text = self.pastes.folded(text)
        self.buffer.text = self.pastes.fold(text) if len(text) > _MAX_SET_CHARS else text
        self.buffer.cursor_position = len(self.buffer.text)

    def clear(self) -> None:
        """Empty the line."""
        self.buffer.reset()

    def take(self) -> str:
        """The line, with its pastes; it is empty then."""
        text = self.pastes.expanded(self.text)
        self.clear()
        get_app().vi_state.reset()
        return text

    def put_aside(self) -> None:
        """Move the line to the history as a draft."""
        draft = self.text.rstrip()
        self.history.add(Entry(draft, self.pastes.within(draft)), draft=True)
        self.clear()

    def recognise(self, text: str) -> None:
        """Learn the paste in a message of an earlier chat."""
        if is_long(text) and self.pastes.folded(text) == text:
            self.pastes.recognise(text, self.history.entries)

    def height(self, rows: int) -> int:
        """The rows of the line, its menu and its search, on a screen of `rows` rows."""
        limit = self._max_rows(rows)
        columns = get_app().output.get_size().columns
        return min(limit, _rows_of(self.text, columns - 2, limit)) + self._search.open + self._menu_height(rows)

    def _max_rows(self, rows: int | None = None) -> int:
        return max(1, min(_MAX_ROWS, (rows or get_app().output.get_size().rows) // 3))

    # -- the menu ------------------------------------------------------------------------------------------------------

    def _menu_height(self, rows: int | None = None) -> int:
        state = self._choices()
        room = min(_MAX_MENU_ROWS, self._max_rows(rows))
        return min(room, len(state.completions)) if state else 0

    def _menu(self) -> StyleAndTextTuples:
        state = self._choices()
        return menu_rows(state, self._menu_height()) if state else []

    def _choices(self) -> CompletionState | None:
        """The choices in the menu; during a search the last ones: it must not flicker."""
        state = self.buffer.complete_state
        if state is None or state.completions:
            self._last_choices = state
        return self._last_choices

    def _tab(self) -> None:
        buffer = self.buffer
        if buffer.complete_state and buffer.complete_state.completions:
            self._next_choice()
        elif self._completions.possible(buffer.document):
            self._open_menu()
        elif not buffer.document.current_line_before_cursor.strip():
            buffer.insert_text("    ")

    def _open_menu(self) -> None:
        """Open it at once, without waiting for the search begun by typing: the next key may already wait."""
        buffer = self.buffer
        choices = list(self._completions.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
        common = get_common_complete_suffix(buffer.document, choices) if len(choices) > 1 else ""
        if common:
            buffer.insert_text(common)
            choices = [choice.new_completion_from_position(len(common)) for choice in choices]
        if choices:
            buffer.complete_state = CompletionState(buffer.document, choices)
            buffer.on_completions_changed.fire()
        if len(choices) == 1:
            self._next_choice()

    def _next_choice(self) -> None:
        assert self.buffer.complete_state
        if len(self.buffer.complete_state.completions) == 1:
            self.buffer.go_to_completion(0)
            self._close_menu()
        else:
            self.buffer.complete_next()

    def _close_menu(self) -> None:
        """Accept the choice. After a folder its contents are offered; after a mention comes a blank."""
        buffer = self.buffer
        buffer.complete_state = None
        before = buffer.document.text_before_cursor
        if self._completions.wanted(buffer.document) and not before.startswith("/"):
            if before.endswith("/"):
                buffer.start_completion()
            else:
                buffer.insert_text(" ")

    def _dropped(self, text: str) -> str:
        """Mentions of dropped files, if `text` is nothing else and they would be mentions here; else ""."""
        written, before = of_dropped(text), self.buffer.document.text_before_cursor
        if not written or self.text.startswith(("/", "!")) or len(mentions(before + written)) <= len(mentions(before)):
            return ""
        self._note("what was dropped will be attached; without its @, only the path is sent")
        return f"{written} "

    # -- sending -------------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        buffer = self.buffer
        before = buffer.document.text_before_cursor
        chosen = buffer.complete_state is not None and buffer.complete_state.current_completion is not None
        if chosen and not before.startswith("/"):
            self._close_menu()
        elif block_is_open(buffer.text):
            buffer.insert_text("\n")
        elif before.endswith("\\") and not before.endswith("\\\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif self._has_text():
            self._send()

    def _has_text(self) -> bool:
        return bool(without_quotes(self.buffer.text).strip())

    def _send(self, *, waits: bool = False) -> None:
        written = self.buffer.text.rstrip()
        shown = without_quotes(written)
        literal = shown != written  # it began with a blank, or stood in quotes
        self.buffer.reset()
        get_app().vi_state.reset()  # vi: a new line begins in insert mode
        self.history.add(Entry(written, self.pastes.within(written)))
        self._submit(Typed(shown, self.pastes.expanded(shown), literal, waits))

    async def _in_editor(self) -> None:
        """Edit the line in the user's editor, its placeholders replaced by the pastes."""
        assert self._edit is not None
        try:
            text = await self._edit(self.pastes.expanded(self.text))
        except EditorFailed as failure:
            self._note(str(failure))
            return
        if text is not None:
            self.set(text)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        here = has_focus(self.buffer)
        typing = here & (emacs_mode | vi_insert_mode)
        menu = here & Condition(lambda: self._menu_height() > 0)

        def bind(*names: str, action: Callable[[], None], filter: Filter = here, eager: bool = False) -> None:
            keys.add(*names, filter=filter, eager=eager)(lambda event: action())

        newline = partial(self.buffer.insert_text, "\n")
        bind("enter", action=self._enter)
        bind("c-x", "enter", action=lambda: self._send(waits=True), filter=typing & Condition(self._has_text))
        bind("c-j", action=newline, filter=typing)
        bind("escape", "enter", action=newline, filter=here & emacs_mode)
        bind("tab", action=self._tab, filter=typing)
        bind("s-tab", action=self.buffer.complete_previous, filter=typing)
        bind("escape", action=self.buffer.cancel_completion, filter=menu & emacs_mode, eager=True)
        bind("c-r", action=self._search.start, filter=typing)
        bind("/", action=self._search.start, filter=here & vi_navigation_mode)

        @keys.add(Keys.BracketedPaste, filter=here)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            self.buffer.insert_text(self._dropped(text) or self.pastes.shown(text))

        @keys.add("c-x", "c-e", filter=here & Condition(lambda: self._edit is not None))
        def _(event: KeyPressEvent) -> None:
            event.app.create_background_task(self._in_editor())

        return keys


def _rows_of(text: str, columns: int, limit: int) -> int:
    """The rows of the text in `columns`, counted up to `limit`."""
    widths = (get_cwidth(line[: columns * limit]) for line in text.split("\n", limit)[: limit + 1])
    return min(limit, sum(max(1, -(-width // max(1, columns))) for width in widths))
