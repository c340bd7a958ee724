"""What both faces of a chat do with their conversation: lines, jobs with pictures, Ctrl-C."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli.chat.face import Face
from ossia.cli.chat.lines import take_line
from ossia.cli.chat.view import ChatView
from ossia.cli.terminal.input.external import EditorFailed, edit
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.pictures import Pictures

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.view import Think

AGAIN_S = 1.5
"""A second Ctrl-C within this time leaves, if the first had nothing to do, and nothing was typed or sent since."""


class DrawnFace(Face):
    """A face without the terminal's half, which subclasses add."""

    def __init__(
        self, talk: Chat, painter: Painter, pictures: Pictures, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        settings = talk.settings
        think: Think = "on" if settings.show_thinking and settings.think == "off" else settings.think
        super().__init__(ChatView(painter, think=think, page=talk.page, clock=clock), painter, pictures)
        self.view.fix = talk.model.fix
        self.talk, self._clock = talk, clock
        self._ctrl_c_at = float("-inf")

    @abstractmethod
    def task(self, work: Coroutine[object, object, None]) -> None:
        """Run it on the loop's thread; what it raises ends the chat."""

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
                edited = await edit(text, aside=self.screen.aside, environ=self.talk.environ, suffix=suffix)
            except EditorFailed as failure:
                self.note(str(failure), "yellow")
                edited = None
            then(edited)

        self.task(work())

    # -- what the user does --------------------------------------------------------------------------------------------

    def submit(self, typed: Typed) -> None:
        """A line was sent."""
        self._ctrl_c_at = float("-inf")
        replaces, self._replaces = self._replaces, None
        take_line(self.talk, self, typed, replaces=replaces)

    def interrupt(self) -> None:
        """Ctrl-C: stop the turn, or put aside what was typed, or drop what is attached.

        While a question waits, what was typed comes first: it takes the keys that would answer. The second of two that
        had nothing to do leaves.
        """
        again, self._ctrl_c_at = self._clock() - self._ctrl_c_at < AGAIN_S, float("-inf")
        if again and not self.input_text:
            return self.talk.leave()
        if not (self.asks and self.input_text) and self.talk.interrupt():
            return None
        if self.input_text:
            waits = self.talk.queue or self.talk.steering  # Up would take that back
            back = self.input_text.strip() and not waits
            self.put_input_aside()
            return self.note("Up brings back what you typed") if back else None
        if self.talk.attaching.drop():
            return self.note("attachments dropped")
        self._ctrl_c_at = self._clock()
        return self.note("press Ctrl-C again to leave")
