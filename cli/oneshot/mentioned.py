"""What a prompt on the command line mentions with `@`: it is attached as in the chat, except that nobody is asked."""

from __future__ import annotations

from dataclasses import replace

from ossia.agent.control import Control
from ossia.agent.sessions.session import UserText
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.attach.attach import Attached, Bounds, attach
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.toolset import web_of
from ossia.cli.settings.table import Settings
from ossia.tools.pages import PageLoader
from ossia.tools.workspace import Workspace


def with_mentioned(
    said: UserText,
    settings: Settings,
    *,
    workspace: Workspace | None,
    room_tokens: int,
    display: Display,
    worker: Worker,
    stop: Control,
) -> UserText:
    """The text with the files, folders and pages that its typed part mentions.

    The worker reads them, so that Ctrl-C is answered meanwhile. What is not attached is a warning, and the text goes
    without it.
    """
    attached = display.wait(worker.submit(lambda: _attached(said, settings, workspace, room_tokens, stop)))
    for attachment in attached.attachments:
        display.aside(f"  {attachment.shown}")
    for problem in attached.problems:
        display.warn(problem)
    return replace(attached.user_text, typed=said.typed)


def _attached(
    said: UserText, settings: Settings, workspace: Workspace | None, room_tokens: int, stop: Control
) -> Attached:
    loader = PageLoader(web_of(settings), paths.host(), private=settings.private)
    try:
        return attach(
            said.text,
            shown=said.typed,
            folder=paths.here(),
            workspace=workspace,
            load_page=lambda url: loader.load(url, refresh=False, stop=stop),
            stop=stop,
            bounds=Bounds.within(room_tokens),
        )
    finally:
        loader.close()
