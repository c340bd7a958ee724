"""Lines of the program's own in a chat: while something loads, and when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ossia.agent.control import Control
from ossia.cli.chat.background import Background
from ossia.cli.clean import clean, one_line
from ossia.cli.exits import exit_code
from ossia.cli.runtime.progress import Display
from ossia.tools.spec import Stop

_HERE = {
    "ossia models pull": "/model pull",
    "`ossia sessions list` shows": "/sessions shows",
    "name one with --model": "/model SERVER MODEL takes one",
    "name one of these with --model": "/model SERVER MODEL takes one of these",
}
"""The next step that an error names, as a shell has it and as the chat has it."""


class Notices(Display):
    """Lines that go to `post`, from whatever thread. `verbose`: details too."""

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
        """The work under way, e.g. `connecting to MCP servers: files`; "" when there is none."""
        return clean(self.line.text)


def line_about(error: Exception) -> str:
    """What went wrong, in one line with the chat's own next step. Raises the error again if it is a fault of ours."""
    line = str(error)
    if isinstance(error, OSError):  # the machine's: a folder that can't be read, a full disk
        where = f"can't use {error.filename}: " if error.filename else ""
        line = f"{where}{error.strerror or error}"
    elif exit_code(error) is None:
        raise error
    for elsewhere, here in _HERE.items():
        line = line.replace(elsewhere, here)
    return one_line(line, 1000)
