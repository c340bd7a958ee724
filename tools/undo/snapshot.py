"""What a workspace holds, found cheaply: files are copied once, after that it is enough to stat each name.

A file with the same inode, size, mode and times has the same bytes: a program can't set the time of change (ctime). If
that time is so close to the scan that the clock couldn't tell two writes apart, the file is read again next time (as
git does with its "racily clean" files).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, get_args

from ossia.tools.files import make_private
from ossia.tools.undo.tree import UNREAD, FileKind, State, Tree

Key = tuple[int, int, int, int, int]
"""mode, inode, size, mtime in ns, ctime in ns; of a folder the mode alone."""
_SAME_TICK_NS = 20_000_000
"""Linux's clock for files ticks every 1 to 10 ms."""
_KIND = 0o170000
NEVER: Key = (-1, 0, 0, 0, 0)
"""The key of what must be read again every time."""
_SMALL_BYTES = 1 << 20
_SPARE_LINES = 5_000
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""The exceptions of reading a line that we didn't write."""


class TooMuch(Exception):
    """The workspace holds more than is kept; the message says what, and the limit."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was found at a path, and the key to recognise it by. `listed`: False for a folder that couldn't be."""

    key: Key
    state: State
    listed: bool = True


@dataclass(slots=True)
class Walk:
    """The names in a workspace. `repositories`: each `.git`. `unlisted`: folders that are closed to us."""

    keys: dict[str, Key] = field(default_factory=dict)
    repositories: list[str] = field(default_factory=list)
    unlisted: set[str] = field(default_factory=set)


