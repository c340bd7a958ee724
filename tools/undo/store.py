"""A workspace as it was last seen: files are read once, after that it is enough to stat each name.

A file with the same inode, size, mode and times has the same bytes: a program can't set the time of change (ctime). If
that time is so close to the look that the clock couldn't tell two writes apart, the file is read again next time (as
git does with its "racily clean" files). What git ignores isn't looked into, but for tracked files.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.files import make_private
from ossia.tools.tree import UNREAD, Opened, State, Tree
from ossia.tools.undo.seen import CHANGES, Key, Known, Seen
from ossia.tools.undo.shadow import GitFailed, Objects, Rules
from ossia.tools.undo.walk import Snapshot, Walk

_SAME_TICK_NS = 20_000_000
"""Linux's clock for files ticks every 1 to 10 ms."""
_ASK_AGAIN_S = 60.0
"""The wait before a workspace that held too much is looked at again."""


class TooMuch(Exception):
    """The workspace holds more than is kept; the message says what, and the limit."""


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """The most that is kept. `file_bytes`: of a file that a tool writes. `command_*`: of a workspace before a command.
    `spare_bytes`: what its copies may take beyond the size of its files.

    The last `turns` turns are kept, or as many of them as fit into `total_bytes`.
    """

    file_bytes: int = 64 << 20
    command_bytes: int = 2 << 30
    command_files: int = 300_000
    spare_bytes: int = 64 << 20
    turns: int = 100
    total_bytes: int = 512 << 20


@dataclass(frozen=True, slots=True)
class Changes:
    """The states at the paths that a command changed. Where too much was left to be read, `after` has none."""

    before: Mapping[str, State]
    after: Mapping[str, State]


