"""The way back for a repository: undo restores files, and only says how to bring back references that a turn moved."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

Moves = Mapping[str, tuple[str, str]]
"""The old and the new value of HEAD and of references: `{"refs/heads/main": ("0bd15a…", "77c1e0…")}`, "" for none."""


def ways_back(moves: Moves, root: Path) -> tuple[str, ...]:
    """The commands that undo these moves, to be run by the user, after the files: `("git reset 0bd15a…",)`.

    For a reference that somebody moved since there is a comment instead: `"# refs/heads/main was moved since"`.
    """
    moved = {name: move for name, move in moves.items() if move[0] != move[1]}
    now = _now(root)
    lines = [f"# {name} was moved since" for name in moved if now is not None and now.get(name, "") != moved[name][1]]
    moved = {name: move for name, move in moved.items() if f"# {name} was moved since" not in lines}
    head, _ = moves.get("HEAD", ("", ""))
    branch = head.removeprefix("ref: ")
    words: tuple[str, ...]
    for name, (old, new) in moved.items():
        if name == "HEAD":
            words = ("symbolic-ref", "HEAD", branch) if branch != old else ("update-ref", "--no-deref", "HEAD", old)
        elif name == "refs/stash":
            words = ("stash", "drop") if not old else ("stash", "store", old)
        elif name == branch and old and "HEAD" not in moved:
            words = ("reset", old)
        else:
            words = ("update-ref", name, old) if old else ("update-ref", "-d", name, new)
        lines.append(shlex.join(("git", *words)))
    if "HEAD" in moved or (branch in moved and not moved[branch][0]):
        lines.append("git reset")
    return tuple(lines)


def _now(root: Path) -> dict[str, str] | None:
    """The values of references now; None if they can't be read."""
    from ossia.tools.sandbox.git._files import GitRefused, read, references, value_of  # few turns need them
    from ossia.tools.sandbox.repository import NotShown, folders_of

    try:
        own, common = folders_of(root, root)
        return {**references(common), "HEAD": value_of(read(own, "HEAD") or b"", "HEAD")}
    except (GitRefused, NotShown, OSError, ValueError):
        return None