def walk(root: Path, *, max_files: int, max_bytes: int, left_out: Iterable[str] = (),
         repositories: Iterable[str] | None = None) -> Walk:  # fmt: skip
    """Every name below `root`, except those `left_out` and the contents of the workspace's own `.git`.

    `repositories`: those of an earlier walk. A `.git` at the top that isn't among them is walked through. None: a
    `.git` there is the workspace's own. Raises `TooMuch` at the limits.
    """
    found = Walk()
    skipped, own = frozenset(left_out), repositories is None or ".git" in repositories
    top, pending = os.fspath(root), [""]
    keys, size = found.keys, 0
    while pending:  # for 2,000 files this takes 8 ms, 6 of them in scandir and lstat (measured): so no other calls
        prefix = pending.pop()
        try:
            entries = os.scandir(f"{top}/{prefix}")
        except OSError:
            found.unlisted.add(prefix.rstrip("/"))
            continue
        with entries:
            for entry in entries:
                name = entry.name
                path = prefix + name
                if name == ".git" and not entry.is_symlink():
                    found.repositories.append(path)
                    if own and not prefix:
                        continue
                if path in skipped:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except PermissionError:  # it may be listed, but not entered
                    found.unlisted.add(prefix.rstrip("/"))
                    continue
                except OSError:  # it vanished meanwhile
                    continue
                mode = status.st_mode
                if mode & _KIND == stat.S_IFDIR:
                    keys[path] = (mode, 0, 0, 0, 0)
                    pending.append(path + "/")
                    continue
                keys[path] = (mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                size += status.st_size
                if len(keys) > max_files or size > max_bytes:
                    raise TooMuch(f"the workspace holds more than {max_files} files or {max_bytes >> 20} MB")
    return found


class Bytes:
    """Files' bytes by their hash, in one private folder. Written atomically, never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, digest: str) -> Path:
        """Where the bytes with that hash lie, if they are kept."""
        return self.folder / digest

    def keep(self, descriptor: int) -> str:
        """Copy what a descriptor reads; returns its hash."""
        if os.fstat(descriptor).st_size <= _SMALL_BYTES:
            data = b"".join(iter(lambda: os.read(descriptor, _SMALL_BYTES), b""))
            digest = hashlib.sha256(data).hexdigest()
            if not self.path_of(digest).exists():
                self._save(digest, data)
            return digest
        hasher = hashlib.sha256()
        temporary = self._new_name()
        with private_file(temporary) as file:
            while chunk := os.read(descriptor, _SMALL_BYTES):
                hasher.update(chunk)
                file.write(chunk)
        temporary.replace(self.path_of(hasher.hexdigest()))
        return hasher.hexdigest()

    def take(self, digest: str, other: Bytes) -> None:
        """Take over bytes from another folder: as a hard link if possible, else as a copy."""
        here, there = self.path_of(digest), other.path_of(digest)
        if here.exists() or not there.exists():
            return
        try:
            os.link(there, here)
        except OSError:
            temporary = self._new_name()
            shutil.copyfile(there, temporary)
            temporary.replace(here)

    def keep_only(self, wanted: set[str]) -> None:
        """Remove all others."""
        for path in list(self.folder.iterdir()):
            if path.name not in wanted:
                with suppress(OSError):
                    path.unlink()

    def _save(self, digest: str, data: bytes) -> None:
        temporary = self._new_name()
        with private_file(temporary) as file:
            file.write(data)
        temporary.replace(self.path_of(digest))

    def _new_name(self) -> Path:
        return self.folder / f"new-{secrets.token_hex(6)}"


class Store:
    """Copies of the files of one workspace as they were last seen, and the list of what was seen.

    `folder` holds `bytes/HASH` and `seen.jsonl`, to which changes are appended; a torn last line is ignored.
    """

    def __init__(self, folder: Path, tree: Tree, *, max_files: int, max_bytes: int, left_out: Iterable[str]) -> None:
        self._folder, self._tree = folder, tree
        self._max_files, self._max_bytes, self._left_out = max_files, max_bytes, tuple(left_out)
        self.bytes = Bytes(folder / "bytes")
        self._list = folder / "seen.jsonl"
        self._seen: dict[str, Known] = {}
        self._list_status: tuple[int, int, int] | None = None
        self._lines = 0
        self._stale_bytes = 0

    def look(self, repositories: Iterable[str] | None = None) -> tuple[dict[str, Known], Walk]:
        """What the workspace holds now, with all its bytes kept. Raises `TooMuch`, or `OSError` (a full disk)."""
        self._load()
        now_ns = self._clock_ns()
        found = walk(self._tree.root, max_files=self._max_files, max_bytes=self._max_bytes, left_out=self._left_out,
                     repositories=repositories)  # fmt: skip
        seen = self._seen
        fresh: dict[str, Known] = {}
        changed: dict[str, Known] = {}
        for path, key in found.keys.items():
            known = seen.get(path)
            if known is None or known.key != key:
                known = changed[path] = self._read(path, key, now_ns, path not in found.unlisted)
            fresh[path] = known
        gone = [path for path in seen if path not in fresh]
        self._stale_bytes += sum(seen[path].key[2] for path in (*gone, *changed) if path in seen)
        self._seen = fresh
        if changed or gone:
            self._append(changed, gone)
        return fresh, found

    def last_seen(self) -> dict[str, Known]:
        """What the last look found, by whichever process."""
        self._load()
        return dict(self._seen)

    def _read(self, path: str, key: Key, now_ns: int, listed: bool) -> Known:
        if stat.S_ISDIR(key[0]):
            return Known(key if listed else NEVER, State("dir", stat.S_IMODE(key[0])), listed)
        try:
            state = self._tree.state(path, keep=self.bytes.keep)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # our disk is full, the file is not at fault
                raise
            state = State("file", stat.S_IMODE(key[0]), f"{UNREAD}{key[4]}")
        return Known(NEVER if key[4] >= now_ns - _SAME_TICK_NS else key, state)

    def collect(self, *, above_bytes: int = 0) -> None:
        """Remove the bytes of what is no longer in the workspace, if they are about more than `above_bytes`."""
        if self._stale_bytes < above_bytes:
            return
        self._stale_bytes = 0
        self.bytes.keep_only({known.state.hash for known in self._seen.values()})

    # -- the list on disk ----------------------------------------------------------------------------------------------

    def _clock_ns(self) -> int:
        """Now, by the clock of the file system."""
        clock = self._folder / "clock"
        clock.touch(mode=0o600)
        os.utime(clock)
        return clock.stat().st_mtime_ns

    def _load(self) -> None:
        """Read the list, unless it is as we left it: another ossia in the same workspace may have added to it."""
        make_private(self.bytes.folder)
        try:
            status = self._list.stat()
            if self._list_status == (status.st_ino, status.st_size, status.st_mtime_ns):
                return
            self._list_status = (status.st_ino, status.st_size, status.st_mtime_ns)
            lines = self._list.read_bytes().split(b"\n")
        except FileNotFoundError:
            self._seen, self._lines = {}, 0
            return
        self._seen, self._lines = {}, len(lines)
        kept = {path.name for path in self.bytes.folder.iterdir()}
        for line in lines[:-1]:  # after the last newline there is nothing, or what a crash left
            try:
                path, *rest = json.loads(line)
                if not rest:
                    self._seen.pop(path, None)
                    continue
                (mode, inode, size, changed, status_changed), state, listed = rest
                known = Known((mode, inode, size, changed, status_changed), state_of(state), bool(listed))
            except UNREADABLE:
                continue
            self._seen[path] = known
        for path, known in list(self._seen.items()):
            if known.state.kind == "file" and known.state.readable and known.state.hash not in kept:
                del self._seen[path]

    def _append(self, changed: dict[str, Known], gone: list[str]) -> None:
        self._lines += len(changed) + len(gone)
        if self._lines > 2 * len(self._seen) + _SPARE_LINES:
            temporary = self._list.with_suffix(".new")
            with private_file(temporary) as file:
                file.writelines(_row(path, known) for path, known in self._seen.items())
            temporary.replace(self._list)
            self._lines = len(self._seen)
        else:
            rows = [json.dumps([path]).encode() + b"\n" for path in gone]
            rows += [_row(path, known) for path, known in changed.items()]
            append(self._list, b"".join(rows))
        status = self._list.stat()
        self._list_status = (status.st_ino, status.st_size, status.st_mtime_ns)


def append(path: Path, data: bytes) -> None:
    """Add lines to a private file, after a newline: this separates them from a line that a crash tore."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        file.write(b"\n" + data)


def private_file(path: Path) -> BinaryIO:
    """A new file that only the user can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def row_of(state: State) -> list[object]:
    """A state as JSON takes it."""
    return [state.kind, state.mode, state.hash, state.target, state.owner]


def state_of(row: list[Any]) -> State:
    """The state that `row_of` wrote. For anything else, raises one of `UNREADABLE`."""
    kind, mode, digest, target, owner = row
    if kind not in get_args(FileKind):
        raise ValueError(f"{kind!r} is no kind of file")
    return State(kind, int(mode), str(digest), str(target), (int(owner[0]), int(owner[1])) if owner else None)


def _row(path: str, known: Known) -> bytes:
    return json.dumps([path, known.key, row_of(known.state), known.listed]).encode() + b"\n"
