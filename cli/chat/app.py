"""`ossia`: the chat, on whichever terminal there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ossia.cli import paths
from ossia.cli.chat.chat import Chat
from ossia.cli.chat.face import Face
from ossia.cli.chat.welcome import greet
from ossia.cli.exits import ExitCode
from ossia.cli.runtime.consent import agree
from ossia.cli.runtime.ending import end_now, look_to_the_end
from ossia.cli.runtime.session import Resume, open_session
from ossia.cli.settings.workspace import resolve_with_folder


def chat(flags: Mapping[str, object], resume: Resume) -> int:
    """Talk until the user leaves; returns the exit code. Raises errors for `cli.main`."""
    from ossia.cli.chat.screen_face import ScreenFace  # with prompt_toolkit's keys and layout

    return talk_with(flags, resume, ScreenFace)


def plain_chat(flags: Mapping[str, object], resume: Resume) -> int:
    """The same, line by line, for a terminal without a screen (`TERM=dumb`)."""
    from ossia.cli.chat.faces import PlainFace

    return talk_with(flags, resume, PlainFace)


def talk_with(
    flags: Mapping[str, object],
    resume: Resume,
    face: Callable[[Chat], Face],
    *,
    greet: Callable[[Chat, Face], None] = greet,
) -> int:
    """Run a chat to its end, and close it whatever ends it. Returns the exit code; raises errors for `cli.main`."""
    resolved, folder = resolve_with_folder(flags)
    agree(resolved.settings)
    talk = Chat(resolved, folder, open_session(resolved, folder, resume=resume), paths.host(), face=face)
    try:
        asyncio.run(run(talk, greet=greet))
    except BaseException:
        talk.close()
        raise
    return finish(talk)


async def run(talk: Chat, *, greet: Callable[[Chat, Face], None] = greet) -> None:
    """Show the face, with the lines of `greet`, until the user leaves; the model loads meanwhile."""
    talk.background.begin()
    talk.face.begin()
    greet(talk, talk.face)
    asyncio.get_running_loop().call_soon(talk.begin)  # behind the first frame
    await talk.face.screen.run()


def finish(talk: Chat) -> int:
    """Close the chat after `run`. Returns the exit code; raises a loading error."""
    talk.close()
    if talk.model.fault:
        raise talk.model.fault
    code = ExitCode.INTERRUPTED if talk.face.screen.interrupted else ExitCode.ANSWERED
    look_to_the_end(lambda _: None)  # the screen is closed: nothing may be written any more
    if talk.conversation.worker.busy:  # in a C call: it loads weights, or reads a long prompt
        end_now(code)
    return code
