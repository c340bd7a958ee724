"""The text of the input line: placeholders for pasted texts, each one piece; the history, walked and searched."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import ConditionalContainer, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from ossia.cli.clean import clean, clean_flat, pieces
from ossia.cli.terminal.input.history import Entry, History, beginning, matching
from ossia.cli.terminal.input.typed import without_quotes
from ossia.cli.words import length_of

_NAME = re.compile(r"\[paste \d+: ([\d,]+ (?:characters|lines))\]")
_MAX_CHARS, _MAX_LINES = 1000, 20
_MAX_HELD_CHARS = 64_000_000
"""Of all pastes together; the oldest go first."""


def is_long(text: str) -> bool:
    """Is the text long enough to become a placeholder when it is pasted?"""
    return len(text) > _MAX_CHARS or text.count("\n") > _MAX_LINES


class Pastes:
    """The pasted texts. Each number is given once: a placeholder never changes its meaning."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._count = 0

    def shown(self, text: str) -> str:
        """The text itself, or a placeholder for a long one, `[paste 1: 213 lines]`: it would slow down every frame."""
        return self.fold(text) if is_long(text) else text

    def fold(self, text: str) -> str:
        """A new placeholder for `text`."""
        self._count += 1
        name = f"[paste {self._count}: {length_of(text)}]"
        self._kept[name] = text
        held = sum(map(len, self._kept.values()))
        while held > _MAX_HELD_CHARS and len(self._kept) > 1:
            held -= len(self._kept.pop(next(iter(self._kept))))
        return name

    def folded(self, text: str) -> str:
        """The text with each paste in it as its placeholder again."""
        for name, pasted in self._kept.items():
            text = text.replace(pasted, name)
        return text

    def recognise(self, text: str, entries: Iterable[Entry]) -> None:
        """Learn the paste in a message of an earlier chat, from the history's line with one placeholder.

        Such a paste is mostly too long for the history, but its length stands in the placeholder.
        """
        found: list[str] = []
        for entry in entries:
            before, *pasted = _NAME.split(without_quotes(entry.text))
            if len(pasted) == 2 and text.startswith(before) and text.endswith(pasted[1]):
                middle = text[len(before) : len(text) - len(pasted[1])]
                found += [middle] if length_of(middle) == pasted[0] else []
        if found:
            self.fold(min(found, key=len))  # the line that has most of the message's own words

    def expanded(self, shown: str) -> str:
        """The text with each known placeholder replaced by its paste."""
        return _NAME.sub(lambda found: self._kept.get(found[0], found[0]), shown)

    def within(self, shown: str) -> dict[str, str]:
        """The placeholders in a text, each with its paste."""
        names = (shown[start:end] for start, end in self.spans(shown))
        return {name: self._kept[name] for name in names}

    def spans(self, shown: str) -> list[tuple[int, int]]:
        """The begin and end of each placeholder in a text."""
        if "[paste " not in shown:
            return []
        return [found.span() for found in _NAME.finditer(shown) if found[0] in self._kept]

    def adopted(self, shown: str, pastes: Mapping[str, str], *, ours: bool) -> str:
        """A line of the history; placeholders of another session (not `ours`) are numbered anew.

        `pastes`: those that the history kept; the others become `[a paste of 213 lines, not kept]`.
        """

        def known(found: re.Match[str]) -> str:
            name = found[0]
            if ours and name in self._kept:
                return name
            return self.fold(pastes[name]) if name in pastes else f"[a paste of {found[1]}, not kept]"

        return _NAME.sub(known, shown)


