"""The input line: what is typed, pasted and taken back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension

_MAX_ROWS = 8
_PASTE_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Typed:
    """A line as it was sent: `shown` with placeholders for what was pasted, `text` whole."""

    shown: str
    text: str


class Editor:
    """The input line. `submit` gets what was sent; it is cleared then."""

    def __init__(self, submit: Callable[[Typed], None]) -> None:
        self._submit = submit
        self._pastes: dict[str, str] = {}
        self.buffer = Buffer(multiline=True)
        self.window = Window(
            BufferControl(self.buffer),
            height=Dimension(min=1, max=_MAX_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda number, wrap: "› " if number == 0 and not wrap else "  ",
        )
        self.container = self.window
        self.keys = self._keys()

    @property
    def text(self) -> str:
        return self.buffer.text

    def set(self, text: str) -> None:
        """Put `text` into the line, the cursor behind it."""
        self.buffer.text = text
        self.buffer.cursor_position = len(text)

    def clear(self) -> None:
        """Empty the line."""
        self.buffer.reset()

    def height(self, rows: int) -> int:
        """How many rows of the screen the line and its menu take."""
        return min(_MAX_ROWS, self.buffer.document.line_count)

    def expanded(self, shown: str) -> str:
        """The text with its placeholders replaced by what was pasted."""
        return re.sub(r"\[paste \d+: [\d,]+ characters\]", lambda found: self._pastes.get(found[0], found[0]), shown)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            shown = self.buffer.text.strip()
            if shown:
                self.buffer.reset(append_to_history=True)
                self._submit(Typed(shown, self.expanded(shown)))

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(text) > _PASTE_CHARS:  # 1 MB in the buffer would make every frame dear
                name = f"[paste {len(self._pastes) + 1}: {len(text):,} characters]"
                self._pastes[name] = text
                text = name
            self.buffer.insert_text(text)

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            self.buffer.insert_text("\n")

        return keys

    @property
    def empty(self) -> Condition:
        """True while nothing is typed."""
        return Condition(lambda: not self.buffer.text)
