"""Shared by the chat's commands: their errors, their answers, and reading of arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ossia.cli.clean import clean, fitted, one_line
from ossia.cli.exits import ExitError
from ossia.cli.terminal.fold import hanging

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.chat.owner import Loaded
    from ossia.cli.terminal.markdown.paint import Row

Choice = tuple[str, str]
"""A completion: the value, and a word about it."""


class CommandError(ExitError):
    """A command can't be carried out. One line: the fault and the next step. Raw outside text."""


def must_be(expected: str, came: str, next_step: str = "") -> NoReturn:
    """Raise the `CommandError` for a wrong argument: `must be low, medium or high, not 'hgih'`."""
    raise CommandError(f"must be {expected}, not {one_line(came, 80)!r}{f': {next_step}' if next_step else ''}")


def no_argument(argument: str, next_step: str = "") -> None:
    """Raise CommandError for an argument of a command without any."""
    if argument:
        raise CommandError(f"takes no argument{f': {next_step}' if next_step else ''}")


class Block:
    """The rows of an answer to a command. All text is cleaned.

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
        """The whole text, in several rows."""
        self.rows += self._face.painter.text(text, style)

    def item(self, text: str, style: str = "") -> None:
        """An item of a list: its first row, then the others further in."""
        for row in hanging(clean(text).replace("\n", " "), self._face.painter.width):
            self.row(row, style)

    def show(self) -> None:
        """Show the rows."""
        self._face.show(self.rows)


def later(done_now: bool) -> str:
    """The end of a line about a change: "" if it holds now, else its delay."""
    return "" if done_now else " from the next turn"


def turn_of(talk: Chat, text: str) -> int:
    """The turn behind an argument such as "3", counted from 0; behind "" the last one."""
    turns = len(talk.session.ends)
    if not turns:
        raise CommandError("nothing has been said yet")
    if not text:
        return turns - 1
    if not text.isdecimal() or not 1 <= int(text) <= turns:
        must_be(f"a turn from 1 to {turns}" if turns > 1 else "1, the only turn", text)
    return int(text) - 1


def loaded(talk: Chat) -> Loaded:
    """The model and its tools. Raises CommandError before they are loaded, and while a next model is looked up."""
    if talk.loaded is None or talk.model.lookup:
        if talk.model.absent:
            raise CommandError("no model is loaded: /model NAME loads one")
        raise CommandError("the model is still loading: try again in a moment")
    return talk.loaded


def path_of(text: str) -> Path:
    """The path in an argument, quoted or not; `~` is expanded."""
    from ossia.cli import paths

    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        bare = bare[1:-1]
    if not bare or "\0" in bare:
        must_be("a file name", text)
    return paths.expanded(bare)
