"""A chat as its parts know it: the model, reading ahead, approvals, titles."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ossia.agent.build import Model
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.sessions.session import Session
from ossia.agent.worker import Worker
from ossia.cli.chat.background import Background
from ossia.cli.chat.notices import Notices
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings
from ossia.tools.build import Toolset
from ossia.tools.folder import Folder

if TYPE_CHECKING:
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.face import Face


class Loaded(NamedTuple):
    """A model that answers, and its tools."""

    model: Model
    tools: Toolset


class Owner(Protocol):
    """See `cli.chat.chat.Chat`, which is one. On the loop's thread, but for `doing`."""

    conversation: Conversation
    face: Face
    background: Background
    notices: Notices
    resolved: Resolved
    folder: Folder | None
    control: Control | None

    @property
    def settings(self) -> Settings: ...
    @property
    def worker(self) -> Worker: ...
    @property
    def opened(self) -> OpenSession: ...
    @property
    def session(self) -> Session: ...
    @property
    def store(self) -> SessionStore | None: ...
    @property
    def loaded(self) -> Loaded | None: ...
    @property
    def queue(self) -> Sized: ...
    def use_settings(self, resolved: Resolved, folder: Folder | None, *, before: Settings) -> None: ...
    def tell(self, error: Exception, *, of: str = "") -> None: ...
    def doing(self, text: str) -> None: ...
    def go_on(self) -> None: ...
    def take_back(self) -> None: ...
    def leave(self) -> None: ...
    def measure(self) -> None: ...
    def read_ahead(self) -> None: ...
