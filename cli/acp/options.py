"""A session's config options (model, effort, mode) and its modes: ask, plan, accept edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ossia.cli.acp.rpc import INVALID_PARAMS, RpcError

if TYPE_CHECKING:
    from ossia.cli.acp.session import Session


def options_of(session: Session) -> list[dict[str, object]]:
    """The options as the protocol has them, with their current values."""
    return []


def set_option(session: Session, name: str, value: object) -> None:
    """Set an option. Raises RpcError for one that isn't there, or another value."""
    raise RpcError(INVALID_PARAMS, f"configId: there is no option {name!r}")


def modes_of(session: Session) -> dict[str, object]:
    """The modes as the protocol has them, with the current one."""
    return {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}


def set_mode(session: Session, name: str) -> None:
    """Go to another mode. Raises RpcError."""
    if name != "ask":
        raise RpcError(INVALID_PARAMS, f"modeId: there is no mode {name!r}")
