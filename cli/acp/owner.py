"""A session as its options and its work at rest know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation
    from ossia.cli.acp.models import Models
    from ossia.cli.acp.options import Choices
    from ossia.cli.settings.config import Resolved


class Owner(Protocol):
    """An open session: `session.Session`. `titled`: a title was asked for."""

    talk: Conversation
    models: Models
    resolved: Resolved
    choices: Choices
    titled: bool

    def update(self, fields: dict[str, object]) -> None:
        """Send a `session/update`."""

    def between_turns(self, do: Callable[[], object]) -> None:
        """Call it now, or after the prompt that is being answered."""

    def use_settings(self, resolved: Resolved) -> None:
        """Use these settings from the next turn on."""
