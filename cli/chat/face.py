"""What a conversation shows, asks and takes from the user, whatever the terminal can do."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cli.chat.lines import take_line
from cli.chat.view import ChatView
from cli.terminal.input.external import EditorFailed, edit
from cli.terminal.input.typed import Typed
from cli.terminal.markdown.paint import Painter, Row
from cli.terminal.pictures import Pictures

if TYPE_CHECKING:
    from cli.chat.conversation import Conversation
    from cli.chat.view import Think
    from cli.terminal.plain_screen import PlainScreen
    from cli.terminal.question import Question
    from cli.terminal.screen import Screen

AGAIN_S = 1.5
"""A second Ctrl-C within this time leaves."""


class Face(ABC):
    """A terminal with a screen (`cli.chat.screen_face`), or one that only prints lines (`cli.chat.plain_face`).

    `view` draws what is said, `painter` makes the rows and knows the width. Everything is called on the loop's thread,
    `wake` from any.
    """

    plain: ClassVar[bool]
    """Can it only print lines? Then there are no keys, no other screen and no clipboard."""
    screen: Screen | PlainScreen

    def __init__(
        self, talk: Conversation, painter: Painter, pictures: Pictures, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.talk, self.painter, self.pictures = talk, painter, pictures
        settings = talk.settings
        think: Think = "on" if settings.show_thinking and settings.think == "off" else settings.think
        self.view = ChatView(painter, think=think, page=talk.page, clock=clock)
        self.view.fix = talk.model.fix
        self._clock = clock
        self._replaces: int | None = None
        self._ctrl_c_at = float("-inf")

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows fit on the screen."""

    def wake(self) -> None:
        """Something that is drawn has changed: a frame comes soon."""
        self.screen.wake()

    def leave(self) -> None:
        """Give the terminal back: the chat is over."""
        self.screen.leave()

    @abstractmethod
    def task(self, work: Coroutine[object, object, None]) -> None:
        """Run it on the loop's thread; what it raises ends the chat."""

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
    def read(self, *parts: tuple[str, str]) -> None:
        """Show long texts, each under its name: on a screen of their own, or printed. Raw outside text."""

    def show_pictures(self, paths: Sequence[Path]) -> None:
        """Show them below what was shown last, as soon as they are drawn, if the terminal can."""
        if not paths or self.pictures.way == "off":
            return
        columns, rows = self.painter.width, self.rows // 2

        def draw() -> list[Row]:
            drawn = (self.pictures.drawn(path, columns, rows) for path in paths)
            return [picture for picture in drawn if picture]

        self.talk.background.run(draw, lambda rows: self.show(rows) if rows else None)

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
    def clear_input(self) -> None: ...

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

    def edit(self, text: str, then: Callable[[str | None], object], *, suffix: str = ".md") -> None:
        """Let the user change a text in their own editor. `then` gets the changed text; None: it stays as it was."""

        async def work() -> None:
            try:
                edited = await edit(text, aside=self.screen.aside, environ=self.talk.environ, suffix=suffix)
            except EditorFailed as failure:
                self.note(str(failure), "yellow")
                edited = None
            then(edited)

        self.task(work())

    @abstractmethod
    def copy(self, text: str) -> None:
        """Give a text to the terminal's clipboard, if it has one."""

    # -- what the user does --------------------------------------------------------------------------------------------

    def submit(self, typed: Typed) -> None:
        """A line was sent."""
        replaces, self._replaces = self._replaces, None
        take_line(self.talk, self, typed, replaces=replaces)

    def interrupt(self) -> None:
        """Ctrl-C: stop the turn, or clear the input, or drop what is attached; twice leaves."""
        again, self._ctrl_c_at = self._clock() - self._ctrl_c_at < AGAIN_S, self._clock()
        if again:
            return self.talk.leave()
        if self.talk.interrupt():
            return None
        if self.input_text:
            return self.clear_input()
        if self.talk.attaching.drop():
            return self.note("nothing is attached any more")
        return self.note("Ctrl-C again leaves")
