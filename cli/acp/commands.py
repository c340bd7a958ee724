"""Slash commands: those that the client offers, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ossia.agent.sessions.session import UserText
    from ossia.cli.acp.session import Session


def available(session: Session) -> list[dict[str, object]]:
    """The commands as the protocol has them."""
    return []


def expanded(session: Session, said: UserText) -> UserText | str:
    """The text for the model, or the answer to a command. Called with a model and tools in use, before the turn."""
    return said
