"""Locks between processes. A process that has ended, however it did, holds none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock


def file_lock(path: Path, *, wait_s: float = -1, signed: Callable[[int], None] | None = None) -> BaseFileLock:
    """A lock by a private file of its own, which stays: `with file_lock(folder / "trust.lock"): …`.

    `signed` gets the file's descriptor as soon as it is locked. Any thread may release it. Taking it raises
    TimeoutError when another holds it for `wait_s` (-1: wait without end), OSError where the file can't be made or the
    file system has no locks.
    """
    from filelock import FileLock

    return FileLock(path, timeout=wait_s, mode=0o600, thread_local=False, fallback_to_soft=False, on_acquired=signed)


def locks(descriptor: int) -> bool:
    """Lock an open file or folder until it is closed. False: another process has locked it, or it can't be locked.

    For POSIX only. filelock would do the same, but takes 37 ms to import, and each start of `ossia run` locks a folder.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
