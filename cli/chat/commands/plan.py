"""/plan, /go: only look until a plan is agreed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.agent.prompt import GO, is_planned
from ossia.agent.sessions.session import UserText
from ossia.cli.chat.commands.common import Choice, CommandError, loaded
from ossia.cli.terminal.input.typed import Typed

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

PLANS: Sequence[Choice] = (("off", "change things again, without a word to the model"),)


def plan(talk: Chat, face: Face, argument: str) -> None:
    """`/plan [TEXT|off]`: from now on nothing can be changed; TEXT is what to make a plan for."""
    if argument == "off":
        talk.plan(False)
        return face.note("changes are possible")
    loaded(talk)
    talk.plan(True)
    face.note("only looking now: nothing can be changed until /go (/plan off ends it without a word)")
    return _say(talk, argument, argument) if argument else None


def go(talk: Chat, face: Face, argument: str) -> None:
    """`/go [TEXT]`: carry out the plan; TEXT goes along with that."""
    if not talk.settings.plan:
        raise CommandError("no plan is being made: /plan begins one")
    if not is_planned(talk.session):
        raise CommandError("there is no plan yet: say what to plan")
    loaded(talk)
    talk.plan(False)
    return _say(talk, f"/go {argument}".rstrip(), f"{GO}\n\n{argument}".rstrip())


def _say(talk: Chat, shown: str, text: str) -> None:
    """Say it, with what goes along: files that it names with `@`, the output of a command before."""
    typed = Typed(shown, text, literal=True)
    if talk.attaching.needed(typed):
        return talk.queue_up(typed)
    return talk.say(UserText(text, shown))
