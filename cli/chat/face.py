"""What a conversation shows, asks and takes from the user, whatever the terminal can do."""

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
    """A terminal with a screen (`cli.chat.screen_face`), or one that only prints lines (`cli.chat.plain_face`).

    `view` draws what is said, `painter` makes the rows and knows the width. Everything is called on the loop's thread,
    `wake` from any.
    """

    plain: ClassVar[bool]
    """Can it only print lines? Then there are no keys, no other screen and no clipboard."""
    screen: Screen | PlainScreen

    def __init__(self, view: ChatView, painter: Painter, pictures: Pictures) -> None:
        self.view, self.painter, self.pictures = view, painter, pictures
        self._replaces: int | None = None

    def begin(self) -> None:  # noqa: B027
        """Before anything is shown: find out what the terminal can do."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows fit on the screen."""

    def wake(self) -> None:
        """Something that is drawn has changed: a frame comes soon."""
        self.screen.wake()

    # -- what is shown -------------------------------------------------------------------------------------------------

    def note(self, text: str, style: str = "dim") -> None:
        """A line of ours above the input."""
        self.view.note(text, style)
        self.wake()

    def show(self, rows: list[Row]) -> None:
        """Rows of ours above the input, as one block."""
        self.view.block(rows)
        self.wake()

    @abstractmethod
    def show_pictures(self, paths: Sequence[Path]) -> None:
        """Show them below what was shown last, as soon as they are drawn, if the terminal can."""

    @abstractmethod
    def read(self, *parts: tuple[str, str]) -> None:
        """Show long texts, each under its name: on a screen of their own, or printed. Raw outside text."""

    def bell(self, min_s: float) -> None:
        """Ring, if the turn took at least `min_s`; 0: never."""
        if 0 < min_s <= self.view.turn_s:
            self.screen.bell()

    def set_thinking(self, how: Think) -> None:
        """How the thinking is shown from now on."""
        self.view.think = how
        self.screen.commit([])

    # -- what is asked -------------------------------------------------------------------------------------------------

    @property
    def asks(self) -> bool:
        """Is a question waiting for its answer?"""
        return self.screen.question.open

    def ask(self, question: Question, answered: Callable[[str], None]) -> None:
        """Ask; an earlier question stays without an answer. `answered` gets the key that was pressed."""
        self.screen.question.ask(question, answered)

    def withdraw(self) -> None:
        """Nothing is asked any more."""
        self.screen.question.withdraw()

    # -- the input -----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def input_text(self) -> str:
        """What stands in the input, with placeholders; "" on a terminal without one."""

    @abstractmethod
    def put_into_input(self, text: str, *, replaces: int | None = None) -> None:
        """Put a text in place of what is there. `replaces`: the turn that it replaces once sent, None: as before."""

    @abstractmethod
    def put_input_aside(self) -> None:
        """Empty the input; what stood in it is in the history."""

    @property
    def replaces(self) -> int | None:
        """The turn that the text in the input replaces once it is sent."""
        return self._replaces

    def forget_replaced(self) -> None:
        """Turns were cut: what stands in the input replaces no turn any more."""
        self._replaces = None

    @abstractmethod
    def keep_history(self, kept: bool) -> None:
        """Keep lines that are sent from now on in the history's file, or don't."""

    @abstractmethod
    def edit(self, text: str, then: Callable[[str | None], object], *, suffix: str = ".md") -> None:
        """Let the user change a text in their own editor. `then` gets the changed text; None: it stays as it was."""

    @abstractmethod
    def copy(self, text: str) -> None:
        """Give a text to the terminal's clipboard, if it has one."""
