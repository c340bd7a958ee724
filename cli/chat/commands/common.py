"""What all commands of the chat share: how they fail, how they say something, how they read their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ossia.cli.clean import clean, one_line
from ossia.cli.runtime.progress import fitted
from ossia.cli.terminal.fold import hanging

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.chat.owner import Loaded
    from ossia.cli.terminal.markdown.paint import Row

Choice = tuple[str, str]
"""A completion: the value, and what to say about it."""


class CommandError(Exception):
    """A command can't be carried out. One line: what is wrong and what to do next. Raw outside text."""


class Stopped(Exception):
    """Raised in a job on another thread, once the user doesn't want to wait for it any longer."""


def must_be(what: str, came: str, next_step: str = "") -> NoReturn:
    """Raise the `CommandError` for a wrong argument: `must be low, medium or high, not 'hgih'`."""
    raise CommandError(f"must be {what}, not {one_line(came, 80)!r}{f': {next_step}' if next_step else ''}")


def no_argument(argument: str, next_step: str = "") -> None:
    """For a command that takes none: raise CommandError if one was given."""
    if argument:
        raise CommandError(f"takes no argument{f': {next_step}' if next_step else ''}")


class Block:
    """Rows of one answer to a command, for the chat's screen. All text is cleaned.

    block = Block(face)
    block.row("temperature  0.7", "dim")      # one row, cut to the width
    block.show()
    """

    def __init__(self, face: Face, head: str = "") -> None:
        self._face = face
        self.rows: list[Row] = []
        if head:
            self.item(head, "bold")

    def row(self, text: str, style: str = "") -> None:
        """One row, cut with an ellipsis to the width."""
        flat = clean(text).replace("\n", " ").replace("\t", " ")
        self.rows += self._face.painter.text(fitted(flat, self._face.painter.width), style)[:1]

    def text(self, text: str, style: str = "") -> None:
        """As many rows as it takes."""
        self.rows += self._face.painter.text(text, style)

    def item(self, text: str, style: str = "") -> None:
        """One thing of a list in as many rows as it takes, all but the first further in."""
        for row in hanging(clean(text).replace("\n", " "), self._face.painter.width):
            self.row(row, style)

    def show(self) -> None:
        """Put it on the screen."""
        self._face.show(self.rows)


def later(done_now: bool) -> str:
    """The end of a line about a change: nothing, or that the turn under way goes on as it began."""
    return "" if done_now else " from the next turn"


def turn_of(talk: Chat, text: str) -> int:
    """The turn that an argument names, counted from 1; we count from 0. Without one it is the last."""
    turns = len(talk.session.ends)
    if not turns:
        raise CommandError("nothing has been said yet")
    if not text:
        return turns - 1
    if not text.isdecimal() or not 1 <= int(text) <= turns:
        must_be(f"a turn from 1 to {turns}" if turns > 1 else "1, the only turn", text)
    return int(text) - 1


def loaded(talk: Chat) -> Loaded:
    """What is loaded. Raises CommandError while nothing is, and while the user's next model is looked for."""
    if talk.loaded is None or talk.model.looking:
        if talk.model.absent:
            raise CommandError("no model is loaded: /model takes one")
        raise CommandError("the model is still loading: try again in a moment")
    return talk.loaded


def path_of(text: str) -> Path:
    """The path in an argument, which may be quoted and begin with `~`."""
    from ossia.cli import paths

    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        bare = bare[1:-1]
    if not bare or "\0" in bare:
        must_be("a file name", text)
    return paths.expanded(bare)
