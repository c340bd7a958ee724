"""The attachments of a message where nobody can be asked about them: in `ossia run`, in an editor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ossia.cli.mentions import mentions

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.control import Control
    from ossia.agent.conversation import Conversation
    from ossia.agent.sessions.session import UserText
    from ossia.cli.settings.table import Settings


def with_mentioned(
    said: UserText, settings: Settings, talk: Conversation, folder: Path, stop: Control
) -> tuple[UserText, tuple[str, ...], tuple[str, ...]]:
    """The text with what its typed part mentions; a line for each whole attachment; one for each cut or missing one.

    Secrets and files from elsewhere aren't attached. It blocks; call it with a model and tools in use.
    """
    if not mentions(said.typed):
        return said, (), ()
    from ossia.cli.attach.attach import Bounds, attach
    from ossia.cli.runtime.assembly import web_of
    from ossia.tools.pages import PageLoader

    assert talk.model is not None and talk.tools is not None
    loader = PageLoader(web_of(settings), talk.host, private=settings.private)
    try:
        attached = attach(
            said.text,
            shown=said.typed,
            folder=folder,
            workspace=talk.tools.folder.workspace if talk.tools.folder else None,
            load_page=lambda url: loader.load(url, refresh=False, stop=stop),
            stop=stop,
            bounds=Bounds.within(talk.model.engine.context_tokens // 2),
        )
    finally:
        loader.close()
    text, lines = attached.user_text, tuple(one.shown for one in attached.attachments)
    cut = tuple(line for line in lines if "cut in the middle" in line)
    whole = tuple(line for line in lines if line not in cut)
    return replace(text, typed=said.typed, taints=text.taints | said.taints), whole, (*cut, *attached.problems)
