"""A line that was sent: a command of ours, a command of the user's own, or something to say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ossia.agent.control import Control

if TYPE_CHECKING:
    from ossia.cli.attach.user_command import Ran
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.cli.terminal.input.typed import Typed

_SENT = "sent to the model (commands begin with /)"
HABITS = {
    **dict.fromkeys(("exit", "quit", "bye", ":q"), f"{_SENT}: /quit or Ctrl-D leaves"),
    **dict.fromkeys(("help", "?"), f"{_SENT}: /help lists the commands"),
}
"""Lines that other programs take for commands, and what to say about them."""


def take_line(talk: Chat, face: Face, typed: Typed, *, replaces: int | None = None) -> None:
    """`/…` acts at once, `!…` runs in the user's shell; anything else is said now or when its turn comes.

    `replaces`: the turn that it then replaces.
    """
    from ossia.cli.chat.commands.table import run_command

    plain = not typed.literal
    if plain and typed.shown.startswith("/") and not typed.shown.startswith("//"):
        return run_command(talk, face, typed.text, shown=typed.shown)
    if plain and typed.shown.startswith("!"):
        return run_for_user(talk, face, typed.text[1:].strip())
    if plain and typed.shown.startswith("//"):  # a text that begins with a slash
        typed = replace(typed, shown=typed.shown[1:], text=typed.text[1:])
    if plain and (habit := HABITS.get(typed.shown.lower())):
        face.note(habit)
    talk.queue_up(typed, replaces=replaces)
    if talk.model.absent:
        face.note("no model is loaded: /model takes one, which then answers", "yellow")
    return None


def put_back(face: Face, shown: str) -> bool:
    """Put a line back into the input, if that is empty; else the history has it. Nothing that was typed is lost."""
    empty = not face.input_text and not face.plain
    if empty:
        face.put_into_input(shown)
    return empty


def run_for_user(talk: Chat, face: Face, command: str) -> None:
    """Run a command of the user's; its output is shown, and goes along with their next message."""
    attaching = talk.attaching
    if talk.background.job:
        put_back(face, f"!{command}")
        return face.note(f"`{attaching.running or 'something'}` is still running: Ctrl-C ends it", "yellow")
    if not command:
        return face.note("! needs a command, as in !git status", "yellow")
    control = Control()
    talk.background.job = control.stop
    face.view.user(f"!{command}")

    def done(ran: Ran) -> None:
        talk.background.job = None
        face.show(face.painter.text(ran.output.strip("\n") or "(no output)"))
        face.note(f"{attaching.keep(ran).shown} · will be sent with your next message, Ctrl-C drops it")

    def failed(error: Exception) -> None:
        talk.background.job = None
        put_back(face, f"!{command}")
        talk.tell(error)

    return talk.background.run(lambda: attaching.run(command, control), done, failed)
