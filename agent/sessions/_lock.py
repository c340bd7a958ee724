"""A lock on a stored session: only one process at a time uses it, and a dead process holds no lock."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ossia.agent.errors import SessionInUse
from ossia.agent.sessions._database import make_private


class Hold:
    """Holds a session until `release`, or until the process ends, however it does.

    The lock is on a file beside the database, `k7m2v9xq.lock`, which has the process's id in it. Where there are no
    such locks (Windows), two processes can use one session at once.
    """

    def __init__(self, sessions: Path, session_id: str) -> None:
        """Raises `SessionInUse` when another holds it, OSError when the file can't be made."""
        self._path = sessions.with_name(f"{session_id}.lock")
        self._descriptor: int | None = None
        make_private(self._path)
        while self._descriptor is None:
            self._descriptor = self._try(session_id)

    def release(self) -> None:
        """Release the session. May be called more than once."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _try(self, session_id: str) -> int | None:
        """The locked file; None when its owner has removed it meanwhile."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if not _locks(descriptor):
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise SessionInUse(
                f"session {session_id} is open in another ossia{f' (process {owner})' if owner else ''}: close that "
                f"one, or continue in a copy: ossia sessions fork {session_id}"
            )
        try:
            still_there = os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            still_there = False
        if not still_there:
            os.close(descriptor)
            return None
        with suppress(OSError):  # a full disk: the lock matters more than the process's id in it
            os.truncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        return descriptor


def _locks(descriptor: int) -> bool:
    """Lock the file until it is closed. False: another process has locked it."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def users_of(sessions: Path) -> tuple[int, ...]:
    """The processes that use stored sessions now, as their lock files name them; what a crash left is passed over.

    Nothing is known on Windows, where asking for a process in this way would end it.
    """
    found = set()
    for lock in sessions.parent.glob("*.lock") if os.name == "posix" else ():
        with suppress(OSError, ValueError):  # removed meanwhile, or being written; no such process
            number = int(lock.read_text("ascii"))
            os.kill(number, 0)
            found.add(number)
    return tuple(sorted(found))
