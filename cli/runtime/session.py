"""Which session a chat goes on with, and where it is stored."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.conversation import OpenSession
from ossia.agent.errors import AgentError
from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.runtime.options import fresh_options, resumed_options
from ossia.cli.settings.config import Resolved
from ossia.tools.folder import Folder


@dataclass(frozen=True, slots=True)
class Resume:
    """`--continue` and `--resume ID|TEXT` of the command line."""

    latest: bool = False
    ref: str | None = None


def open_session(resolved: Resolved, folder: Folder | None, *, resume: Resume, save: bool | None = None) -> OpenSession:
    """A new session, or the older one that `resume` names. Raises where that one can't be loaded.

    `save`: store a new one; None: unless the settings say private. A store that can't be used stops nobody from
    talking: the session is then not stored, and `problem` says why.
    """
    if resume.latest or resume.ref is not None:
        return _older(resolved, folder, resume)
    session = Session(fresh_options(resolved, folder))
    if not (save if save is not None else not resolved.settings.private):
        return OpenSession(session)
    try:
        store = _store()
        kept = store.keep(session, workspace=str(folder.workspace.root) if folder else None)
        return OpenSession(session, store, kept)
    except AgentError as error:
        return OpenSession(session, problem=f"the session is not stored: {error}")


def moved_from(stored: str | None, folder: Folder | None, *, chat: bool = False) -> str:
    """What to say of a session that was begun in the workspace `stored` and goes on without it; else "".

    A workspace is what the model may read and change: it isn't opened again because a session once had it.
    """
    here = str(folder.workspace.root) if folder else None
    if stored is None or stored == here:
        return ""
    now = f"works in {here} now" if here else "has no workspace now"
    way = f"/tools workspace {stored}" if chat else f"--workspace {shlex.quote(stored)}"
    return f"this session worked in {stored} and {now}: {f'{way} opens it' if Path(stored).is_dir() else 'it is gone'}"


def _store() -> SessionStore:
    return SessionStore(paths.sessions_file(), now=time.time)


def _older(resolved: Resolved, folder: Folder | None, resume: Resume) -> OpenSession:
    store = _store()
    info = store.find(resume.ref) if resume.ref is not None else store.latest()
    if info is None:
        raise ExitError("--continue: no session is stored yet")
    private = resolved.settings.private
    session = store.load(info.id) if private else store.resume(info.id)
    session.options = resumed_options(session.options, resolved, folder)
    worked_in = None if resolved.settings.no_tools else info.workspace
    opened = OpenSession(session, resumed=True, worked_in=worked_in)
    if not private:
        opened.store, opened.session_id = store, info.id
    return opened
