"""The attachments of the next message of a chat."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.attach import attach, output_of
from ossia.cli.attach.content import Attachment, Bounds
from ossia.cli.attach.user_command import Ran, run_command
from ossia.cli.mentions import mentions
from ossia.cli.terminal.input.typed import Typed
from ossia.tools.functions import ToolSettingUnusable
from ossia.tools.spec import Taint, ToolFailed
from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.cli.settings.table import Settings
    from ossia.tools.browser.document import Document
    from ossia.tools.pages import PageLoader

_GRACE_S = 3.0
"""The user's command has half a second to end, then it is killed."""
_NOT_SENT = "not sent: send the line again to go without it"


class Attaching:
    """Holds the attachments of the next message, and puts messages together.

    `note(line, style)` shows a line to the user, on any thread. `running`: the user's command under way; `reading`: the
    page being fetched; "" for none.
    """

    def __init__(self, settings: Callable[[], Settings], note: Callable[[str, str], None]) -> None:
        self._settings, self._note = settings, note
        self._loader: PageLoader | None = None
        self._stop: Control | None = None  # of the command under way
        self._over = threading.Event()
        self._refused: str | None = None  # the line that came back last
        self.pending: list[Attachment] = []
        self.running = self.reading = ""

    def run(self, command: str, stop: Control) -> Ran:
        """Run a command of the user's. It blocks: on a thread of its own."""
        self.running, self._stop = command, stop
        self._over.clear()
        try:
            return run_command(command, folder=Path.cwd(), environ=os.environ, stop=stop)
        finally:
            self.running, self._stop = "", None
            self._over.set()

    def keep(self, ran: Ran) -> Attachment:
        """Attach its output to the next message."""
        self.pending.append(output_of(ran))
        return self.pending[-1]

    def drop(self) -> bool:
        """Drop the attachments of the next message. False: there were none."""
        waited, self.pending = bool(self.pending), []
        return waited

    def needed(self, typed: Typed) -> bool:
        """Is there anything to attach to this line?"""
        return bool(self.pending) or bool(mentions(typed.shown))

    def put_together(
        self,
        typed: Typed,
        *,
        workspace: Workspace | None,
        room_tokens: int | None,
        stop: Control,
        ask: Callable[[str, str], bool],
    ) -> UserText | None:
        """The line with its attachments; it blocks while they are read. None: stopped, or one can't be read.

        `ask` is as in `attach`. `note` says what can't be read; the same line sent again goes without that. After None,
        the output of commands still waits.
        """
        theirs = workspace.taints if workspace else frozenset[Taint]()  # `!git log` shows texts of the files
        pending = tuple(replace(one, taints=one.taints | theirs) for one in self.pending)
        attached = attach(
            typed.text,
            shown=typed.shown,
            folder=paths.here(),
            workspace=workspace,
            load_page=lambda url: self._load(url, stop),
            stop=stop,
            pending=pending,
            ask=(lambda name, why: False) if typed.shown == self._refused else ask,
            bounds=Bounds() if room_tokens is None else Bounds.within(max(room_tokens, 500)),
        )
        for problem in attached.problems:
            self._note(problem, "yellow")
        if stop.stopped:
            return None
        if attached.problems and typed.shown != self._refused:
            self._refused = typed.shown
            self._note(_NOT_SENT, "yellow")
            return None
        self._refused = None
        del self.pending[: len(pending)]
        for attachment in attached.attachments:
            self._note(f"  {attachment.shown}", "dim")
        return attached.user_text

    def close(self) -> None:
        """End the user's command and the loader of pages."""
        if stop := self._stop:
            stop.stop()
            self._over.wait(_GRACE_S)
        if self._loader:
            self._loader.close()

    def _load(self, url: str, stop: Control) -> Document:
        settings = self._settings()
        try:
            from ossia.cli.runtime.assembly import web_of
            from ossia.tools.pages import PageLoader

            self._loader = self._loader or PageLoader(web_of(settings), paths.host(), private=settings.private)
        except ToolSettingUnusable as error:  # an unusable proxy setting: the message goes without the page
            raise ToolFailed(str(error)) from None
        self._loader.private = settings.private
        self.reading = url
        try:
            return self._loader.load(url, refresh=False, stop=stop)
        finally:
            self.reading = ""
