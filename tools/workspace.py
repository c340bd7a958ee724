"""The folder that the model may work in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ossia.tools.own import Own

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ossia.tools.sandbox.git.copy import Moved
    from ossia.tools.spec import Taint
    from ossia.tools.tree import State
    from ossia.tools.undo.stored import Bytes

class Keeper(Protocol):
    """Keeps what a write or a command is about to change, so that it can be undone."""

    def keep(self, path: Path) -> None:
        """Call it before `path` (absolute, inside the workspace) is written, made, renamed or deleted.

        Only the first call of a turn for a path counts. Kept are its bytes and mode, or that it didn't exist (and which
        folders above it didn't). Raises `ToolFailed` when it can't be kept: then nothing may be changed.
        """

    def commands_cannot_be_undone(self) -> str:
        """The reason why a command's changes couldn't be undone now, in words for people; empty if they can."""

    def before_command(self) -> Any | None:
        """Keep all that a command may change; None if that is too much. Raises `ToolFailed`: then run nothing."""

    def after_command(self, before: Any, moved: Collection[int] = ()) -> None:
        """Note what the command changed. `before`: as the same keeper's `before_command` gave it.

        `moved`: inodes that were there already. Where no copy of them is kept, undo doesn't remove them elsewhere.
        """

    def keep_changes(self, before: Mapping[str, State], after: Mapping[str, State], kept: Bytes) -> None:
        """Note changes of a command where not everything is kept: what was there and is now, and the bytes."""

    def note_git(self, moved: Sequence[Moved]) -> None:
        """Note the references of the repository that a command moved: undo says how to bring them back."""

    def ignored_line(self) -> str:
        """A line about what git ignores here, which undo doesn't restore; "" if that was said already."""


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
    def taints(self) -> frozenset[Taint]:
        """The kinds of text in it: the user's own, and somebody else's too unless the user trusts the folder."""
        return frozenset({"private"}) if self.trusted else frozenset({"private", "outside"})
