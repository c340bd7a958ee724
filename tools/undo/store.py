"""A workspace as it was last seen: files are read once, after that it is enough to stat each name.

A file with the same inode, size, mode and times has the same bytes: a program can't set the time of change (ctime). If
that time is so close to the look that the clock couldn't tell two writes apart, the file is read again next time (as
git does with its "racily clean" files). What git ignores isn't looked into, but for tracked files.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ossia.tools.files import make_private
from ossia.tools.tree import UNREAD, Opened, State, Tree, open_file, opened_below
from ossia.tools.undo.shadow import IGNORES, GitFailed, Objects, Rules, holds
from ossia.tools.undo.stored import UNREADABLE, append, row_of, state_of

Key = tuple[int, int, int, int, int]
"""mode, inode, size, mtime in ns, ctime in ns; of a folder the mode and the inode alone."""
_SAME_TICK_NS = 20_000_000
"""Linux's clock for files ticks every 1 to 10 ms."""
_CHANGES = -1
"""The mode in the key of what must be read again every time."""
_MAX_RULES_BYTES, _MAX_INDEX_BYTES = 1 << 20, 256 << 20
_SPARE_LINES = 5_000
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
class Known:
    """A path's state, and the key to recognise it by. `listed`: False for a folder that couldn't be listed."""

    key: Key
    state: State
    listed: bool = True


