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
"""How thinking is shown: "off", one line says that it goes on; "on", all of it; "peek", its last rows."""


class Face(Protocol):
    """A terminal with a screen (`cli.chat.screen_face`), or one that only prints lines (`cli.chat.plain_face`).

    Everything is called on the loop's thread, `wake` from any.
    """

    @property
    def plain(self) -> bool:
        """Can it only print lines? Then there are no keys, no other screen and no clipboard."""
        ...

    @property
    def painter(self) -> Painter:
        """It makes the rows, and knows the width."""
        ...

    @property
    def pictures(self) -> Pictures: ...

    @property
    def rows(self) -> int:
        """How many rows fit on the screen."""
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
        """Show things of the past again, as they were shown then."""
        ...

    def show_pictures(self, paths: Sequence[Path]) -> None:
        """Show them below what was shown last, as soon as they are drawn, if the terminal can."""
        ...

    def read(self, *parts: tuple[str, str]) -> None:
        """Show long texts, each under its name: on a screen of their own, or printed. Raw outside text."""
        ...

    def begin(self) -> None:
        """A turn begins."""
        ...

    def see(self, event: Event) -> None:
        """Something happened in the turn."""
        ...

    def end(self) -> None:
        """The turn is over before it said anything."""
        ...

    def bell(self, min_s: float) -> None:
        """Ring, if the turn took at least `min_s`; 0: never."""
        ...

    @property
    def thinking(self) -> Think:
        """How the thinking is shown."""
        ...

    def set_thinking(self, how: Think) -> None: ...

    def wake(self) -> None:
        """Something that is drawn has changed: a frame comes soon."""
        ...

    # -- what is asked -------------------------------------------------------------------------------------------------

    @property
    def asks(self) -> bool:
        """Is a question waiting for its answer?"""
        ...

    def ask(self, question: Question, answered: Callable[[str], None]) -> None:
        """Ask; an earlier question stays without an answer. `answered` gets the key that was pressed."""
        ...

    def withdraw(self) -> None:
        """Nothing is asked any more."""
        ...

    # -- the input -----------------------------------------------------------------------------------------------------

    @property
    def input_text(self) -> str:
        """What stands in the input, with placeholders; "" on a terminal without one."""
        ...

    def put_into_input(self, text: str, *, replaces: int | None = None) -> None:
        """Put a text in place of what is there. `replaces`: the turn that it replaces once sent, None: as before."""
        ...

    def forget_replaced(self) -> None:
        """Turns were cut: what stands in the input replaces no turn any more."""
        ...

    def keep_history(self, kept: bool) -> None:
        """Keep lines that are sent from now on in the history's file, or don't."""
        ...

    def edit(self, text: str, then: Callable[[str | None], object], *, suffix: str = ".md") -> None:
        """Let the user change a text in their own editor. `then` gets the changed text; None: it stays as it was."""
        ...

    def copy(self, text: str) -> bool:
        """Give a text to the terminal's clipboard. False: this terminal has none."""
        ...

    # -- the life of it ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the chat until `leave`, or until the terminal is gone."""
        ...

    @property
    def interrupted(self) -> bool:
        """Did a signal end it, or the loss of the terminal?"""
        ...

    def leave(self) -> None:
        """End `run`."""
        ...
