"""What the program says while it loads, for the chat: lines above the input in place of lines on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

from cli.clean import clean
from cli.runtime.progress import Display, LiveLine


class _Doing(LiveLine):
    """Keeps what is being done; the chat draws it in its row of activity."""

    def __init__(self) -> None:
        super().__init__(sys.stderr, shown=False)

    @property
    def text(self) -> str:
        return clean(super().text)


class Notices(Display):
    """A display whose lines go to `post`, from whatever thread they come. `verbose`: details too."""

    def __init__(self, post: Callable[[str, str], None], *, verbose: bool) -> None:
        super().__init__(
            terminal=True, asides=True, lively=False, thinking=False, colour=False, verbose=verbose, quiet=False
        )
        self.line: _Doing = _Doing()
        self._post = post

    def note(self, text: str) -> None:
        self._post(text.removeprefix("ossia: "), "dim")

    def warn(self, text: str) -> None:
        self._post(text, "yellow")

    def aside(self, text: str, *, whole: bool = False) -> None:
        self._post(text, "dim")

    @property
    def doing(self) -> str:
        """What is being done, e.g. `connecting to MCP servers: files`; "" when nothing is."""
        return self.line.text
