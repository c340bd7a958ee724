"""The attachments of a message where nobody can be asked about them: in `ossia run`, in an editor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.mentions import mentions

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.control import Control
    from ossia.agent.conversation import Conversation
    from ossia.agent.sessions.session import UserText
    from ossia.cli.attach.attach import Attached
    from ossia.cli.attach.content import Cut, Source
    from ossia.cli.settings.table import Settings
    from ossia.tools.host import Host
    from ossia.tools.pages import PageLoader

_LEAST_SHARE = 8
"""At least an eighth of the context: in a full one, older turns give way."""


def with_mentioned(
    said: UserText,
    settings: Settings,
    talk: Conversation,
    folder: Path,
    stop: Control,
    *,
    first: Sequence[Source] = (),
    cut: Cut = "middle",
) -> Attached:
    """The text with what its typed part mentions, behind the sources that come `first`, within the context's room.

    Secrets and files from elsewhere aren't attached. It blocks; call it on the worker's thread, with a model and tools
    in use. `cut`: the part left out of what is too long. Raises ExitError if even parts of `first` are too much.
    """
    from ossia.cli.attach.attach import Attached, attach
    from ossia.cli.attach.content import Bounds

    if not (first or mentions(said.typed)):
        return Attached(said)
    assert talk.model is not None and talk.tools is not None
    encode = talk.model.tokenizer.encode
    use = talk.model.responder.measure(talk.session.request(talk.tools.toolbox.specs))
    free = use.total_tokens - use.used_tokens - use.reserve_tokens - len(encode(said.text))
    room = max(free, use.total_tokens // _LEAST_SHARE)
    bounds = Bounds(room, room, cut=cut, count=lambda text: len(encode(text)))
    if len(first) > bounds.things:
        raise ExitError(f"the context has room for parts of {bounds.things} attachments, and there are {len(first)}: "
                        "attach fewer, or use a larger --context", ExitCode.NO_ROOM)  # fmt: skip
    with page_loader(settings, talk.host) as loader:
        attached = attach(
            said.text,
            shown=said.typed,
            folder=folder,
            workspace=talk.tools.folder.workspace if talk.tools.folder else None,
            load_page=lambda url: loader.load(url, refresh=False, stop=stop),
            stop=stop,
            pending=first,
            bounds=bounds,
        )
    text = attached.user_text
    return replace(attached, user_text=replace(text, typed=said.typed, taints=text.taints | said.taints))


@contextmanager
def page_loader(settings: Settings, host: Host) -> Iterator[PageLoader]:
    """The loader of the pages that the user names."""
    from ossia.cli.runtime.assembly import web_of
    from ossia.tools.pages import PageLoader

    with closing(PageLoader(web_of(settings), host, private=settings.private)) as loader:
        yield loader
