"""Restores a turn's files: first checks, then removals, then what must be made. References of git: the way back."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ossia.tools.tree import State, Tree
from ossia.tools.undo.stored import Bytes
from ossia.tools.undo.turns import TurnFolder

CHANGED = "changed since"
NOT_KEPT = "its earlier content wasn't kept"
NOT_EMPTY = "the folder now holds other files"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that undo left as it is, and why, in words for people."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of undo. `restored`: paths with their old content or mode. `removed`: those that the turn had made.

    `git`: the commands by which the user brings back what the turn did to the repository (`git_back.py`).

    `Undone("fix the tests", restored=("a.py",), removed=("b.py",), skipped=(Skipped("c.py", "changed since"),))`
    """

    label: str
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    git: tuple[str, ...] = ()


@dataclass(slots=True)
class Work:
    """The paths to restore, with their states, and those that can't be, with the reason."""

    current: dict[str, State] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def undo_turn(turn: TurnFolder, tree: Tree, *, force: bool = False, skip: bool = False, dry_run: bool = False,
              leave: Mapping[str, str] = NOTHING) -> Undone:  # fmt: skip
    """Undo one turn and forget it; what was skipped stays in it, unless `skip`. `dry_run` changes nothing.

    `leave`: paths that are skipped, with the reason.
    """
    if not dry_run:
        _open_folders(turn, tree)
    work, git = checked(turn, tree, force=force, leave=leave), ways_back(turn.moved, tree.root)
    before = dict(turn.before)
    if not dry_run:
        _apply(before, turn.bytes, tree, work)
        turn.keep_only(() if skip else work.skipped)
    done = [path for path in work.current if path not in work.skipped]
    return Undone(
        turn.label,
        tuple(path for path in done if before[path].kind != "absent"),
        tuple(path for path in done if before[path].kind == "absent"),
        tuple(Skipped(path, reason) for path, reason in sorted(work.skipped.items())),
        git,
    )


def _open_folders(turn: TurnFolder, tree: Tree) -> None:
    """Open folders that the turn closed to their owner: they hide their content. The old modes come back at the end."""
    for path in sorted(path for path, before in turn.before.items() if before.kind == "dir"):
        with suppress(OSError):  # what is below it is then skipped, with the reason
            now = tree.state(path)
            if now.kind == "dir" and now.mode & 0o700 != 0o700:
                tree.set_mode(path, now.mode | 0o700)


def checked(turn: TurnFolder, tree: Tree, *, force: bool = False, leave: Mapping[str, str] = NOTHING,
            now: Mapping[str, State] = NOTHING) -> Work:  # fmt: skip
    """The work of undoing a turn. `now`: states that are known, or will be by then; the others are read."""
    work = Work()
    for path, before in turn.before.items():
        try:
            current = now[path] if path in now else tree.state(path)
        except OSError as error:
            work.skipped[path] = error.strerror or str(error)
            continue
        if current.equals(before):
            continue
        after = turn.after.get(path)
        if path in leave:
            work.skipped[path] = leave[path]
        elif before.kind == "other" or (before.kind == "file" and not turn.bytes.path_of(before.hash).exists()):
            work.skipped[path] = NOT_KEPT
        elif after is not None and not force and not current.same_content(after):
            work.skipped[path] = CHANGED
        else:
            work.current[path] = current
    _leave_repositories_in_use(turn, tree, work, force, now)
    return work


def _leave_repositories_in_use(turn: TurnFolder, tree: Tree, work: Work, force: bool,
                               now: Mapping[str, State]) -> None:  # fmt: skip
    """A repository that the turn made, and that the user went on with, stays whole: half of one is of no use."""
    made = [path for path, before in turn.before.items()
            if path.rpartition("/")[2] == ".git" and before.kind == "absent"]  # fmt: skip
    for top in [] if force else made:
        whole = {path for path in turn.before if path == top or path.startswith(f"{top}/")}
        there = {(Path(folder) / name).relative_to(tree.root).as_posix()
                 for folder, folders, files in os.walk(tree.root / top) for name in (*folders, *files)}  # fmt: skip
        there = {path for path in there if path not in now or now[path].kind != "absent"}
        if there - whole or whole & work.skipped.keys():
            for path in whole & work.current.keys():
                del work.current[path]
                work.skipped[path] = CHANGED


def restore_all(before: Mapping[str, State], kept: Bytes, tree: Tree) -> dict[str, str]:
    """Restore what was at these paths, whatever is there now. Returns what couldn't be restored, with the reason."""
    work = Work()
    for path, state in before.items():
        work.current[path] = tree.state(path)
        if state.kind == "other" or (state.kind == "file" and not kept.path_of(state.hash).exists()):
            work.skipped[path] = NOT_KEPT
    _apply(before, kept, tree, work)
    return work.skipped


def _apply(before: Mapping[str, State], kept: Bytes, tree: Tree, work: Work) -> None:
    deep_first = sorted(work.current, key=lambda path: path.count("/"), reverse=True)
    in_the_way = [path for path in deep_first
                  if work.current[path].kind not in ("absent", before[path].kind)]  # fmt: skip
    _each(work, in_the_way, tree.remove)
    links = [path for path in deep_first if before[path].kind == work.current[path].kind == "link"]
    _each(work, links, tree.remove)
    _each(work, [path for path in reversed(deep_first) if before[path].kind == "dir"], tree.make_folder)
    for path in deep_first:
        state = before[path]
        if state.kind == "file" and not state.same_content(work.current[path]):
            _each(work, [path], lambda path: tree.write(path, before[path], kept.path_of(before[path].hash)))
        elif state.kind == "link":
            _each(work, [path], lambda path: tree.make_link(path, before[path].target))
        elif state.kind == "fifo" != work.current[path].kind:
            _each(work, [path], tree.make_fifo)
    modes = [path for path in deep_first if before[path].kind in ("file", "dir", "fifo")]
    _each(work, modes, lambda path: tree.set_mode(path, before[path].mode))


def _each(work: Work, paths: Iterable[str], action: Callable[[str], None]) -> None:
    """Do it at each path that hasn't failed yet."""
    for path in paths:
        if path in work.skipped:
            continue
        try:
            action(path)
        except OSError as error:
            full = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            work.skipped[path] = NOT_EMPTY if full else error.strerror or str(error)


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
