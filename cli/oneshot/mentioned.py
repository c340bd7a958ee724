"""What a prompt on the command line mentions with `@`: it is attached as in the chat, except that nobody is asked."""

from __future__ import annotations

from dataclasses import replace

from ossia.agent.control import Control
from ossia.agent.conversation import Conversation
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.attach import Attached, Bounds, attach
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.toolset import web_of
from ossia.cli.settings.table import Settings
from ossia.tools.pages import PageLoader


def with_mentioned(said: UserText, settings: Settings, talk: Conversation, *, display: Display) -> UserText:
    """The text with the files, folders and pages that its typed part mentions.

    The worker reads them, so that Ctrl-C is answered meanwhile. What is not attached is a warning, and the text goes
    without it.
    """
    stop = Control()
    try:
        attached = display.wait(talk.worker.submit(lambda: _attached(said, settings, talk, stop)))
    except BaseException:
        stop.stop()
        raise
    for attachment in attached.attachments:
        display.aside(f"  {attachment.shown}")
    for problem in attached.problems:
        display.warn(problem)
    return replace(attached.user_text, typed=said.typed)


def _attached(said: UserText, settings: Settings, talk: Conversation, stop: Control) -> Attached:
    assert talk.model is not None and talk.tools is not None
    folder, loader = talk.tools.folder, PageLoader(web_of(settings), talk.host, private=settings.private)
    try:
        return attach(
            said.text,
            shown=said.typed,
            folder=paths.here(),
            workspace=folder.workspace if folder else None,
            load_page=lambda url: loader.load(url, refresh=False, stop=stop),
            stop=stop,
            bounds=Bounds.within(talk.model.engine.context_tokens // 2),
        )
    finally:
        loader.close()
