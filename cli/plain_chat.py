"""`ossia` on a terminal that can only print lines (`TERM=dumb`): the same chat, its commands and sessions."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

from prompt_toolkit.input import DummyInput

from cli.chat import Chat, hold
from cli.keeping import Kept, Wanted, open_kept
from cli.settings.config import Resolved
from cli.settings.workspace import Folder, settle
from cli.terminal.plain_screen import PlainScreen
from cli.terminal.vt import Output, terminal_size


def plain_chat(flags: Mapping[str, object], wanted: Wanted) -> int:
    """Talk line by line until the user leaves (Ctrl-D, /quit); the exit code. Raises as `cli.chat.chat` does."""
    resolved, folder = settle(flags)
    return hold(PlainChat(resolved, folder, open_kept(resolved, folder, wanted=wanted)))


class PlainChat(Chat):
    """A chat whose screen prints lines. Thinking is shown once it is over, and only with `--think on`."""

    def __init__(self, resolved: Resolved, folder: Folder | None, kept: Kept, **options: Any) -> None:
        # prompt_toolkit's half stays unused: no key is read, and what it would write goes nowhere.
        super().__init__(resolved, folder, kept, input=DummyInput(), output=Output(io.StringIO(), terminal_size))
        self.painter.colour = self.view.keys = False
        screen = PlainScreen(self.panes, self.painter, submit=self.submit, interrupt=self.interrupt, **options)
        self.screen = cast(Any, screen)
        self.question = cast(Any, screen.question)
        self.worker.on_event = screen.wake
