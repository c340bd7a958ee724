"""Stored sessions: opened, listed, replayed, forked, deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli.acp.rpc import Params
from ossia.cli.runtime.session import Resume, open_session

if TYPE_CHECKING:
    from ossia.agent.conversation import OpenSession
    from ossia.cli.acp.session import Session
    from ossia.cli.settings.config import Resolved
    from ossia.tools.folder import Folder


def opened(resolved: Resolved, folder: Folder | None, cwd: Path, stored: str | None) -> OpenSession:
    """A new session, or the stored one of this id. Raises SessionMissing and SessionInUse."""
    return open_session(resolved, folder, resume=Resume(ref=stored))


def replay(session: Session) -> None:
    """Send the messages of a session as updates."""


def listed(params: Params) -> dict[str, object]:
    """The response of `session/list`. Raises RpcError."""
    return {"sessions": []}


def fork(session_id: str) -> str:
    """Copy a stored session; returns the copy's id. Raises SessionMissing."""
    raise NotImplementedError


def delete(session_id: str) -> None:
    """Delete a stored session; one that isn't there is no error."""