@dataclass(slots=True)
class Snapshot:
    """A workspace at one moment. `repositories`: each `.git`. `unlisted`: folders that are closed to us.

    `ignored`: what git ignores, a folder with `/` at its end.
    """

    known: dict[str, Known] = field(default_factory=dict)
    repositories: list[str] = field(default_factory=list)
    unlisted: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    keys: dict[str, Key] = field(default_factory=dict)
    size_bytes: int = 0


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
        self._folder, self._tree, self._limits, self._left_out = folder, tree, limits, frozenset(left_out)
        self.objects, self._rules = Objects(git, folder / "git"), Rules(git, folder)
        self._list_file, self._list_status = folder / "seen.jsonl", (0, 0, 0)
        self._seen: dict[str, Known] = {}
        self._ignored: set[str] = set()
        self._listed_rules: dict[str, bytes] = {}
        self._tracked: list[bytes] = []
        self._index_time = 0
        self._lines, self._stale_bytes = 0, math.inf
        self.new_rules = True
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
                found.known[path] = Known((_CHANGES, status.st_ino, 0, 0, 0), State("dir", mode))
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
        return frozenset(self._ignored)

    def last_seen(self) -> Snapshot:
        """The last look, by whichever process."""
        self._load()
        closed = {path for path, one in self._seen.items() if not one.listed}
        return Snapshot(dict(self._seen), unlisted=closed, ignored=set(self._ignored))

    def _look(self, before: Collection[str] | None) -> Snapshot:
        self._load()
        now_ns = self.clock_ns()
        if before is None and self.new_rules:
            self._read_index()
        try:
            found = self._walk(before)
        finally:
            self._rules.forget()
        self.new_rules = self.new_rules and before is not None
        seen, changed, read = self._seen, dict[str, Known](), self._may_read(found, before is not None)
        with self.objects.saving() as saving:
            for path, key in found.keys.items():
                changed[path] = self._read(path, key, now_ns, path not in found.unlisted, saving.save, read)
        found.known |= changed
        missing = (*(seen.keys() - found.known.keys()), *(self._ignored - found.ignored))
        gone = [path for path in missing if path not in found.known and path not in found.ignored]
        newly_ignored = found.ignored - self._ignored
        self._stale_bytes += sum(seen[path].key[2] for path in (*gone, *changed) if path in seen)
        self._seen, self._ignored, found.keys = dict(found.known), set(found.ignored), {}
        if changed or gone or newly_ignored or self._rules.files != self._listed_rules:
            self._append(changed, gone, newly_ignored)
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
        again = (_CHANGES, *key[1:])
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

    # -- the walk ------------------------------------------------------------------------------------------------------

    def _walk(self, before: Collection[str] | None) -> Snapshot:
        """Every name that git doesn't ignore, level by level, but for the contents of the workspace's own `.git`.

        Ends beyond the limit of files, unless it is compared with a look `before`. A `.git` at the top that wasn't
        there then is walked through. `keys` has what isn't as it was seen last.
        """
        fresh = before is None and self.new_rules
        anew = fresh and self._drop_old_rules()
        while not self._descend(found := Snapshot(), before, fresh, anew):
            anew = True  # there are new rules: what was seen may be ignored now
        return found

    def _descend(self, found: Snapshot, before: Collection[str] | None, fresh: bool, anew: bool) -> bool:
        own = before is None or ".git" in before
        level = [""]
        while level:
            names: dict[str, Key] = {}
            below: list[str] = []
            for prefix in level:
                self._list(prefix, names, below, found, own=own, fresh=fresh, anew=anew)
            if fresh and self._add_rules(names) and not anew:
                return False
            self._ask(names, anew)
            for path, key in names.items():
                folder = stat.S_ISDIR(key[0])
                name = f"{path}/" if folder else path
                if name in self._ignored and not holds(self._tracked, name):
                    found.ignored.add(name)
                    continue
                known = self._seen.get(path)
                if known is not None and known.key == key:
                    found.known[path] = known
                else:
                    found.keys[path] = key
                found.size_bytes += key[2]
                if folder:
                    below.append(name)
            if before is None and len(found.keys) + len(found.known) > self._limits.command_files:
                break
            level = below
        return True

    def _list(self, prefix: str, names: dict[str, Key], below: list[str], found: Snapshot, *,
              own: bool, fresh: bool, anew: bool) -> None:  # fmt: skip
        """Add the names in a folder to `found` and `below` if they are as they were seen last, else to `names`."""
        try:
            entries = os.scandir(f"{self._tree.root}/{prefix}")
        except OSError:
            found.unlisted.add(prefix.rstrip("/"))
            return
        seen, same, left_out = self._seen, found.known, self._left_out
        with entries:  # for 2,000 files this takes 8 ms, 6 of them in scandir and lstat (measured): so no other calls
            for entry in entries:
                path = prefix + entry.name
                if entry.name == ".git" and not entry.is_symlink():
                    found.repositories.append(path)
                    if own and not prefix:
                        continue
                if path in left_out:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except PermissionError:  # it may be listed, but not entered
                    found.unlisted.add(prefix.rstrip("/"))
                    continue
                except OSError:  # it vanished meanwhile
                    continue
                mode, inode = status.st_mode, status.st_ino
                folder = stat.S_ISDIR(mode)
                key = (mode, inode, 0, 0, 0) if folder else (
                    mode, inode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)  # fmt: skip
                known = seen.get(path)
                if known is None or known.key != key or anew or (fresh and entry.name == IGNORES):
                    names[path] = key
                    continue
                same[path] = known
                found.size_bytes += key[2]
                if folder:
                    below.append(f"{path}/")

    # -- what git ignores ----------------------------------------------------------------------------------------------

    def _ask(self, names: Mapping[str, Key], anew: bool) -> None:
        """Note which of the names are ignored. Known ones are only asked about `anew`, for other rules."""
        asked = []
        for path, key in names.items():
            if anew or path not in self._seen:
                name = f"{path}/" if stat.S_ISDIR(key[0]) else path
                if (anew or name not in self._ignored) and ".git/" not in f"{path}/":  # a repository is kept whole
                    asked.append(name)
        if asked:
            self._ignored = (self._ignored - set(asked)) | self._rules.ignored(asked)

    def _drop_old_rules(self) -> bool:
        """Forget rules whose files are gone; true if there were any."""
        gone = [path for path in self._rules.files if (status := self._tree.status(path)) is None
                or not stat.S_ISREG(status.st_mode)]  # fmt: skip
        for path in gone:
            del self._rules.files[path]
        return bool(gone)

    def _add_rules(self, names: Mapping[str, Key]) -> bool:
        """Read the rules among the names; true if there are new ones."""
        new = False
        for path, key in names.items():
            if not path.endswith(IGNORES) or path.rpartition("/")[2] != IGNORES or not stat.S_ISREG(key[0]):
                continue
            text = self._text(path, _MAX_RULES_BYTES)
            if text is not None and self._rules.files.get(path) != text:
                self._rules.files[path], new = text, True
        return new

    def _read_index(self) -> None:
        """Read which files the workspace's own repository tracks."""
        status = self._tree.status(".git/index")
        at = 0 if status is None else status.st_mtime_ns
        if at != self._index_time:
            index = self._text(".git/index", _MAX_INDEX_BYTES)
            self._tracked, self._index_time = self._rules.tracked(index) if index else [], at

    def _text(self, path: str, most: int) -> bytes | None:
        """A small file's bytes; None if it can't be read, or is larger."""
        *above, name = path.split("/")
        with suppress(OSError), opened_below(self._tree.root, above) as folder:
            with os.fdopen(open_file(name, folder), "rb") as file:
                text = file.read(most + 1)
            return text if len(text) <= most else None
        return None

    # -- the list on disk ----------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Drop what is no longer in the workspace if it may take too much room: it may at first, and after changes."""
        if self._stale_bytes <= self._limits.spare_bytes:
            return
        self._stale_bytes = 0
        room = sum(known.key[2] for known in self._seen.values()) + self._limits.spare_bytes
        if self.objects.size_bytes() > room:
            wanted = {known.state.hash for known in self._seen.values()
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

    def _load(self) -> None:
        """Read the list, unless it is as we left it: another ossia in the same workspace may have added to it."""
        make_private(self._folder)
        try:
            status = self._list_file.stat()
            if self._list_status == (status.st_ino, status.st_size, status.st_mtime_ns):
                return
            self._list_status = (status.st_ino, status.st_size, status.st_mtime_ns)
            lines = self._list_file.read_bytes().split(b"\n")
        except FileNotFoundError:
            self._seen, self._ignored, self._rules.files, self._lines = {}, set(), {}, 0
            return
        self._seen, self._ignored, self._lines = {}, set(), len(lines)
        for line in lines[:-1]:  # after the last newline there is nothing, or what a crash left
            with suppress(*UNREADABLE):
                self._take(*json.loads(line))
        self._listed_rules = dict(self._rules.files)
        kept = self.objects.names()
        for path, known in self._seen.items():
            if known.state.kind == "file" and known.state.readable and known.state.hash not in kept:
                lost = replace(known.state, hash=f"{UNREAD}lost")
                self._seen[path] = Known((_CHANGES, *known.key[1:]), lost)

    def _take(self, path: str, *row: Any) -> None:
        """Take over one line of the list."""
        match row:
            case ():
                self._seen.pop(path, None)
                self._ignored.discard(path)
            case ("ignored",):
                self._ignored.add(path)
            case ("rules", rules):
                self._rules.files = {str(name): text.encode("latin-1") for name, text in rules.items()}
            case ((mode, inode, size, changed, status_changed), state, listed):
                key = (mode, inode, size, changed, status_changed)
                self._seen[path] = Known(key, state_of(state), bool(listed))

    def _append(self, changed: Mapping[str, Known], gone: Iterable[str], ignored: Iterable[str]) -> None:
        """Add what is new to the list, or write it anew if most of it is old."""
        self._lines += len(changed) + 1
        anew = self._lines > 2 * len(self._seen) + _SPARE_LINES
        if anew:
            changed, gone, ignored, self._lines = self._seen, (), self._ignored, len(self._seen)
        rows: list[list[object]] = [[path] for path in gone]
        rows += [[path, "ignored"] for path in ignored]
        rows += [[path, known.key, row_of(known.state), known.listed] for path, known in changed.items()]
        if anew or self._rules.files != self._listed_rules:
            self._listed_rules = dict(self._rules.files)
            rows.append(["", "rules", {path: text.decode("latin-1") for path, text in self._rules.files.items()}])
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        if anew:
            temporary = self._list_file.with_suffix(".new")
            temporary.unlink(missing_ok=True)
            append(temporary, data)
            temporary.replace(self._list_file)
        else:
            append(self._list_file, data)
        status = self._list_file.stat()
        self._list_status = (status.st_ino, status.st_size, status.st_mtime_ns)


def _below(path: str, folders: Collection[str]) -> bool:
    """Does it lie in a folder that couldn't be listed before? It may have been there all the time."""
    return any(path.startswith(f"{folder}/") for folder in folders)
