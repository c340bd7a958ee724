"""A line that was sent: a command of ours, a command of the user's own, or something to say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.control import Control

if TYPE_CHECKING:
    from cli.chat import Chat
    from cli.terminal.editor import Typed
    from cli.user_command import Ran

_SENT = "sent to the model, as all that has no slash"
HABITS = {
    **dict.fromkeys(("exit", "quit", "bye", ":q"), f"{_SENT}: /quit or Ctrl-D leaves"),
    **dict.fromkeys(("help", "?"), f"{_SENT}: /help lists the commands"),
}
"""What other programs take for commands, and what to say of it."""


def take_line(chat: Chat, typed: Typed) -> None:
    """`/…` acts at once, `!…` runs in the user's shell; anything else is said now or when its turn comes."""
    from cli.commands import run_command

    plain = not typed.literal
    if plain and typed.shown.startswith("/") and not typed.shown.startswith("//"):
        return run_command(chat, typed.text, shown=typed.shown)
    if plain and typed.shown.startswith("!"):
        return run_for_user(chat, typed.text[1:].strip())
    if plain and typed.shown.startswith("//"):  # a text that begins with a slash
        typed = replace(typed, shown=typed.shown[1:], text=typed.text[1:])
    if plain and (habit := HABITS.get(typed.shown.lower())):
        chat.note(habit)
    return chat.queue_up(typed)


def put_back(chat: Chat, shown: str) -> None:
    """Nothing that was typed is lost: it stands in the input again, or the history has it where that is in use."""
    if not chat.editor.text and not chat.screen.plain:
        chat.editor.set(shown)


def run_for_user(chat: Chat, command: str) -> None:
    """Run a command of the user's; its output is shown, and goes along with their next message."""
    if chat.cancel is not None:
        put_back(chat, f"!{command}")
        return chat.note(f"`{chat.attaching.running or 'something'}` still runs: Ctrl-C ends it", "yellow")
    if not command:
        return chat.note("expected a command behind the !, as in !git status", "yellow")
    control = Control()
    chat.cancel = control.stop
    chat.view.user(f"!{command}")

    def done(ran: Ran) -> None:
        chat.cancel = None
        chat.show(chat.painter.text(ran.output.strip("\n") or "(no output)"))
        chat.note(f"{chat.attaching.keep(ran).shown} · goes along with your next message, Ctrl-C drops it")

    def failed(error: Exception) -> None:
        chat.cancel = None
        put_back(chat, f"!{command}")
        chat.tell(error)

    return chat.background.run(lambda: chat.attaching.run(command, control), done, failed)
