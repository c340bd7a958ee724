"""A lock on a stored session: only one process at a time uses it, and a dead process holds no lock."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ossia.agent.errors import SessionInUse
from ossia.tools.files import make_private_file
from ossia.tools.locks import file_lock


class Hold:
    """Holds a session until `release`, or until the process ends, however it does.

    The lock is on a file beside the database, `k7m2v9xq.lock`, which has the process's id in it. On a file system
    without locks two processes can use one session at once.
    """

    def __init__(self, sessions: Path, session_id: str) -> None:
        """Raises `SessionInUse` when another holds it, OSError when the file can't be made."""
        self._path = sessions.with_name(f"{session_id}.lock")
        make_private_file(self._path)
        self._lock = file_lock(self._path, wait_s=0, signed=_sign)
        try:
            self._lock.acquire()
        except TimeoutError:
            owner = _owner(self._path)
            raise SessionInUse(
                f"session {session_id} is open in another ossia{f' (process {owner})' if owner else ''}: close that "
                f"one, or continue in a copy: ossia sessions fork {session_id}"
            ) from None
        except OSError:  # a file system without locks
            pass

    def release(self) -> None:
        """Release the session. May be called more than once."""
        if self._lock.is_locked:
            with suppress(OSError):  # Windows keeps an open file; it stays, and is taken again
                self._path.unlink(missing_ok=True)
            self._lock.release()


def _sign(descriptor: int) -> None:
    """Write this process's id into the lock's file."""
    with suppress(OSError):  # a full disk: the lock matters more
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())


def _owner(lock: Path) -> int:
    """The process that a lock's file names; 0: none."""
    with suppress(OSError, ValueError):  # removed meanwhile, or being written; on Windows a locked file can't be read
        return int(lock.read_text("ascii"))
    return 0


def users_of(sessions: Path) -> tuple[int, ...]:
    """The processes that use stored sessions now, as their lock files name them; what a crash left is skipped."""
    import psutil

    owners = {_owner(lock) for lock in sessions.parent.glob("*.lock")} - {0}
    return tuple(sorted(filter(psutil.pid_exists, owners)))
