"""Ctrl-R: the history, searched while one types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import ConditionalContainer, Window
from prompt_toolkit.layout.controls import BufferControl

from ossia.cli.terminal.input.history import Entry, History, matching
from ossia.cli.terminal.input.line import Cleaned, Line


@dataclass(slots=True)
class _Found:
    before: Document
    entries: list[Entry] = field(default_factory=list)
    at: int = 0


class Search:
    """The row below the input while the history is searched; what is found stands in the line itself.

    Enter, Tab, Esc, Left and Right take it into the line; nothing is sent. Ctrl-C and Ctrl-G bring back what was there
    before. `done` is called at the end: the line has the keys again.
    """

    def __init__(self, line: Line, history: History, done: Callable[[], None]) -> None:
        self._line, self._history, self._done = line, history, done
        self._found: _Found | None = None
        self._query = Buffer(multiline=False, on_text_changed=lambda _: self._look())
        control = BufferControl(self._query, key_bindings=self._keys(), input_processors=[Cleaned()])
        self.window = Window(control, height=1, dont_extend_height=True, get_line_prefix=self._label)
        self.container = ConditionalContainer(self.window, Condition(lambda: self.open))

    @property
    def open(self) -> bool:
        """Is the history being searched?"""
        return self._found is not None

    def start(self) -> None:
        """Open the row; it has the keys now."""
        self._line.complete_state = None
        self._query.reset()
        self._found = _Found(self._line.document)
        app = get_app()
        app.vi_state.input_mode = InputMode.INSERT
        app.layout.focus(self.window)

    def _look(self) -> None:
        if self._found is not None:
            self._found.entries, self._found.at = matching(self._history.entries, self._query.text), 0
            self._show()

    def _step(self, by: int) -> None:
        found = self._found
        if found is not None and found.entries:
            found.at = min(max(0, found.at + by), len(found.entries) - 1)
            self._show()

    def _show(self) -> None:
        assert self._found is not None
        if not self._found.entries:
            self._line.document = self._found.before
            return
        text = self._found.entries[self._found.at].text
        query = self._query.text
        at = text.lower().find(query) if query == query.lower() else text.find(query)
        self._line.document = Document(text, max(0, at) if len(text.lower()) == len(text) else 0)

    def _take(self) -> None:
        assert self._found is not None
        if self._found.entries:
            self._line.recall(self._found.entries[self._found.at])
        self._end()

    def _give_up(self) -> None:
        assert self._found is not None
        self._line.document = self._found.before
        self._end()

    def _end(self) -> None:
        self._found = None
        self._query.reset()
        self._done()

    def _label(self, number: int, wrapped: int) -> StyleAndTextTuples:
        if self._found is None or not self._query.text:
            told = "search: "
        elif not self._found.entries:
            told = "nothing found: "
        else:
            told = f"search {self._found.at + 1} of {len(self._found.entries)}: "
        return [("dim", told)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def bind(names: tuple[str, ...], action: Callable[[], None], *, eager: bool = False) -> None:
            for name in names:
                keys.add(name, eager=eager)(lambda event: action())

        bind(("enter", "tab", "right", "left"), self._take)
        bind(("escape",), self._take, eager=True)
        bind(("c-r", "up"), lambda: self._step(1))
        bind(("c-s", "down"), lambda: self._step(-1))
        bind(("c-c", "c-g", "<sigint>"), self._give_up)
        return keys