class Line(Buffer):
    """prompt_toolkit's buffer: the keys of emacs and of vi edit and walk by these methods."""

    def __init__(
        self, pastes: Pastes, history: History, completer: Completer, *, complete_while_typing: Condition
    ) -> None:
        self._pastes, self._entries = pastes, history
        self._older: list[Entry] = []  # the entries to walk through, newest first
        self._at = -1  # in these; -1: at the draft
        self._walked = self._draft = ""
        super().__init__(multiline=True, completer=completer, complete_while_typing=complete_while_typing)

    # -- placeholders --------------------------------------------------------------------------------------------------

    def insert_text(
        self, data: str, overwrite: bool = False, move_cursor: bool = True, fire_event: bool = True
    ) -> None:
        """Insert at the cursor, or behind a placeholder around it."""
        position = self.cursor_position
        self.cursor_position = next((e for s, e in self._pastes.spans(self.text) if s < position < e), position)
        super().insert_text(data, overwrite, move_cursor, fire_event)

    def delete_before_cursor(self, count: int = 1) -> str:
        """Delete towards the left; a placeholder goes as a whole."""
        end = self.cursor_position
        deleted = self._delete(max(0, end - count), end)
        if self.completer is not None and self.complete_while_typing():
            get_app().create_background_task(self._async_completer())  # the menu follows the remaining text
        return deleted

    def delete(self, count: int = 1) -> str:
        """Delete towards the right; a placeholder goes as a whole."""
        return self._delete(self.cursor_position, min(len(self.text), self.cursor_position + count))

    def _delete(self, start: int, end: int) -> str:
        if start == end:
            return ""
        text = self.text
        for first, last in self._pastes.spans(text):
            if first < end and start < last:
                start, end = min(start, first), max(end, last)
        self.document = Document(text[:start] + text[end:], start)
        return text[start:end]

    # -- the history ---------------------------------------------------------------------------------------------------

    def history_backward(self, count: int = 1) -> None:
        """Show the next older entry with the text before the cursor at its beginning."""
        if self._at < 0 or self.text != self._walked:
            self._draft, self._at = self.text, -1
            self._older = beginning(self._entries.entries, self.document.text_before_cursor)
        at = min(self._at + count, len(self._older) - 1)
        if at > self._at:
            self._at = at
            self.recall(self._older[at])

    def history_forward(self, count: int = 1) -> None:
        """Go back towards the draft."""
        if self._at < 0 or self.text != self._walked:
            return
        self._at = max(self._at - count, -1)
        if self._at < 0:
            self.document = Document(self._draft, len(self._draft))
        else:
            self.recall(self._older[self._at])

    def recall(self, entry: Entry) -> None:
        """Put an entry into the line, the cursor behind it."""
        self._walked = self._pastes.adopted(entry.text, entry.pastes, ours=entry.ours)
        self.document = Document(self._walked, len(self._walked))


class Cleaned(Processor):
    """Shows a line cleaned: a pasted or recalled one may hold controls."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        text = fragment_list_to_text(fragments)
        if text.isascii() and text.isprintable():
            return Transformation(fragments)
        shown = [one for piece in pieces(text) for one in _shown(piece)]
        starts = [0]
        for piece in shown:
            starts.append(starts[-1] + len(piece))
        if starts[-1] == len(text) and "".join(shown) == text:
            return Transformation(fragments)
        return _mapped(fragments, shown, starts)


def _shown(piece: str) -> Iterator[str]:
    """Yields the text drawn for each character of a cluster: a tone takes columns in some terminals only."""
    flat = clean_flat(piece)
    for char in piece:
        drawn = clean(char)
        yield drawn.replace("\t", "    ") if drawn and drawn in flat else ""


def _mapped(fragments: StyleAndTextTuples, shown: list[str], starts: list[int]) -> Transformation:
    """The fragments with their i-th character shown as `shown[i]`, beginning at `starts[i]`."""
    pieces: StyleAndTextTuples = []
    at = 0
    for style, text, *_ in fragments:
        pieces.append((style, "".join(shown[at : at + len(text)])))
        at += len(text)
    last = len(starts) - 1
    return Transformation(
        pieces,
        source_to_display=lambda i: starts[min(i, last)] + max(0, i - last),
        display_to_source=lambda i: min(last, max(0, bisect_right(starts, i) - 1)),
    )


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
