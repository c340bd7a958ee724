"""What all parts of a chat share: its settings, folder, session, worker and face."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ossia.agent.control import Control
from ossia.agent.sessions.session import Session
from ossia.agent.worker import Worker
from ossia.cli.chat.background import Background
from ossia.cli.clean import clean, one_line
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.config import THIS_CHAT, Resolved
from ossia.cli.settings.table import Settings
from ossia.cli.terminal.input.typed import Typed
from ossia.tools.import_path import environment_for
from ossia.tools.spec import Stop
from ossia.tools.workspace import Folder

if TYPE_CHECKING:
    from ossia.agent.conversation import OpenSession
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.face import Face

_HERE = {
    "ossia models pull": "/model pull",
    "`ossia sessions list` shows": "/sessions shows",
    "name one with --model": "/model SERVER MODEL takes one",
    "name one of these with --model": "/model SERVER MODEL takes one of these",
}
"""The next step that an error names, as a shell has it and as the chat has it."""


@dataclass(frozen=True, slots=True)
class Waiting(Typed):
    """A line that waits to be said. `replaces`: the turn that it replaces; None: it comes after the others."""

    replaces: int | None = None


class Notices(Display):
    """What the program says while it loads: lines that go to `post`, from whatever thread. `verbose`: details too."""

    def __init__(self, post: Callable[[str, str], None], background: Background, *, verbose: bool) -> None:
        super().__init__(
            terminal=True, asides=True, lively=False, thinking=False, colour=False, verbose=verbose, quiet=False
        )
        self._post, self._background = post, background

    def note(self, text: str) -> None:
        self._post(text.removeprefix("ossia: "), "dim")

    def warn(self, text: str) -> None:
        self._post(text, "yellow")

    def aside(self, text: str, *, whole: bool = False) -> None:
        self._post(text, "dim")

    @contextmanager
    def skippable(self) -> Iterator[tuple[Stop, str]]:
        """Ctrl-C skips, unless it ends another job."""
        background, free, skip = self._background, self._background.job is None, Control()
        job = skip.stop
        if free:
            background.job = job
        try:
            yield skip, "Ctrl-C goes on without" if free else ""
        finally:
            if background.job is job:
                background.job = None

    @property
    def doing(self) -> str:
        """What is being done, e.g. `connecting to MCP servers: files`; "" when nothing is."""
        return clean(self.line.text)


class State:
    """`control` is that of the turn under way; `queue` are the lines that wait for its end."""

    face: Face

    def __init__(self, resolved: Resolved, folder: Folder | None, opened: OpenSession) -> None:
        self.resolved, self.folder, self.opened = resolved, folder, opened
        self.worker = Worker()
        self.control: Control | None = None
        self.queue: deque[Waiting] = deque()
        self.background = Background(wake=lambda: self.face.wake(), failed=self.tell)
        self.notices = Notices(self.post, self.background, verbose=resolved.settings.verbose)

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of programs that we start ourselves."""
        return environment_for(self.folder.workspace.root if self.folder else None, os.environ)

    @property
    def session(self) -> Session:
        return self.opened.session

    @property
    def store(self) -> SessionStore | None:
        """Where the session is stored; None: nowhere."""
        return self.opened.store

    def use_settings(self, resolved: Resolved, folder: Folder | None, *, before: Settings) -> None:
        """These hold from now on, but for what was changed since they were `before`."""
        now = {one.name: getattr(self.settings, one.name) for one in fields(Settings)}
        self.resolved, self.folder = resolved, folder
        self.change_settings(**{key: value for key, value in now.items() if value != getattr(before, key)})

    def change_settings(self, **values: Any) -> None:
        """Set values of the settings for the rest of this chat."""
        origins = {**self.resolved.origins, **dict.fromkeys(values, THIS_CHAT)}
        self.resolved = replace(self.resolved, settings=replace(self.settings, **values), origins=origins)

    def post(self, text: str, style: str = "dim") -> None:
        """A line of ours above the input, from any thread."""
        self.background.on_loop(lambda: self.face.note(text, style))

    def tell(self, error: Exception, *, of: str = "") -> None:
        """Say what went wrong, in one line that begins with `of`. Raises it again if it is a fault of ours."""
        from ossia.cli.exits import exit_code

        line = str(error)
        if isinstance(error, OSError):  # the machine's: a folder that can't be read, a full disk
            where = f"can't use {error.filename}: " if error.filename else ""
            line = f"{where}{error.strerror or error}"
        elif exit_code(error) is None:
            raise error
        for elsewhere, here in _HERE.items():
            line = line.replace(elsewhere, here)
        self.face.note(f"{of}{one_line(line, 1000)}", "red")

    def doing(self, text: str) -> None:
        """Say what goes on besides a turn, e.g. a download; "": nothing. From any thread."""
        self.notices.line.set(text)
        self.face.wake()
