"""The face of a chat on any terminal: output, questions, and the input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ossia.cli.chat.view import ChatView, Think
    from ossia.cli.terminal.markdown.paint import Painter, Row
    from ossia.cli.terminal.pictures import Pictures
    from ossia.cli.terminal.plain_screen import PlainScreen
    from ossia.cli.terminal.question import Question
    from ossia.cli.terminal.screen import Screen


class Face(ABC):
    """A terminal with a screen (`cli.chat.screen_face`), or one that only prints lines (`cli.chat.faces`).

    `view` draws the conversation, `painter` makes the rows and knows the width. Everything is called on the loop's
    thread, `wake` from any.
    """

    plain: ClassVar[bool]
    """It can only print lines: without keys, other screens and a clipboard."""
    screen: Screen | PlainScreen

    def __init__(self, view: ChatView, painter: Painter, pictures: Pictures) -> None:
        self.view, self.painter, self.pictures = view, painter, pictures
        self._replaces: int | None = None

    def begin(self) -> None:  # noqa: B027
        """Find out the terminal's abilities, before any output."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The rows of the screen."""

    def wake(self) -> None:
        """Draw a frame soon."""
        self.screen.wake()

    # -- output --------------------------------------------------------------------------------------------------------

    def note(self, text: str, style: str = "dim") -> None:
        """Show a line above the input."""
        self.view.note(text, style)
        self.wake()

    def show(self, rows: list[Row]) -> None:
        """Show rows above the input, as one block."""
        self.view.block(rows)
        self.wake()

    @abstractmethod
    def show_pictures(self, paths: Sequence[Path]) -> None:
        """Show pictures as soon as they are drawn, if the terminal can."""

    @abstractmethod
    def read(self, *parts: tuple[str, str]) -> None:
        """Show long texts, each under its name: on a screen of their own, or printed. Raw outside text."""

    def bell(self, min_s: float) -> None:
        """Ring and notify, if the turn took at least `min_s`; 0: never."""
        if 0 < min_s <= self.view.turn_s:
            self.screen.bell()
            self.notify("finished")

    def notify(self, what: str) -> None:  # noqa: B027
        """Notify the user, if they look elsewhere and the terminal can."""

    def set_thinking(self, think: Think) -> None:
        """Show the thinking this way from now on."""
        self.view.think = think
        self.screen.commit([])

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def asks(self) -> bool:
        """True while a question waits for its answer."""
        return self.screen.question.open

    def ask(self, question: Question, answered: Callable[[str, str], object]) -> None:
        """Ask; an open question is replaced, unanswered. `answered` gets the pressed key, and the reason of a no."""
        self.screen.question.ask(question, answered)
        self.notify("waits for your answer")

    def withdraw(self) -> None:
        """Drop the question."""
        self.screen.question.withdraw()

    # -- the input -----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def input_text(self) -> str:
        """The text in the input, with placeholders; "" on a terminal without one."""

    @abstractmethod
    def put_into_input(self, text: str, *, replaces: int | None = None) -> None:
        """Set the input's text. `replaces`: the turn that it replaces once sent, None: as before."""

    @abstractmethod
    def clear_input(self) -> None:
        """Move the text in the input to the history."""

    def restore(self, shown: str) -> bool:
        """Put a sent line into the input again; False: it isn't empty, and the history has the line."""
        empty = not self.input_text and not self.plain
        if empty:
            self.put_into_input(shown)
        return empty

    @property
    def replaces(self) -> int | None:
        """The turn to replace with the text in the input."""
        return self._replaces

    def replace_none(self) -> None:
        """Turns were cut: the text in the input replaces none any more."""
        self._replaces = None

    @abstractmethod
    def store_history(self, stored: bool) -> None:
        """Store lines from now on in the history's file, or don't."""

    @abstractmethod
    def edit(self, text: str, then: Callable[[str | None], object], *, suffix: str = ".md") -> None:
        """Open a text in the user's editor. `then` gets the changed text; None: it is unchanged."""

    @abstractmethod
    def copy(self, text: str) -> None:
        """Copy a text to the terminal's clipboard, if it has one."""
