"""Ctrl-R: the history, searched while one types."""

from __future__ import annotations

from collections.abc import Callable

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


class Search:
    """The row below the input while the history is searched; the entry found stands in the line itself.

    Enter, Tab, Esc, Left and Right accept it; nothing is sent. Ctrl-C and Ctrl-G restore the line. `done` is called at
    the end: the line has the keys again.
    """

    def __init__(self, line: Line, history: History, done: Callable[[], None]) -> None:
        self._line, self._history, self._done = line, history, done
        self._before: Document | None = None  # the line before the search, while one is open
        self._found, self._at = list[Entry](), 0
        self._query = Buffer(multiline=False, on_text_changed=lambda _: self._look())
        control = BufferControl(self._query, key_bindings=self._keys(), input_processors=[Cleaned()])
        self.window = Window(control, height=1, dont_extend_height=True, get_line_prefix=self._label)
        self.container = ConditionalContainer(self.window, Condition(lambda: self.open))

    @property
    def open(self) -> bool:
        """Is the history being searched?"""
        return self._before is not None

    def start(self) -> None:
        """Open the row; it has the keys now."""
        self._line.complete_state = None
        self._query.reset()
        self._before, self._found, self._at = self._line.document, [], 0
        app = get_app()
        app.vi_state.input_mode = InputMode.INSERT
        app.layout.focus(self.window)

    def _look(self) -> None:
        if self.open:
            self._found, self._at = matching(self._history.entries, self._query.text), 0
            self._show()

    def _step(self, by: int) -> None:
        if self._found:
            self._at = min(max(0, self._at + by), len(self._found) - 1)
            self._show()

    def _show(self) -> None:
        assert self._before is not None
        if not self._found:
            self._line.document = self._before
            return
        text, query = self._found[self._at].text, self._query.text
        at = text.lower().find(query) if query == query.lower() else text.find(query)
        self._line.document = Document(text, max(0, at) if len(text.lower()) == len(text) else 0)

    def _take(self) -> None:
        if self._found:
            self._line.recall(self._found[self._at])
        self._end()

    def _give_up(self) -> None:
        assert self._before is not None
        self._line.document = self._before
        self._end()

    def _end(self) -> None:
        self._before = None
        self._query.reset()
        self._done()

    def _label(self, number: int, wrapped: int) -> StyleAndTextTuples:
        if not self._query.text:
            return [("dim", "search: ")]
        place = f"search {self._at + 1} of {len(self._found)}: " if self._found else "nothing found: "
        return [("dim", place)]

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
