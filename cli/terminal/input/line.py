"""The text of the input line, in which a placeholder is one piece, and the walk through the history."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from ossia.cli.clean import clean
from ossia.cli.emoji import clean_flat, pieces
from ossia.cli.terminal.input.history import Entry, History, Walk
from ossia.cli.terminal.input.pastes import Pastes


class Line(Buffer):
    """prompt_toolkit's buffer; every key that edits or walks goes through these methods, emacs' and vi's alike."""

    def __init__(
        self, pastes: Pastes, history: History, completer: Completer, *, complete_while_typing: Condition
    ) -> None:
        self._pastes, self._entries = pastes, history
        self._walk: Walk | None = None
        self._walked = self._draft = ""
        super().__init__(multiline=True, completer=completer, complete_while_typing=complete_while_typing)

    # -- placeholders --------------------------------------------------------------------------------------------------

    def insert_text(
        self, data: str, overwrite: bool = False, move_cursor: bool = True, fire_event: bool = True
    ) -> None:
        """Insert at the cursor, or behind the placeholder that it stands in."""
        position = self.cursor_position
        self.cursor_position = next((e for s, e in self._pastes.spans(self.text) if s < position < e), position)
        super().insert_text(data, overwrite, move_cursor, fire_event)

    def delete_before_cursor(self, count: int = 1) -> str:
        """Delete towards the left; a placeholder goes as a whole."""
        end = self.cursor_position
        deleted = self._delete(max(0, end - count), end)
        if self.completer is not None and self.complete_while_typing():
            get_app().create_background_task(self._async_completer())  # the menu follows what is left
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
        """Show the next older entry that begins with the text before the cursor."""
        if self._walk is None or not self._walk.begun or self.text != self._walked:
            self._draft = self._walked = self.text
            self._walk = Walk(self._entries.entries, self.document.text_before_cursor)
        for _ in range(count):
            entry = self._walk.back()
            if entry is not None:
                self.recall(entry)

    def history_forward(self, count: int = 1) -> None:
        """Go back towards what was typed."""
        for _ in range(count):
            if self._walk is None or self.text != self._walked:
                return
            entry = self._walk.forth()
            if entry is None:
                self.document = Document(self._draft, len(self._draft))
                self._walk = None
            else:
                self.recall(entry)

    def recall(self, entry: Entry) -> None:
        """Put an entry into the line, the cursor behind it."""
        self._walked = self._pastes.adopted(entry.text, entry.pastes, ours=entry.ours)
        self.document = Document(self._walked, len(self._walked))


class Cleaned(Processor):
    """Shows a line cleaned: what was pasted or recalled may hold characters that a terminal would obey."""

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
    """What is drawn for each character of a cluster: a tone has columns of its own in some terminals only."""
    flat = clean_flat(piece)
    for char in piece:
        drawn = clean(char)
        yield drawn.replace("\t", "    ") if drawn and drawn in flat else ""


def _mapped(fragments: StyleAndTextTuples, shown: list[str], starts: list[int]) -> Transformation:
    """The fragments with `shown[i]` in place of their i-th character; `starts[i]` is where it begins."""
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
