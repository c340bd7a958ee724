"""The faces of a chat: their common half, and the one without a screen."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ossia.agent.control import Control
from ossia.cli.chat.commands.common import Block
from ossia.cli.chat.face import Face
from ossia.cli.chat.panes import ChatPanes
from ossia.cli.chat.view import ChatView, Think
from ossia.cli.terminal.input.external import EditorFailed, edit
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.pictures import Pictures
from ossia.cli.terminal.plain_screen import PlainScreen
from ossia.cli.terminal.vt import terminal_size

if TYPE_CHECKING:
    from ossia.cli.attach.user_command import Ran
    from ossia.cli.chat.chat import Chat

_TWICE_S = 1.5
"""A second Ctrl-C within this time leaves, if the first had nothing to do, and nothing was typed or sent since."""
_SENT = "sent to the model (commands begin with /)"
_HABITS = {
    **dict.fromkeys(("exit", "quit", "bye", ":q"), f"{_SENT}: /quit or Ctrl-D leaves"),
    **dict.fromkeys(("help", "?"), f"{_SENT}: /help lists the commands"),
}
"""Commands of other programs, with the note on such a line."""


class DrawnFace(Face):
    """A face without the terminal's half, which subclasses add."""

    def __init__(
        self, talk: Chat, painter: Painter, pictures: Pictures, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        settings = talk.settings
        think: Think = "on" if settings.show_thinking and settings.think == "off" else settings.think
        super().__init__(ChatView(painter, think=think, page=talk.page, clock=clock), painter, pictures)
        self.view.calls.fix = talk.model.fix
        self.talk, self._clock = talk, clock
        self._ctrl_c_at = float("-inf")

    @abstractmethod
    def task(self, work: Coroutine[object, object, None]) -> None:
        """Run it on the loop's thread; its error ends the chat."""

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

    # -- the user's lines and Ctrl-C -----------------------------------------------------------------------------------

    def submit(self, typed: Typed) -> None:
        """A line was sent: `/…` acts at once, `!…` runs in the user's shell, anything else is for the model."""
        self._ctrl_c_at = float("-inf")
        replaces, self._replaces = self._replaces, None
        plain = not typed.literal
        if plain and typed.shown.startswith("//"):  # a text that begins with a slash
            typed = replace(typed, shown=typed.shown[1:], text=typed.text[1:])
        elif plain and typed.shown.startswith("/"):
            from ossia.cli.chat.commands.skills import call
            from ossia.cli.chat.commands.table import run_command

            called = call(self.talk, typed)
            if called is None:
                return run_command(self.talk, self, typed.text, shown=typed.shown)
            typed = called
        elif plain and typed.shown.startswith("!"):
            return self._run(typed.text[1:].strip())
        elif plain and (habit := _HABITS.get(typed.shown.lower())):
            self.note(habit)
        self.talk.outbox.send(typed, replaces=replaces)
        if self.talk.model.absent:
            self.note("no model is loaded: /model NAME loads one, which then answers", "yellow")
        return None

    def _run(self, command: str) -> None:
        """Run a command of the user's; its output is shown, and attached to their next message."""
        background, attaching = self.talk.background, self.talk.outbox.attaching
        if background.job:
            self.restore(f"!{command}")
            return self.note(f"`{attaching.running or 'something'}` is still running: Ctrl-C ends it", "yellow")
        if not command:
            return self.note("! needs a command, as in !git status", "yellow")
        control = Control()
        self.view.user(f"!{command}")

        def done(ran: Ran) -> None:
            self.show(self.painter.text(ran.output.strip("\n") or "(no output)"))
            self.note(f"{attaching.keep(ran).shown} · will be sent with your next message, Ctrl-C drops it")

        def failed(error: Exception) -> None:
            self.restore(f"!{command}")
            self.talk.report(error)

        return background.run(lambda: attaching.run(command, control), done, failed, stop=control.stop)

    def interrupt(self) -> None:
        """Ctrl-C: stop the turn, or else clear the input, or drop the attachments; twice with nothing to do: leave.

        During a question the input comes first: it takes the keys that would answer.
        """
        twice, self._ctrl_c_at = self._clock() - self._ctrl_c_at < _TWICE_S, float("-inf")
        if twice and not self.input_text:
            return self.talk.leave()
        if not (self.asks and self.input_text) and self.talk.interrupt():
            return None
        if self.input_text:
            in_history = self.input_text.strip() and not self.talk.outbox  # else Up takes those lines back
            self.clear_input()
            return self.note("Up brings back what you typed") if in_history else None
        if self.talk.outbox.attaching.drop():
            return self.note("attachments dropped")
        self._ctrl_c_at = self._clock()
        return self.note("press Ctrl-C again to leave")


class PlainFace(DrawnFace):
    """The face of a terminal without a screen (`TERM=dumb`). `--think on` shows thinking at its end."""

    plain: ClassVar[bool] = True
    screen: PlainScreen
    input_text: ClassVar[str] = ""

    def __init__(self, talk: Chat) -> None:
        painter = Painter(terminal_size().columns, colour=False)
        super().__init__(talk, painter, Pictures("off"))
        self.view.calls.keys = False
        self.screen = PlainScreen(ChatPanes(talk, self), painter, submit=self.submit, interrupt=self.interrupt)

    @property
    def rows(self) -> int:
        return terminal_size().rows

    def task(self, work: Coroutine[object, object, None]) -> None:
        self.screen.create_background_task(work)

    def read(self, *parts: tuple[str, str]) -> None:
        block = Block(self)
        for name, text in parts:
            block.row(name, "bold")
            block.text(text)
        block.show()

    # -- the input: the terminal's own ---------------------------------------------------------------------------------

    def put_into_input(self, text: str, *, replaces: int | None = None) -> None:
        if replaces is not None:
            self._replaces = replaces
            self.note(f"your next line replaces turn {replaces + 1}: {text.strip()}")

    def clear_input(self) -> None: ...

    def store_history(self, stored: bool) -> None: ...

    def copy(self, text: str) -> None: ...
