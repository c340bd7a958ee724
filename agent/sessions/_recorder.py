"""Stores a session as it grows; only one process at a time uses it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from ossia.agent.errors import SessionInUse, SessionsError
from ossia.agent.events import TurnEnd
from ossia.agent.sessions._rows import CountTokens, insert
from ossia.agent.sessions._sessions import turns_summarised
from ossia.agent.sessions._titles import asked_in, title_from, title_of
from ossia.agent.sessions.json import options_to_json
from ossia.agent.sessions.session import Entry, Options, Session, Summary
from ossia.tools.database import Database
from ossia.tools.files import cannot, make_private_file
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


_Change = Callable[[sqlite3.Connection], None]


@dataclass(slots=True, eq=False)
class StoreRecorder:
    """The `Recorder` of one stored session: each change is a transaction of its own.

    A change that can't be stored (the disk is full, another process writes for too long) waits, and is tried again
    before the next one; until then `problem` says why. Nothing is written before the first message.
    """

    _database: Database
    id: str
    _options: Options
    _now: Callable[[], float]
    _count_tokens: Callable[[], CountTokens | None]
    problem: str | None = None
    _hold: Hold | None = None
    _workspace: str | None = None
    _folder: str | None = None
    _title: str = ""
    _number: int | None = None  # the session's row
    _rows: list[tuple[int, int]] = field(default_factory=list)  # of each entry: its row, its turn
    _waiting: list[_Change] = field(default_factory=list)

    @property
    def lost(self) -> bool:
        """True if a problem has kept all of it from being stored so far."""
        return self.problem is not None and self._number is None

    def begin(self, session: Session, *, workspace: str | None, folder: str | None, title: str) -> None:
        """Store a new session with what it has so far, in one transaction."""
        self._workspace, self._folder, self._title = workspace, folder, title_of(title)
        if not session.entries:
            return
        self._waiting += [partial(self._add, entry=entry) for entry in session.entries]
        ended = [(turn, end) for turn, end in enumerate(session.ends) if end is not None]
        self._waiting += [partial(self._end, turn=turn, end=end) for turn, end in ended]
        self.summarised(session.summary)

    def go_on(self, session: Session, number: int, rows: Sequence[int], hold: Hold) -> None:
        """Go on with a session that is stored in row `number`, its entries in `rows`."""
        self._number, self._hold = number, hold
        self._rows = [(row, entry.turn) for row, entry in zip(rows, session.entries, strict=True)]

    def release(self) -> None:
        """Let another process use the session. Changes that wait are tried once more before that."""
        if self._waiting:
            self._make_all()
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    # -- Recorder ------------------------------------------------------------------------------------------------------

    def added(self, entry: Entry) -> None:
        self._make(partial(self._add, entry=entry))

    def ended(self, turn: int, end: TurnEnd) -> None:
        self._make(partial(self._end, turn=turn, end=end))

    def cut_back(self, turn: int) -> None:
        self._make(partial(self._cut_back, turn=turn))

    def shortened(self, index: int, text: str) -> None:
        self._make(partial(self._shorten, index=index, text=text))

    def summarised(self, summary: Summary | None) -> None:
        self._make(partial(self._set, column="summary", value=None if summary is None else json.dumps(asdict(summary))))

    def options_changed(self, options: Options) -> None:
        self._options = options
        if self._number is not None or self._waiting:
            self._make(partial(self._set, column="options", value=json.dumps(options_to_json(options))))

    # -- changes -------------------------------------------------------------------------------------------------------

    def _make(self, change: _Change) -> None:
        """Make the change, after those that couldn't be made so far."""
        self._waiting.append(change)
        self._make_all()

    def _make_all(self) -> None:
        """Make all changes that wait, or none."""
        number, rows = self._number, list(self._rows)
        try:
            self._hold = self._hold or Hold(self._database.path, self.id)
            with self._database.writing() as db:
                for one in self._waiting:
                    one(db)
        except (SessionsError, OSError) as error:
            self._number, self._rows = number, rows
            self.problem = _line(error)
        else:
            self._waiting.clear()
            self.problem = None

    def _row(self, db: sqlite3.Connection) -> int:
        """The number of the session's row, which is made if it is missing."""
        if self._number is None:
            keys = "id, title, titled, created, updated, workspace, folder, options"
            at, options = self._now(), json.dumps(options_to_json(self._options))
            values = (self.id, self._title, bool(self._title), at, at, self._workspace, self._folder, options)
            self._number = db.execute(f"INSERT INTO sessions({keys}) VALUES(?,?,?,?,?,?,?,?)", values).lastrowid
        assert self._number is not None
        return self._number

    def _add(self, db: sqlite3.Connection, entry: Entry) -> None:
        session, at = self._row(db), self._now()
        self._rows.append((insert(db, session, entry, at, self._count_tokens()), entry.turn))
        db.execute("INSERT OR IGNORE INTO turns(session, turn) VALUES(?,?)", (session, entry.turn))
        about = (at, entry.model, session)
        db.execute("UPDATE sessions SET updated=?, model=coalesce(?, model) WHERE number=?", about)
        if entry.message.role == "user":
            self._entitle(db, session, entry.typed or entry.message.text)

    def _entitle(self, db: sqlite3.Connection, session: int, said: str) -> None:
        """Give it the title that the message makes, if nothing was asked before."""
        title, titled = db.execute("SELECT title, titled FROM sessions WHERE number=?", (session,)).fetchone()
        if not titled and not asked_in(title):
            db.execute("UPDATE sessions SET title=? WHERE number=?", (title_from([title, said]), session))

    def _end(self, db: sqlite3.Connection, turn: int, end: TurnEnd) -> None:
        session = self._row(db)
        db.execute("UPDATE turns SET end=? WHERE session=? AND turn=?", (end, session, turn))
        db.execute("UPDATE sessions SET updated=? WHERE number=?", (self._now(), session))

    def _cut_back(self, db: sqlite3.Connection, turn: int) -> None:
        """Takes the summary out in the same transaction: a stored one must never stand for a turn that is gone."""
        session, at = self._row(db), self._now()
        which = "session=? AND turn>=?"
        db.execute(f"UPDATE entries SET replaced=? WHERE {which} AND replaced IS NULL", (at, session, turn))
        db.execute(f"DELETE FROM turns WHERE {which}", (session, turn))
        if turns_summarised(db, session) > turn:
            self._set(db, "summary", None)
        self._rows = [(row, of) for row, of in self._rows if of < turn]

    def _shorten(self, db: sqlite3.Connection, index: int, text: str) -> None:
        row, _ = self._rows[index]
        (more,) = db.execute("SELECT more FROM entries WHERE number=?", (row,)).fetchone()
        changed = json.dumps({**json.loads(more), "shortened": text})
        db.execute("UPDATE entries SET more=? WHERE number=?", (changed, row))

    def _set(self, db: sqlite3.Connection, column: str, value: str | None) -> None:
        db.execute(f"UPDATE sessions SET {column}=? WHERE number=?", (value, self._row(db)))


def _line(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the sessions'}: {cannot(error, 'written')}"
    return str(error)
