"""What a conversation shows, asks and takes from the user, whatever the terminal can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from agent.events import Event
    from cli.chat.pager.items import Item
    from cli.terminal.markdown.paint import Painter, Row
    from cli.terminal.pictures import Pictures
    from cli.terminal.question import Question

Think = Literal["off", "on", "peek"]
"""How thinking is shown: a line that it goes on, all of it, its last rows."""


class Face(Protocol):
    """A terminal with a screen (`cli.chat.app`), or one that only prints lines (`cli.chat.plain`).

    All of it is called on the loop's thread; `wake` from any.
    """

    @property
    def plain(self) -> bool:
        """Can it only print lines? Then there are no keys, no other screen and no clipboard."""
        ...

    @property
    def painter(self) -> Painter:
        """Rows are made by it; it knows the width."""
        ...

    @property
    def pictures(self) -> Pictures: ...

    @property
    def rows(self) -> int:
        """How many fit on the screen."""
        ...

    # -- what is shown -------------------------------------------------------------------------------------------------

    def note(self, text: str, style: str = "dim") -> None:
        """A line of ours above the input."""
        ...

    def show(self, rows: list[Row]) -> None:
        """Rows of ours above the input, as one block."""
        ...

    def said(self, shown: str) -> None:
        """A line of the user's."""
        ...

    def recall(self, items: Iterable[Item]) -> None:
        """Show things of the past again, as they stood there."""
        ...

    def show_pictures(self, paths: Sequence[Path]) -> None:
        """Below what was shown last, as soon as they are drawn, where the terminal can."""
        ...

    def read(self, *parts: tuple[str, str]) -> None:
        """Long texts, each under its name: on a screen of their own, or printed. Raw outside text."""
        ...

    def begin(self) -> None:
        """A turn begins."""
        ...

    def see(self, event: Event) -> None:
        """Something happened in it."""
        ...

    def end(self) -> None:
        """It is over before it said anything."""
        ...

    def bell(self, min_s: float) -> None:
        """Ring, if the turn took that long; 0: never."""
        ...

    @property
    def thinking(self) -> Think:
        """How it is shown."""
        ...

    def set_thinking(self, how: Think) -> None: ...

    def wake(self) -> None:
        """Something changed that is drawn: a frame comes soon."""
        ...

    # -- what is asked -------------------------------------------------------------------------------------------------

    @property
    def asks(self) -> bool:
        """Is a question out?"""
        ...

    def ask(self, question: Question, answered: Callable[[str], None]) -> None:
        """Ask; an earlier question is gone without an answer. `answered` gets the key."""
        ...

    def withdraw(self) -> None:
        """Nothing is asked any more."""
        ...

    # -- the input -----------------------------------------------------------------------------------------------------

    @property
    def input_text(self) -> str:
        """What stands in it, with placeholders; "" where there is none."""
        ...

    def put_into_input(self, text: str, *, replaces: int | None = None) -> None:
        """In place of what stands there. `replaces`: the turn whose place it takes once sent, None: as before."""
        ...

    def forget_replaced(self) -> None:
        """Turns were cut: what stands in the input takes the place of none."""
        ...

    def keep_history(self, kept: bool) -> None:
        """Are lines that are sent from now on kept in the history's file?"""
        ...

    def edit(self, text: str, then: Callable[[str | None], object], *, suffix: str = ".md") -> None:
        """Let the user change a text in their own editor. `then` gets it, or None: it stays as it was."""
        ...

    def copy(self, text: str) -> bool:
        """Give it to the terminal's clipboard. False: this one has none."""
        ...

    # -- the life of it ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show it until `leave`, or until the terminal is gone."""
        ...

    @property
    def interrupted(self) -> bool:
        """Did a signal end it, or the terminal's end?"""
        ...

    def leave(self) -> None:
        """End `run`."""
        ...
