"""The folder that the model may work in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tools.own import Own

if TYPE_CHECKING:
    from tools.spec import Taint


class BeforeCommand(Protocol):
    """The workspace before a command, as its keeper recorded it."""

    @property
    def repositories(self) -> tuple[str, ...]:
        """Each `.git` in it, which a command must not be able to change."""


class Keeper(Protocol):
    """Keeps what a write or a command is about to change, so that it can be undone."""

    def keep(self, path: Path) -> None:
        """Call it before `path` (absolute, inside the workspace) is written, made, renamed or deleted.

        Only the first call of a turn for a path counts. Kept are its bytes and mode, or that it didn't exist (and which
        folders above it didn't). Raises `ToolFailed` when it can't be kept: then nothing may be changed.
        """

    def commands_cannot_be_undone(self) -> str:
        """Why a command's changes couldn't be undone now, in words for people; empty if they can."""

    def before_command(self) -> BeforeCommand | None:
        """Keep all that a command may change; None if that is too much. Raises `ToolFailed`: then run nothing."""

    def after_command(self, before: Any, *, git_is_free: bool = False) -> tuple[str, ...]:
        """Note what the command changed. `before`: as the same keeper's `before_command` gave it.

        Returns a line for each thing it left that runs or instructs later. `git_is_free`: the command was able to write
        to the workspace's own `.git`.
        """


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder and what is known about it. `root` is resolved; `trusted`: the user said that its files are their own.

    `keeper` None: writes can't be undone (a workspace that is only read). `own`: what of ossia itself lies in it.
    """

    root: Path
    trusted: bool = False
    keeper: Keeper | None = None
    own: Own = field(default_factory=Own)

    @property
    def brings(self) -> frozenset[Taint]:
        """The kinds of text in it: the user's own, and somebody else's too unless the user trusts the folder."""
        return frozenset({"private"}) if self.trusted else frozenset({"private", "outside"})
