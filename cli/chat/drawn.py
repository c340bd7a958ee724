"""What both faces of a chat share: rows that are drawn from events, jobs with pictures, Ctrl-C."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cli.chat.lines import take_line
from cli.chat.view import ChatView
from cli.terminal.input.external import EditorFailed, edit
from cli.terminal.input.typed import Typed
from cli.terminal.markdown.paint import Painter, Row
from cli.terminal.pictures import Pictures

if TYPE_CHECKING:
    from agent.events import Event
    from cli.chat.conversation import Conversation
    from cli.chat.face import Think
    from cli.chat.pager.items import Item

AGAIN_S = 1.5
"""A second Ctrl-C within this time leaves."""


class DrawnFace(ABC):
    """A `cli.chat.face.Face` without the terminal's half, which subclasses add."""

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

    plain: ClassVar[bool]

    @property
    @abstractmethod
    def rows(self) -> int: ...

    @property
    @abstractmethod
    def input_text(self) -> str: ...

    @abstractmethod
    def clear_input(self) -> None: ...

    @property
    @abstractmethod
    def asks(self) -> bool: ...

    @abstractmethod
    def ring(self) -> None: ...

    @abstractmethod
    def aside(self) -> AbstractAsyncContextManager[None]:
        """Inside the block the terminal belongs to another program."""

    @abstractmethod
    def task(self, work: Coroutine[object, object, None]) -> None:
        """Run it on the loop's thread; what it raises ends the chat."""

    @abstractmethod
    def wake(self) -> None: ...

    @property
    def replaces(self) -> int | None:
        """The turn that the text in the input replaces once it is sent."""
        return self._replaces

    def forget_replaced(self) -> None:
        self._replaces = None

    # -- what is shown -------------------------------------------------------------------------------------------------

    def note(self, text: str, style: str = "dim") -> None:
        self.view.note(text, style)
        self.wake()

    def show(self, rows: list[Row]) -> None:
        self.view.block(rows)
        self.wake()

    def said(self, shown: str) -> None:
        self.view.user(shown)

    def recall(self, items: Iterable[Item]) -> None:
        self.view.recall(items)

    def begin(self) -> None:
        self.view.begin()

    def see(self, event: Event) -> None:
        self.view.see(event)

    def end(self) -> None:
        self.view.end()

    def bell(self, min_s: float) -> None:
        if 0 < min_s <= self.view.turn_s:
            self.ring()

    @property
    def thinking(self) -> Think:
        return self.view.think

    def set_thinking(self, how: Think) -> None:
        self.view.think = how

    def show_pictures(self, paths: Sequence[Path]) -> None:
        if not paths or self.pictures.way == "off":
            return
        columns, rows = self.painter.width, self.rows // 2

        def draw() -> list[Row]:
            drawn = (self.pictures.drawn(path, columns, rows) for path in paths)
            return [picture for picture in drawn if picture]

        self.talk.background.run(draw, lambda rows: self.show(rows) if rows else None)

    def edit(self, text: str, then: Callable[[str | None], object], *, suffix: str = ".md") -> None:
        async def work() -> None:
            try:
                edited = await edit(text, aside=self.aside, environ=self.talk.environ, suffix=suffix)
            except EditorFailed as failure:
                self.note(str(failure), "yellow")
                edited = None
            then(edited)

        self.task(work())

    # -- what the user does --------------------------------------------------------------------------------------------

    def submit(self, typed: Typed) -> None:
        """A line was sent."""
        replaces, self._replaces = self._replaces, None
        take_line(self.talk, self.talk.face, typed, replaces=replaces)

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
