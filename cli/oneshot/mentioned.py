"""What a prompt on the command line mentions with `@`: it is attached as in the chat, except that nobody is asked."""

from __future__ import annotations

from dataclasses import replace

from ossia.agent.control import Control
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.attach import Bounds, attach
from ossia.cli.runtime.browser import PageLoader
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings
from ossia.tools.workspace import Workspace


def with_mentioned(
    said: UserText,
    settings: Settings,
    *,
    workspace: Workspace | None,
    room_tokens: int,
    display: Display,
    stop: Control,
) -> UserText:
    """The text with the files, folders and pages that its typed part mentions. It blocks while they are read.

    What is not attached is a warning, and the text goes without it.
    """
    loader = PageLoader(settings)
    try:
        attached = attach(
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
    for attachment in attached.attachments:
        display.aside(f"  {attachment.shown}")
    for problem in attached.problems:
        display.warn(problem)
    return replace(attached.user_text, typed=said.typed)
