"""The autorun files of a workspace of any size: looked at and kept before a command, compared after it.

A command's effects aren't known before it runs, so nobody could be asked about them.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import ossia
from ossia.tools._scratch import Scratch
from ossia.tools.approval.autorun import (
    BARE,
    Spot,
    has_programs,
    is_bare,
    is_named,
    link_to,
    linked_at_the_top,
    plain,
)
from ossia.tools.approval.installed import NEW, left_installed, new_environments
from ossia.tools.names import escaped
from ossia.tools.tree import UNREAD, Opened, State, Tree
from ossia.tools.undo.restore import restore_all
from ossia.tools.undo.stored import Bytes

MAX_NAMES = 500_000
"""The most names that are looked at before a command, those at the top first."""
_MAX_NEW_NAMES = 2_000_000
_MAX_FILE_BYTES, _MAX_BYTES = 1 << 20, 16 << 20
"""The most that is kept: of one file, and of all. Each counts as 4 kB at least."""
_BLOCK_BYTES = 4096
_MAX_LISTED, _MAX_PART_CHARS = 20, 120
_GIT_CHANGED = "a command changed settings or hooks of repositories, which are as they were again"
_START_CHANGED = "a command changed what Python runs when ossia starts, which is as it was again"
_CLOCK_TICK_NS = 20_000_000
"""Linux's clock for files ticks every 1 to 10 ms: a file changed just before the look may change unseen after it."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A spot with its status. `state`: if it was read."""

    spot: Spot
    status: os.stat_result
    state: State | None = None

    def same(self, other: _Seen) -> bool:
        a, b = self.status, other.status
        return (a.st_mode, a.st_ino, a.st_size, a.st_ctime_ns) == (b.st_mode, b.st_ino, b.st_size, b.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Changed:
    """A command's changes of autorun files: `lines` for the user and the model, and what undo needs.

    `before` and `after` hold the states of each changed path; the bytes lie in `kept` until the look is closed.
    """

    lines: tuple[str, ...]
    before: Mapping[str, State]
    after: Mapping[str, State]
    kept: Bytes


class Look:
    """A look taken before a command; call `changed` after it. Kept bytes lie in a private folder until `close`.

    `left_out`: folders of our own. `repositories`: each `.git`. `inodes`: those of all that is there but not kept: undo
    must not remove them where a command moved them. `not_kept`: what a command could change for good, in
    words ("" if there is nothing): more than is kept, or more names than are looked at.
    """

    def __init__(self, root: Path, *, left_out: Iterable[Path] = (), keep: bool = True,
                 max_names: int = MAX_NAMES) -> None:  # fmt: skip
        self._tree, self._max_names = Tree(root), max_names
        self._left_out = frozenset(path.relative_to(root).as_posix() for path in left_out if path.is_relative_to(root))
        self._scratch = Scratch()
        self._kept = Bytes(self._scratch.path)
        self._taken_ns = self._scratch.path.stat().st_ctime_ns
        self._links = linked_at_the_top(root) if os.access(root, os.R_OK | os.X_OK) else {}
        packages = Path(ossia.__path__[0]).resolve().parent  # a clone, or the environment's site-packages
        inside = packages.relative_to(root).as_posix() if packages.is_relative_to(root) else None
        self._start = None if inside is None else "" if inside == "." else f"{inside}/"
        self._closed: set[str] = set()
        self._gits: set[str] = set()
        self._programs: set[str] = set()
        self.repositories: list[str] = []
        self.inodes: set[int] = set()
        self._listed: set[str] = set()
        self._folders: dict[str, State] = {}
        self._opened = Opened(self._tree)
        with self._opened:
            self._before = {seen.spot.path: seen for seen in self._walk(max_names)}
            self.not_kept = self._keep(read=keep)

    def close(self) -> None:
        """Delete the kept bytes."""
        self._scratch.close()

    # -- before --------------------------------------------------------------------------------------------------------

    def _keep(self, *, read: bool) -> str:
        """Keep the bytes of what fits, small files first; returns what doesn't."""
        left, lost = _MAX_BYTES, Counter[str]()
        files = [seen for seen in self._before.values() if seen.spot.counts and stat.S_ISREG(seen.status.st_mode)]
        for seen in sorted(files, key=lambda seen: (seen.spot.inside == "held", seen.status.st_size)):
            size, path = seen.status.st_size, seen.spot.path
            with suppress(OSError):
                if size <= _MAX_FILE_BYTES and max(size, _BLOCK_BYTES) <= left:
                    left -= max(size, _BLOCK_BYTES)
                    if read:
                        self.inodes.discard(seen.status.st_ino)
                        self._before[path] = replace(seen, state=self._tree.state(path, keep=self._kept.keep))
                    continue
            lost[seen.spot.part] += 1
        for path in self._before if read else ():
            self._note_folders(path)
        parts = [_listed(lost)] if lost else []
        if self._cut:
            parts.append(f"whatever lies beyond the first {self._max_names:,} names")
        return " and ".join(parts)

    def _note_folders(self, path: str) -> None:
        """Note the folders above a path: they must be made again if the command removes them."""
        above = path.rpartition("/")[0]
        while above and above not in self._folders:
            with suppress(OSError):
                if (status := self._tree.status(above)) is not None:
                    self._folders[above] = State("dir", self._opened.mode_of(above, status))
            self._folders.setdefault(above, State())
            above = above.rpartition("/")[0]

    # -- the walk ------------------------------------------------------------------------------------------------------

    def _walk(self, most: int, first: bool = True) -> Iterator[_Seen]:
        """The entries that count or make others count; a folder before its own. Notes what can't be listed."""
        waiting, left, self._cut = [Spot()], most, False
        for at in waiting:  # it grows meanwhile
            if at.path in self._left_out or (not first and at.path in self._closed):
                continue
            self._cut = self._cut or left <= 0
            entries = [] if left <= 0 else self._entries(at.path)
            if entries is None or left <= 0:
                self._closed.add(at.path)
                continue
            left -= len(entries)
            if first:
                self._listed.add(at.path)
                self.inodes.update(entry.inode() for entry in entries)
            plain_names = [plain(entry.name) for entry in entries]
            names = set(plain_names)
            bare = at.inside in ("", "cache", "package") and is_bare(names)
            folder = Spot(at.path, at.path or "HEAD", "git") if bare else at
            if first and folder.inside == "git":
                self._gits.add(folder.part)
            for entry, name in zip(entries, plain_names, strict=True):
                is_folder = entry.is_dir(follow_symlinks=False)
                if not (is_folder or self._links or folder.inside not in ("", "package")
                        or name in BARE or is_named(name)):  # fmt: skip
                    continue  # most files, at once: this makes the walk twice as fast
                spot = self._spot(folder, entry.name, names, first)
                if is_folder and spot.inside != "data":
                    waiting.append(spot)
                if first and entry.name == ".git" and not entry.is_symlink():
                    self.repositories.append(spot.path)
                if spot.counts or name in BARE:
                    with suppress(OSError):  # it vanished meanwhile
                        yield _Seen(spot, entry.stat(follow_symlinks=False))

    def _entries(self, path: str) -> list[os.DirEntry[str]] | None:
        folder = f"{self._tree.root}/{path}"
        if not os.access(folder, os.R_OK | os.X_OK):
            self._opened.open(path)
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except OSError:
            return None

    def _spot(self, folder: Spot, name: str, names: set[str], first: bool) -> Spot:
        spot = folder.below(name)
        if folder.inside == "git" and is_bare(names) and plain(name) == "head" and folder.part in (folder.path, "HEAD"):
            return replace(spot, counts=not _is_git(folder.part))
        if first and spot.inside == "git" and spot.part == spot.path:
            self._gits.add(spot.part)
        if folder.inside == "" and has_programs(names, plain(name)):
            spot = Spot(spot.path, spot.path, "place", counts=True)
            if first:
                self._programs.add(spot.path)
        if not spot.counts and (real := link_to(spot.path, self._links)):
            return Spot(spot.path, real, "place", counts=True)
        return spot

    # -- after ---------------------------------------------------------------------------------------------------------

    def changed(self, *, restore_git: bool, can_undo: bool = True,
                covered: Callable[[Iterable[str]], set[str]] = lambda paths: set()) -> Changed:  # fmt: skip
        """Compare. `restore_git`: settings and hooks of repositories that were there get restored at once, and what
        Python runs when ossia starts.

        `can_undo`: somebody keeps what is returned. `covered`: those of some paths that are kept already, so not
        returned.
        """
        self._left = 2 * _MAX_BYTES  # what was kept, and as much of what is new
        with self._opened:
            after = {seen.spot.path: seen for seen in self._walk(_MAX_NEW_NAMES, first=False)}
            states = {path: pair for path in {**self._before, **after}
                      if (pair := self._pair(self._before.get(path), after.get(path))) is not None}  # fmt: skip
            changes = {path: (after.get(path) or self._before[path]).spot for path in states}
            for path in changes:
                if path in self._before and not changes[path].counts:
                    changes[path] = self._before[path].spot
            changes = {path: spot for path, spot in changes.items() if spot.counts}
            lines: tuple[str, ...] = ()
            if restore_git:
                lines = self._restore(changes, states, lambda spot: spot.part in self._gits, _GIT_CHANGED)
                lines += self._restore(changes, states, self._of_start, _START_CHANGED)
            if self._cut:
                lines = (*lines, f"not all that the command left was looked at: more than {_MAX_NEW_NAMES:,} names")
            kept = covered(changes)
            here = {path: states[path] for path in changes if path not in kept}
            left = left_installed(here, came_or_went=self._came_or_went)
            mine = {path: pair for path, pair in here.items() if path not in left
                    and (path in self._before or self._was_absent(changes[path], after[path]))}  # fmt: skip
            lost = {path: left.get(path, changes[path].part) for path, (was, _) in here.items()
                    if path not in mine or not was.readable}  # fmt: skip
            if changes:
                end = "" if not can_undo else _undo_of(lost, whole=len(lost) == len(changes))
                lines = (f"{self._line(changes, states)}{end}", *lines)
            before = {path: was for path, (was, _) in mine.items()}
            for path in [path for path, (was, _) in mine.items() if was.kind != "absent"]:
                before |= self._lost_folders(path)
            known = {path: now for path, (_, now) in mine.items() if now.readable}
            return Changed(lines, before, known, self._kept)

    def _pair(self, was: _Seen | None, now: _Seen | None) -> tuple[State, State] | None:
        """The states before and after; None if nothing changed."""
        if was and now and was.same(now) and now.status.st_ctime_ns < self._taken_ns - _CLOCK_TICK_NS:
            return None
        pair = self._state(was), self._state(now, read=was is None or was.state is not None)
        return None if pair[0].equals(pair[1]) else pair

    def _state(self, seen: _Seen | None, *, read: bool = False) -> State:
        if seen is None:
            return State()
        if seen.state is not None:
            return seen.state
        status, path = seen.status, seen.spot.path
        mode, owner = stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)
        if stat.S_ISDIR(status.st_mode):
            return State("dir", self._opened.mode_of(path, status), owner=owner)
        if stat.S_ISREG(status.st_mode):
            size = max(status.st_size, _BLOCK_BYTES)
            if not read or status.st_size > _MAX_FILE_BYTES or size > self._left:
                return State("file", mode, f"{UNREAD}{status.st_ino} {status.st_size} {status.st_ctime_ns}", "", owner)
            self._left -= size
        try:
            return self._tree.state_of(path, status)
        except OSError:  # it changed meanwhile, or somebody else closed it to us
            return State("other", mode, owner=owner)

    def _was_absent(self, spot: Spot, now: _Seen) -> bool:
        """Is it new for certain, so that undo may remove it?

        Not what was moved here, nor a part of a new repository, nor what was there all the time and counts only now for
        what lies beside it.
        """
        if now.status.st_ino in self.inodes or (_is_git(spot.part) and spot.part not in self._before):
            return False
        folder, _, name = spot.path.rpartition("/")
        if folder not in self._listed or plain(name) in BARE:
            return True
        at = Spot()
        for name in spot.path.split("/"):
            at = at.below(name)
        return at.counts or spot.part in (self._gits | self._programs | self._links.keys())

    def _came_or_went(self, folder: str) -> bool:
        return folder not in self._listed or self._tree.status(folder) is None

    def _lost_folders(self, path: str) -> dict[str, State]:
        lost = {}
        above = path.rpartition("/")[0]
        while above and self._tree.status(above) is None:
            lost[above] = self._folders.get(above, State())
            above = above.rpartition("/")[0]
        return {folder: state for folder, state in lost.items() if state.kind == "dir"}

    def _of_start(self, spot: Spot) -> bool:
        """Would Python run it when ossia starts? Nothing can be mounted over a file that isn't there yet."""
        if self._start is None or not f"{spot.path}/".startswith(self._start):
            return False
        name = spot.path[len(self._start) :].partition("/")[0]
        return plain(name).partition(".")[0] in ("sitecustomize", "usercustomize")

    def _restore(self, changes: dict[str, Spot], states: dict[str, tuple[State, State]], ours: Callable[[Spot], bool],
                 line: str) -> tuple[str, ...]:  # fmt: skip
        """Restore what a command made or changed of `ours`; returns a line about it."""
        mine = {path: spot.part for path, spot in changes.items() if ours(spot)}
        alive = {part for path, part in mine.items() if states[path][1].kind != "absent"}
        wanted = {path: states[path][0] for path, part in mine.items() if part in alive}
        failed = restore_all(wanted, self._kept, self._tree)
        for path in wanted.keys() - failed.keys():
            del changes[path]
        names = Counter(mine[path] for path in wanted.keys() - failed.keys())
        if not names:
            return ()
        return (f"{line}: {_listed(names)}",)

    def _line(self, changes: dict[str, Spot], states: dict[str, tuple[State, State]]) -> str:
        new, counts = new_environments({path: states[path] for path in changes}), Counter[str]()
        for path, spot in changes.items():
            folder = next((folder for folder in new if f"{spot.part}/".startswith(f"{folder}/")), "")
            part = f"{folder}, {NEW}" if folder else spot.part
            counts[part] += "dir" not in (states[path][0].kind, states[path][1].kind)
        return f"a command changed files that run or instruct later tools: {_listed(counts)}"


def _undo_of(lost: dict[str, str], *, whole: bool) -> str:
    if not lost:
        return "; ossia undo (/undo) restores them"
    if whole:
        return "; ossia undo (/undo) doesn't restore them"
    return f"; ossia undo (/undo) restores all but {_listed(Counter(set(lost.values())))}"


def _is_git(part: str) -> bool:
    return plain(part).endswith(".git")


def _listed(parts: Counter[str]) -> str:
    """`CLAUDE.md, .vscode (3) and 2 more`: those at the top first, packages last."""

    def order(part: str) -> tuple[bool, int, bool, str]:
        return part.endswith(("node_modules", "-packages")), part.count("/"), part.startswith("."), part

    shown = []
    for part in sorted(parts, key=order)[:_MAX_LISTED]:
        name = escaped(part)
        name = name if len(name) <= _MAX_PART_CHARS else f"…{name[-_MAX_PART_CHARS:]}"
        shown.append(name + (f" ({parts[part]:,})" if parts[part] > 1 else ""))
    more = len(parts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
