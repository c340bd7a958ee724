"""The folder that the model may work in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tools.own import Own

if TYPE_CHECKING:
    from tools.spec import Taint


class Keeper(Protocol):
    """Keeps what a write is about to change, so that it can be undone."""

    def keep(self, path: Path) -> None:
        """Call it before `path` (absolute, inside the workspace) is written, made, renamed or deleted.

        The first call of a turn for a path counts: its bytes and mode, or that it wasn't there (with the folders above
        it that weren't either). Raises `ToolFailed` when it can't be kept: then nothing may be changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder and what goes with it. `root` is resolved; `trusted`: the user said that its files are their own.

    `keeper` None: writes can't be undone (a workspace that is only read). `own`: what of ossia itself lies in it.
    """

    root: Path
    trusted: bool = False
    keeper: Keeper | None = None
    own: Own = field(default_factory=Own)

    @property
    def brings(self) -> frozenset[Taint]:
        """What its text is: the user's own, and somebody else's too unless the user trusts the folder."""
        return frozenset({"private"}) if self.trusted else frozenset({"private", "outside"})
