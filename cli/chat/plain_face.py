"""A chat on a terminal that can only print lines (`TERM=dumb`): the same conversation, its commands and sessions."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, ClassVar

from ossia.cli.chat.commands.common import Block
from ossia.cli.chat.drawn import DrawnFace
from ossia.cli.chat.panes import ChatPanes
from ossia.cli.terminal.markdown.paint import Painter
from ossia.cli.terminal.pictures import Pictures
from ossia.cli.terminal.plain_screen import PlainScreen
from ossia.cli.terminal.vt import terminal_size

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat


class PlainFace(DrawnFace):
    """Thinking is shown once it is over, and only with `--think on`."""

    plain: ClassVar[bool] = True
    screen: PlainScreen
    input_text: ClassVar[str] = ""

    def __init__(self, talk: Chat) -> None:
        painter = Painter(terminal_size().columns, colour=False)
        super().__init__(talk, painter, Pictures("off"))
        self.view.keys = False
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

    def put_input_aside(self) -> None: ...

    def keep_history(self, kept: bool) -> None: ...

    def copy(self, text: str) -> None: ...
