"""A chat as its parts know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ossia.agent.build import Model
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation
from ossia.agent.sums import Tally
from ossia.cli.chat.background import Background, Notices
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings
from ossia.tools.build import Toolset
from ossia.tools.folder import Folder

if TYPE_CHECKING:
    from ossia.agent.request import ContextUse
    from ossia.agent.sessions.session import UserText
    from ossia.cli.chat.face import Face
    from ossia.cli.chat.outbox import Outbox
    from ossia.cli.chat.pager.transcript import Transcript


class Loaded(NamedTuple):
    """A model with its tools."""

    model: Model
    tools: Toolset


class Owner(Protocol):
    """See `cli.chat.chat.Chat`, which is one. On the loop's thread, but for `post` and `set_activity`."""

    conversation: Conversation
    face: Face
    outbox: Outbox
    transcript: Transcript
    tally: Tally
    background: Background
    notices: Notices
    resolved: Resolved
    folder: Folder | None
    control: Control | None

    @property
    def settings(self) -> Settings: ...
    @property
    def loaded(self) -> Loaded | None: ...
    @property
    def use(self) -> ContextUse | None: ...
    def use_settings(self, resolved: Resolved, folder: Folder | None, *, before: Settings) -> None: ...
    def post(self, text: str, style: str = "dim") -> None: ...
    def report(self, error: Exception, *, of: str = "") -> None: ...
    def set_activity(self, text: str) -> None: ...
    def say(self, text: UserText, *, replaces: int | None = None) -> None: ...
    def go_back(self, turn: int) -> object: ...
    def go_on(self) -> None: ...
    def leave(self) -> None: ...
    def measure(self) -> None: ...
