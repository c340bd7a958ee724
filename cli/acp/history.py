"""The stored sessions for a client: opened, listed, deleted."""

from __future__ import annotations

import datetime
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.errors import SessionMissing, SessionsError, SessionUnclear
from ossia.agent.kv_cache import delete_session_cache
from ossia.cli import paths
from ossia.cli.acp.rpc import INVALID_PARAMS, Params, RpcError, absolute
from ossia.cli.clean import one_line
from ossia.cli.runtime.session import Resume, open_session, session_store

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation, OpenSession
    from ossia.agent.sessions.store import SessionInfo, SessionStore
    from ossia.agent.worker import Worker
    from ossia.cli.settings.config import Resolved
    from ossia.tools.folder import Folder

_PAGE = 50


def require(session_id: str, cwd: Path) -> None:
    """Do nothing if the session with exactly this id was begun in the folder `cwd`. Raises SessionMissing, RpcError."""
    with closing(session_store()) as store:
        info = _named(store, session_id)
    if not _is_in(info, cwd):
        where = f"was begun in {_folder(info)}" if _folder(info) else "has no folder"
        raise RpcError(INVALID_PARAMS, f"cwd: session {session_id} {where}: it can't go on in {cwd}")


def opened(resolved: Resolved, folder: Folder | None, cwd: Path, stored: str | None) -> OpenSession:
    """A new session, or the stored one of `require`. Raises SessionInUse."""
    found = open_session(resolved, folder, resume=Resume(ref=stored), here=cwd)
    found.session.options = replace(found.session.options, response_format=None)  # answers are for people
    return found


def listed(params: Params, *, page: int = _PAGE) -> dict[str, object]:
    """The response of `session/list`: a page of the sessions of the folder `cwd`, or of all that have a folder.

    `cursor` is the id of the last one on the page before. Raises RpcError for an unknown one.
    """
    cwd, cursor = params.get("cwd"), params.get("cursor")
    folder = None if cwd is None else absolute(params, "cwd")
    with closing(session_store()) as store:
        found = [info for info in store.list(limit=None) if (_is_in(info, folder) if folder else _folder(info))]
    ids = [info.id for info in found]
    if cursor is not None and cursor not in ids:
        raise RpcError(INVALID_PARAMS, f"cursor: expected the nextCursor of a page before, not {cursor!r:.80}")
    first = 0 if cursor is None else ids.index(cursor) + 1
    shown, more = found[first : first + page], len(found) > first + page
    sessions = [{"sessionId": info.id, "cwd": cwd or _folder(info), **_about(info)} for info in shown]
    return {"sessions": sessions, **({"nextCursor": shown[-1].id} if more else {})}


def delete(session_id: str, worker: Worker | None) -> None:
    """Delete a stored session for good; one that isn't there is no error. Raises SessionInUse.

    Its cache is deleted once more behind the jobs of the `worker`, which may be storing it.
    """
    kv = paths.host().kv
    with closing(session_store()) as store, suppress(SessionMissing):
        store.remove(session_id)
        delete_session_cache(kv, session_id)
        if worker:
            worker.submit(lambda: delete_session_cache(kv, session_id))


def info_update(talk: Conversation) -> dict[str, object] | None:
    """The update with the session's title and time; None: it isn't stored."""
    session_id = talk.opened.session_id
    if talk.store is None or session_id is None:
        return None
    with suppress(SessionsError):  # a full disk: the conversation goes on
        return {"sessionUpdate": "session_info_update", **_about(talk.store.find(session_id))}
    return None


def _named(store: SessionStore, session_id: str) -> SessionInfo:
    """The session with exactly this id: a text that is in a title by chance opens nothing. Raises SessionMissing."""
    with suppress(SessionUnclear):
        if (info := store.find(session_id)).id == session_id:
            return info
    raise SessionMissing(f"no session is called {session_id!r:.80}: `ossia sessions list` shows the stored ones")


def _about(info: SessionInfo) -> dict[str, object]:
    updated = datetime.datetime.fromtimestamp(int(info.updated), datetime.UTC)
    return {"title": one_line(info.title), "updatedAt": updated.isoformat()}


def _folder(info: SessionInfo) -> str | None:
    """The folder that it works in, or else was begun in."""
    return info.workspace or info.folder


def _is_in(info: SessionInfo, cwd: Path) -> bool:
    return _folder(info) in (str(cwd), str(cwd.resolve()))
