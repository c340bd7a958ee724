"""Temporary folders and files: made, used, removed. Also removes those that a killed process left behind."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ossia.tools.locks import locks
from ossia.tools.tree import FOLDER

_PREFIX = "ossia-run-"
_NAME = re.compile(r"ossia-run-[a-z0-9_]{8}")
_TRIES = 8
_REMOVED_AT_ONCE = 5
"""At most this many left folders are removed for each new one: each may hold 100,000 files."""
_SURELY_LEFT_S = 3600.0
"""A file this much older was surely left: writing one beside the file that it replaces takes seconds."""


class Scratch:
    """A new private folder for temporary files: `path`, e.g. `/tmp/ossia-run-k2j4x_8a`. In use until `close`.

    It stays locked until it is closed or this process ends. An unlocked folder of this user was left by a process that
    was killed, and is removed when a new one is made. `parent` None: the system's temporary folder.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self.path, self._lock = _made(parent)
        with suppress(OSError):  # the next one removes them
            _remove_left(self.path.parent)

    def close(self) -> None:
        """Remove it, and whatever is in it. May be called more than once."""
        if self._lock < 0:
            return
        try:
            self.path.rmdir()  # most are empty by then
        except OSError:
            _remove(self.path)
        os.close(self._lock)
        self._lock = -1


def remove_left_files(folder: int, name: str, pattern: re.Pattern[str]) -> None:
    """Remove what a killed process left in an open folder: this user's plain files that match and are far older.

    Older than `name`, a file there that was written just now: its time comes from the same clock.
    """
    with suppress(OSError):
        before = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime - _SURELY_LEFT_S
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if pattern.fullmatch(entry.name)]
        for other in names:
            status = os.stat(other, dir_fd=folder, follow_symlinks=False)
            if status.st_mtime < before and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                os.unlink(other, dir_fd=folder)


def _made(parent: Path | None) -> tuple[Path, int]:
    """A folder and its lock; a new one if it is removed as a leftover before that. Raises OSError if none is locked."""
    for _ in range(_TRIES):
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()
        lock = _locked(path)
        if lock is not None:
            return path, lock
        with suppress(OSError):
            path.rmdir()
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder of this user; None if it is gone, or another process has it."""
    try:
        descriptor = os.open(folder, FOLDER)
    except OSError:
        return None
    try:
        if locks(descriptor):
            ours, there = os.fstat(descriptor), folder.lstat()  # not before: whoever had the lock may have removed it
            if ours.st_uid == os.geteuid() and os.path.samestat(ours, there):
                return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_left(place: Path) -> None:
    removed = 0
    with os.scandir(place) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    for name in names:
        if removed == _REMOVED_AT_ONCE:
            return
        lock = _locked(place / name)
        if lock is not None:
            try:
                _remove(place / name)
                removed += 1
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    from ossia.tools.sandbox import hostile_folder  # imported late: files are written before anything is confined

    hostile_folder.remove(folder)
