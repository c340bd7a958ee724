"""A look at the stored sessions that changes nothing: is the file whole, how large is it, who uses it?"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from ossia.agent.errors import SessionsUnusable
from ossia.agent.sessions._lock import users_of
from ossia.tools.database import MOVE, Database

_STEPS = 10_000  # of SQLite's machine between two looks at the clock


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the store. `bytes` counts the file and its log; `complete`: all of it was checked within the time.

    `processes` are those that use a session now.
    """

    sessions: int
    bytes: int
    complete: bool
    processes: tuple[int, ...] = ()


def health(database: Database, *, max_s: float) -> Health | None:
    """Check for at most `max_s`. None: nothing is stored yet. Raises `SessionsUnusable`."""
    path = database.path
    with database.inspecting() as db:
        if db is None:
            return None
        until = time.monotonic() + max_s
        db.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        said: str | None = None
        try:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
                raise
        db.set_progress_handler(None, _STEPS)
        if said not in ("ok", None):
            raise SessionsUnusable(f"{path}: not a whole database ({said}): {MOVE}")
        (count,) = db.execute("SELECT count(*) FROM sessions").fetchone()
        files = (path, path.with_name(f"{path.name}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        return Health(count, size, said is not None, users_of(path))