class Store:
    """The last look at one workspace: `folder` holds the shadow git and `seen.jsonl`, to which changes are appended.

    `looked`: all of it was read once, so that a look is cheap now. `too_much`: why it can't be looked at. `left_out`:
    our own files in it. `git`: the program.
    """

    def __init__(self, folder: Path, tree: Tree, git: Path, limits: KeepLimits, left_out: Collection[str]) -> None:
        self._folder, self._tree, self._limits = folder, tree, limits
        self.objects, self._rules = Objects(git, folder / "git"), Rules(git, folder)
        self._seen = Seen(folder / "seen.jsonl", self._rules)
        self._walk = Walk(tree, self._seen, self._rules, left_out, limits.command_files)
        self._stale_bytes = math.inf
        self.looked = False
        self.too_much, self._ask_again_at = "", 0.0

    # -- looking -------------------------------------------------------------------------------------------------------

    def look_first(self) -> bool:
        """Read all of it. False if that is too much, or was less than a minute ago (`too_much` says why)."""
        if time.monotonic() < self._ask_again_at:
            return False
        try:
            self._look(None)
        except TooMuch as error:
            self.give_up(error)
            return False
        self.looked = True
        return True

    def give_up(self, error: TooMuch) -> None:
        """Note that it holds more than is kept: it isn't looked at again for a while."""
        self.too_much, self._ask_again_at, self.looked = str(error), time.monotonic() + _ASK_AGAIN_S, False

    def look(self, opened: Opened, before: Collection[str] | None = None) -> Snapshot:
        """The workspace now, with folders that are closed to their owner: these are `opened`, but shown as they were.

        `before`: the repositories at an earlier look, to which this one is compared: rules that a command wrote don't
        count. Raises `TooMuch`, or `OSError` (a full disk).
        """
        while True:
            found = self._look(before)
            if not [path for path in sorted(found.unlisted) if opened.open(path)]:
                break
        for path in opened:
            if path in found.known and (status := self._tree.status(path)) is not None:
                mode = opened.mode_of(path, status)
                found.known[path] = Known((CHANGES, status.st_ino, 0, 0, 0), State("dir", mode))
        return found

    def changes(self, before: Snapshot, opened: Opened, moved: Collection[int] = (), since_ns: int = 0) -> Changes:
        """Compare with a look before. `moved`: inodes that were there; without kept bytes they aren't removed."""
        now = self.look(opened, before.repositories).known
        changed = [path for path, known in now.items()
                   if (was := before.known.get(path)) is not known  # an unchanged file keeps its object
                   and (was is None or not was.state.equals(known.state))]  # fmt: skip
        changed = [path for path in changed if path in before.known or not _below(path, before.unlisted)]
        left = self._moved([path for path in changed if path not in before.known], before, now, moved, since_ns)
        changed = [path for path in changed if path not in left]
        paths = sorted({*changed, *(before.known.keys() - now.keys())})
        befores = {path: before.known[path].state if path in before.known else State() for path in paths}
        afters = {path: now[path].state if path in now else State() for path in paths}
        return Changes(befores, {path: state for path, state in afters.items() if state.hash != UNREAD})

    def _moved(self, new: list[str], before: Snapshot, now: Mapping[str, Known], there: Collection[int],
               since_ns: int) -> set[str]:  # fmt: skip
        """Those of the new paths that were moved from where nothing is kept, with the folders above them."""
        unkept = {*there} - {known.key[1] for known in before.known.values()} if new and there else set()
        found: set[str] = set()
        for path in new:
            if now[path].key[1] in unkept and now[path].state.kind != "dir":
                status = self._tree.status(path)  # a new file may have the inode of one that was removed
                if status is not None and status.st_mtime_ns <= since_ns:
                    found |= {path, *(path[:at] for at, character in enumerate(path) if character == "/")}
        return found

    @property
    def ignored(self) -> frozenset[str]:
        """The names that git ignores, a folder with `/` at its end."""
        return frozenset(self._seen.ignored)

    def ignores(self, names: list[str]) -> set[str]:
        """Those of the names that git ignores by the rules of the last look: see `Rules.ignored`. Raises `OSError`."""
        try:
            return self._rules.ignored(names)
        finally:
            self._rules.forget()

    def read_rules(self) -> None:
        """Read the rules of ignored files anew at the next look: call it at the beginning of a turn."""
        self._walk.new_rules = True

    def last_seen(self) -> Snapshot:
        """The last look, by whichever process."""
        self._load()
        closed = {path for path, one in self._seen.known.items() if not one.listed}
        return Snapshot(dict(self._seen.known), unlisted=closed, ignored=set(self._seen.ignored))

    def _load(self) -> None:
        make_private(self._folder)
        self._seen.load(self.objects)

    def _look(self, before: Collection[str] | None) -> Snapshot:
        self._load()
        now_ns = self.clock_ns()
        found, seen, changed = self._walk.walk(before), self._seen, dict[str, Known]()
        read = self._may_read(found, before is not None)
        with self.objects.saving() as saving:
            for path, key in found.keys.items():
                changed[path] = self._read(path, key, now_ns, path not in found.unlisted, saving.save, read)
        found.known |= changed
        missing = (*(seen.known.keys() - found.known.keys()), *(seen.ignored - found.ignored))
        gone = [path for path in missing if path not in found.known and path not in found.ignored]
        newly_ignored = found.ignored - seen.ignored
        self._stale_bytes += sum(seen.known[path].key[2] for path in (*gone, *changed) if path in seen.known)
        seen.known, seen.ignored, found.keys = dict(found.known), set(found.ignored), {}
        seen.append(changed, gone, newly_ignored)
        return found

    def _may_read(self, found: Snapshot, after: bool) -> bool:
        """Is there room for what is new? Before a command, raises `TooMuch` if there isn't."""
        most, free = self._limits, shutil.disk_usage(self._folder).free
        new_bytes = sum(key[2] for key in found.keys.values())
        if len(found.keys) + len(found.known) > most.command_files or found.size_bytes > most.command_bytes:
            much = f"{most.command_files:,} files or {most.command_bytes >> 20:,} MB"
            error = TooMuch(f"the workspace holds more than {much} that git doesn't ignore")
        elif new_bytes > free // 2:
            error = TooMuch(f"{new_bytes >> 20:,} MB would be copied, and {free >> 20:,} MB are free on the disk")
        else:
            return True
        if not after:
            raise error
        self.give_up(error)
        return found.size_bytes <= most.command_bytes and new_bytes <= free // 2

    def _read(self, path: str, key: Key, now_ns: int, listed: bool, save: Callable[[int], str], read: bool) -> Known:
        mode = stat.S_IMODE(key[0])
        again = (CHANGES, *key[1:])
        if stat.S_ISDIR(key[0]):
            return Known(key if listed else again, State("dir", mode), listed)
        if stat.S_ISREG(key[0]) and not read:
            return Known(again, State("file", mode, UNREAD))
        try:
            state = self._tree.state(path, keep=save)
        except OSError as error:
            if isinstance(error, GitFailed) or error.errno in (errno.ENOSPC, errno.EDQUOT):  # the file is not at fault
                raise
            state = State("file", mode, f"{UNREAD}{key[4]}")
        return Known(again if key[4] >= now_ns - _SAME_TICK_NS else key, state)

    def collect(self) -> None:
        """Drop what is no longer in the workspace if it may take too much room: it may at first, and after changes."""
        if self._stale_bytes <= self._limits.spare_bytes:
            return
        self._stale_bytes = 0
        room = sum(known.key[2] for known in self._seen.known.values()) + self._limits.spare_bytes
        if self.objects.size_bytes() > room:
            wanted = {known.state.hash for known in self._seen.known.values()
                      if known.state.kind == "file" and known.state.readable}  # fmt: skip
            with suppress(OSError):  # a full disk: the next one may do it
                self.objects.keep_only(wanted)

    def tick_ns(self) -> int:
        """The present time, by the clock of the file system: what is written after this call is newer."""
        now_ns, give_up_at = self.clock_ns(), time.monotonic_ns() + _SAME_TICK_NS
        while self.clock_ns() == now_ns and time.monotonic_ns() < give_up_at:
            time.sleep(0.001)
        return now_ns

    def clock_ns(self) -> int:
        """The present time, by the clock of the file system."""
        clock = self._folder / "clock"
        clock.touch(mode=0o600)
        os.utime(clock)
        return clock.stat().st_mtime_ns

def _below(path: str, folders: Collection[str]) -> bool:
    """Does it lie in a folder that couldn't be listed before? It may have been there all the time."""
    return any(path.startswith(f"{folder}/") for folder in folders)
