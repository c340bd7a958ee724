"""An open workspace, with what it brings into a conversation once the user trusts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.tools.approval.trust import Offer
    from ossia.tools.undo.journal import Journal

NOTES = "AGENTS.md"
NOTES_HEAD = f"Notes of the workspace's {NOTES}:"
MAX_NOTES_BYTES = 32_768


@dataclass(frozen=True, slots=True)
class Folder:
    """An open workspace. `notes` is its AGENTS.md as part of the instructions; None if it has none or isn't trusted.

    `brought` is all that may take effect of a trusted folder, as it was when its trust was checked. `warnings` are
    lines for stderr: which parts of the folder are not used, and why.
    """

    workspace: Workspace
    journal: Journal
    brought: Offer | None = None
    warnings: tuple[str, ...] = ()

    @property
    def notes(self) -> str | None:
        data = self.brought.files.get(NOTES, b"") if self.brought else b""
        text = data[:MAX_NOTES_BYTES].decode("utf-8", "replace").strip()
        more = "\n[… cut here]" if len(data) > MAX_NOTES_BYTES else ""
        return f"{NOTES_HEAD}\n\n{text}{more}" if text else None
