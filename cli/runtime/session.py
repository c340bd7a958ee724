"""Which session a chat goes on with, and where it is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agent.errors import AgentError
from agent.sessions.session import Entry, Session
from agent.sessions.store import SessionStore
from cli import paths
from cli.exits import ExitCode, ExitError
from cli.runtime.options import fresh_options, resumed_options
from cli.runtime.toolset import Toolset
from cli.settings.config import Resolved
from cli.settings.workspace import Folder
from harmony.messages import is_call


@dataclass(frozen=True, slots=True)
class Wanted:
    """`--continue` and `--resume ID|TEXT` of the command line."""

    latest: bool = False
    ref: str | None = None

    @property
    def any(self) -> bool:
        """Is an older session wanted?"""
        return self.latest or self.ref is not None


NO_OLDER = Wanted()


@dataclass(slots=True)
class Kept:
    """A session and the store it grows in. `store` None: nothing is stored; `problem` says why, if not on purpose.

    `before`: the id it was stored under until it became private, and what it held then.
    """

    session: Session
    store: SessionStore | None = None
    session_id: str | None = None
    resumed: bool = False
    problem: str | None = None
    before: tuple[str, tuple[Entry, ...]] | None = None


def open_kept(resolved: Resolved, folder: Folder | None, *, wanted: Wanted) -> Kept:
    """A chat's session: a new one, or the older one that is `wanted`. Raises for an older one that can't be had.

    A store that can't be used doesn't keep anybody from talking: the session is then not stored, and `problem` says so.
    """
    if wanted.any:
        return _older(resolved, folder, wanted)
    session = Session(fresh_options(resolved, folder))
    if resolved.settings.private:
        return Kept(session)
    try:
        return _stored(session, folder)
    except AgentError as error:
        return Kept(session, problem=f"this chat is not stored: {error}")


def open_saved(resolved: Resolved, folder: Folder | None, *, wanted: Wanted, save: bool) -> Kept:
    """The session of `ossia run`: stored where `save` or `wanted` ask for it.

    Raises for an older one that can't be had. A new one that can't be stored has a `problem`: the answer is worth more.
    """
    if wanted.any:
        return _older(resolved, folder, wanted)
    session = Session(fresh_options(resolved, folder))
    if not save:
        return Kept(session)
    try:
        return _stored(session, folder)
    except AgentError as error:
        return Kept(session, problem=f"the session is not stored: {error}")


def bring_back(session: Session, tools: Toolset) -> None:
    """Have the browser's pages that this session had; tell the model that python's variables are gone."""
    if tools.browser:
        tools.browser.restore(session.states)
    if tools.python and any(is_call(message) and message.recipient == "python" for message in session.messages):
        tools.python.begin_anew(told=True)


def _stored(session: Session, folder: Folder | None) -> Kept:
    store = _store()
    return Kept(session, store, store.keep(session, workspace=str(folder.workspace.root) if folder else None))


def _store() -> SessionStore:
    return SessionStore(paths.sessions_file(), now=time.time)


def _older(resolved: Resolved, folder: Folder | None, wanted: Wanted) -> Kept:
    store = _store()
    info = store.find(wanted.ref) if wanted.ref is not None else store.latest()
    if info is None:
        raise ExitError("--continue: expected a session to go on with, none is stored yet", ExitCode.USAGE)
    private = resolved.settings.private
    session = store.load(info.id) if private else store.resume(info.id)
    session.options = resumed_options(session.options, resolved, folder)
    return Kept(session, None if private else store, None if private else info.id, resumed=True)
