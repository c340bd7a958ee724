"""A question above the input line: may this call run? Never answered by a key that was typed ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from cli.terminal.paint import Painter, Row

QUIET_S = 0.5
"""It listens once it was on screen, and no key came, for this long."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: rows to read, and the keys that answer, each with its word: `(("y", "yes"), ("n", "no"))`."""

    rows: tuple[Row, ...]
    keys: tuple[tuple[str, str], ...]


class QuestionPane:
    """Shows one question at a time. `answered` gets the key that was pressed."""

    def __init__(self, painter: Painter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._painter, self._clock = painter, clock
        self._question: Question | None = None
        self._answered: Callable[[str], None] = lambda key: None
        self._asked_at = self._key_at = self._last_key_at = 0.0
        self.keys = self._bindings("y", "n", "s", "a", "e", "?")
        asked = Condition(lambda: self._question is not None)
        control = FormattedTextControl(self._fragments)
        self.container = ConditionalContainer(Window(control, dont_extend_height=True), asked)

    @property
    def open(self) -> bool:
        """Is a question on screen?"""
        return self._question is not None

    def ask(self, question: Question, answered: Callable[[str], None]) -> None:
        """Show a question; an earlier one is gone without an answer."""
        self._question, self._answered, self._asked_at = question, answered, self._clock()

    def withdraw(self) -> None:
        """Take the question off the screen, unanswered."""
        self._question = None

    def height(self) -> int:
        """How many rows it takes."""
        return len(self._question.rows) + 1 if self._question else 0

    def saw_key(self) -> None:
        """A key was pressed, whichever: the wait begins anew."""
        self._last_key_at, self._key_at = self._key_at, self._clock()

    def _fragments(self) -> StyleAndTextTuples:
        assert self._question is not None
        choices = "  ".join(f"[{key}] {word}" for key, word in self._question.keys)
        return list(self._painter.fragments([*self._question.rows, *self._painter.text(choices, "bold")]))

    def _bindings(self, *names: str) -> KeyBindings:
        keys = KeyBindings()
        armed = Condition(
            lambda: self._question is not None
            and self._clock() - max(self._asked_at, self._last_key_at) > QUIET_S
        )
        for name in names:
            offered = Condition(lambda name=name: any(key == name for key, _ in self._keys_of()))  # type: ignore[misc]

            @keys.add(name, filter=armed & offered, eager=True)
            def _(event: KeyPressEvent, name: str = name) -> None:
                answered, self._question = self._answered, None
                answered(name)

        return keys

    def _keys_of(self) -> Sequence[tuple[str, str]]:
        return self._question.keys if self._question else ()
