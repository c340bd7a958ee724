"""Which session a chat goes on with, and where it is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from agent.errors import AgentError
from agent.session import Entry, Options, Session
from agent.store import SessionStore
from cli import paths
from cli.config import Resolved
from cli.exits import ExitCode, ExitError


@dataclass(frozen=True, slots=True)
class Wanted:
    """`--continue` and `--resume ID|TEXT` of the command line."""

    latest: bool = False
    ref: str | None = None

    @property
    def any(self) -> bool:
        """Is an older session wanted?"""
        return self.latest or self.ref is not None


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


def open_kept(fresh: Options, resolved: Resolved, *, wanted: Wanted, workspace: str | None) -> Kept:
    """A new session, or the older one that is `wanted`. Raises for an older one that can't be had.

    A store that can't be used doesn't keep anybody from talking: the session is then not stored, and `problem` says so.
    """
    if resolved.settings.private and not wanted.any:
        return Kept(Session(fresh))
    store = SessionStore(paths.sessions_file(), now=time.time)
    if wanted.any:
        return _older(store, fresh, resolved, wanted)
    session = Session(fresh)
    try:
        return Kept(session, store, store.keep(session, workspace=workspace))
    except AgentError as error:
        return Kept(session, problem=f"this chat is not stored: {error}")


def _older(store: SessionStore, fresh: Options, resolved: Resolved, wanted: Wanted) -> Kept:
    info = store.find(wanted.ref) if wanted.ref is not None else store.latest()
    if info is None:
        raise ExitError("--continue: expected a session to go on with, none is stored yet", ExitCode.USAGE)
    private = resolved.settings.private
    session = store.load(info.id) if private else store.resume(info.id)
    session.options = merged(session.options, fresh, resolved)
    return Kept(session, None if private else store, None if private else info.id, resumed=True)


_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed")


def merged(stored: Options, fresh: Options, resolved: Resolved) -> Options:
    """The options of a stored session, and over them what the command line says."""
    given = {key for key, origin in resolved.origins.items() if origin.startswith("--")}
    instructions = fresh.instructions if given & {"instructions", "workspace"} else stored.instructions
    drawn = {key: getattr(fresh.sampling, key) for key in _SAMPLING if key in given}
    return replace(
        stored,
        effort=fresh.effort if "effort" in given else stored.effort,
        instructions=instructions,
        sampling=replace(stored.sampling, **drawn),
        brings=stored.brings | fresh.brings,
    )
