"""The stored sessions: one SQLite file, into which every message is written as soon as it is whole."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.errors import SessionMissing, SessionsUnusable, SessionUnclear
from ossia.agent.sessions import _sessions as rows
from ossia.agent.sessions._recorder import Hold, StoreRecorder, users_of
from ossia.agent.sessions._rows import SESSIONS, UNREADABLE, CountTokens, read_entries, read_session, unreadable
from ossia.agent.sessions._sessions import SessionHit, SessionInfo
from ossia.agent.sessions._titles import asked_in, title_from, title_of
from ossia.agent.sessions._turns import StoredTurn, last_turns
from ossia.agent.sessions.session import Entry, Session
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


class SessionStore:
    """Stored sessions, for the threads of one process and for several processes at once.

    Folder and file are made when the first message is stored, for their owner only. Every method raises
    `SessionsUnusable` (one line, with the next step) if the file is damaged, newer than this program, or another
    program's: it is then left as it is. `now` gives unix seconds. `count_tokens` counts the tokens of messages that no
    model sampled: set it once there is a model.

        store = SessionStore(Path("sessions.sqlite"), now=time.time)
        store.keep(session)                     # "k7m2v9xq": from now on all that is added is stored
        store.resume(store.find("48*17").id)    # the session, in a later process
    """

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        self.path = path
        self.count_tokens: CountTokens | None = None
        self._now = now
        self._database = Database(path, SESSIONS)
        self._recorders: list[StoreRecorder] = []

    # -- one session ---------------------------------------------------------------------------------------------------

    def keep(
        self, session: Session, *, workspace: str | None = None, folder: str | None = None, title: str = ""
    ) -> str:
        """Store `session` as a new one, as it is and as it grows; returns its id. `folder`: where it is begun.

        Nothing is written before it has a message. What can't be written later is no error: see `problem`.
        """
        with self._database.reading() as db:
            session_id = rows.new_id(db)
        recorder = self._recorder(session_id, session)
        recorder.begin(session, workspace=workspace, folder=folder, title=title)
        session.recorder = recorder
        return session_id

    def load(self, session_id: str) -> Session:
        """A stored session as it is; what is added to it isn't stored. Raises `SessionMissing`."""
        return self._load(session_id)[0]

    def resume(self, session_id: str) -> Session:
        """A stored session; what is added to it is stored in the same place.

        Raises `SessionMissing`, and `SessionInUse` while another process is using it (or this one already is).
        """
        with self._held(session_id) as hold:
            session, number, numbers = self._load(session_id)
            recorder = self._recorder(session_id, session)
            recorder.go_on(session, number, numbers, hold)
            session.recorder = recorder
            return session

    def release(self, session: Session) -> None:
        """Stop storing what is added to it; another process may use it now."""
        recorder, session.recorder = session.recorder, None
        if isinstance(recorder, StoreRecorder) and recorder in self._recorders:
            recorder.release()
            self._recorders.remove(recorder)

    def replaced(self, session_id: str) -> tuple[Entry, ...]:
        """The entries that a retry or an edit replaced, in the order in which they came."""
        with self._reading(session_id) as (db, number):
            return tuple(entry for _, entry in read_entries(db, number, replaced=True))

    @property
    def problem(self) -> str | None:
        """The reason that something isn't stored, in one line; None once all is. Each further change tries again."""
        return next((recorder.problem for recorder in self._recorders if recorder.problem), None)

    @property
    def lost(self) -> bool:
        """True if a problem has kept all of a session from being stored so far."""
        return any(recorder.lost for recorder in self._recorders)

    def health(self, *, max_s: float) -> Health | None:
        """Check the file for at most `max_s`, changing nothing. None: nothing is stored yet."""
        with self._database.inspecting() as db:
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
                raise SessionsUnusable(f"{self.path}: not a whole database ({said}): {MOVE}")
            (count,) = db.execute("SELECT count(*) FROM sessions").fetchone()
            files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
            size = sum(file.stat().st_size for file in files if file.exists())
            return Health(count, size, said is not None, users_of(self.path))

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(self, ref: str) -> SessionInfo:
        """The session with this id, or whose id begins with it, or the one with this text in its title.

        Raises `SessionMissing`, and `SessionUnclear` for several.
        """
        with self._database.reading() as db:
            found = rows.find(db, ref.strip()) if db is not None else []
        if not found:
            raise SessionMissing(f"no session is called {ref!r}: `ossia sessions list` shows the stored ones")
        if found[1:]:
            raise SessionUnclear(ref, found)
        return found[0]

    def latest(self, *, folder: str | None = None) -> SessionInfo | None:
        """The session used last; None without any. `folder`: of those begun or at work in it."""
        if folder is None:
            return next(iter(self.list(limit=1)), None)
        with self._database.reading() as db:
            rest = "WHERE ? IN (workspace, folder) ORDER BY updated DESC, number DESC LIMIT 1"
            return next(iter(rows.infos(db, rest, folder)), None) if db is not None else None

    def list(self, *, limit: int | None = 20) -> Sequence[SessionInfo]:
        """The sessions, the one that was used last first. `limit` None: all of them."""
        with self._database.reading() as db:
            rest = "ORDER BY updated DESC, number DESC LIMIT ?"
            return rows.infos(db, rest, -1 if limit is None else limit) if db is not None else []

    def glance(self, *, limit: int) -> Sequence[SessionInfo]:
        """The same, at once and read-only: nothing is made, and a file that another process has locked is a fault."""
        with self._database.inspecting(wait_s=0) as db:
            return rows.infos(db, "ORDER BY updated DESC, number DESC LIMIT ?", limit) if db is not None else []

    def search(self, text: str, *, limit: int = 20, thinking: bool = False) -> Sequence[SessionHit]:
        """The sessions with all words of `text` in one message, or in the title; the best match of each.

        Any part of a word is found. Nothing in `text` is query syntax. Reasoning is searched only with `thinking`.
        """
        with self._database.reading() as db:
            return rows.search(db, text, limit=limit, thinking=thinking) if db is not None else []

    def last_turns(
        self,
        *,
        limit: int | None = 3,
        text: str = "",
        structured: bool = False,
        skipped: Callable[[str], object] = lambda line: None,
    ) -> Sequence[StoredTurn]:
        """The last turns of all sessions, at most `limit` (None: all), the oldest first.

        Only those whose question or answer has all words of `text`, and, if `structured`, an answer by a schema.
        `skipped` gets a line about each turn that can't be read.
        """
        with self._database.reading() as db:
            return last_turns(db, text, limit=limit, structured=structured, skipped=skipped) if db is not None else []

    # -- changing ------------------------------------------------------------------------------------------------------

    def rename(self, session_id: str, title: str) -> None:
        """Give a session a title, one line of at most 80 characters. An empty one brings back what they asked."""
        with self._changing(session_id) as (db, number):
            rows.rename(db, number, title)

    def wants_title(self, session_id: str) -> bool:
        """True if nobody has given it a title, although something was asked in it: the model may then give one."""
        with self._reading(session_id) as (db, number):
            return rows.wants_title(db, number)

    def entitle(self, session_id: str, title: str) -> None:
        """Give a session the title that the model made. One that was given before stays."""
        with self._changing(session_id) as (db, number):
            rows.entitle(db, number, title)

    def remove(self, *session_ids: str) -> None:
        """Delete sessions for good: nothing of their text stays in the file. Raises as `resume` does.

        The index is written anew, which takes longer the more is stored: 0.9 s for 30 MB, however many are deleted.
        """
        with ExitStack() as held:
            for session_id in session_ids:
                held.callback(held.enter_context(self._held(session_id)).release)
            for session_id in session_ids:
                with self._changing(session_id) as (db, number):
                    rows.remove(db, number)
            # until then the bytes of the deleted text are still in the file and its log
            self._database.run("INSERT INTO words(words) VALUES('optimize')", "PRAGMA wal_checkpoint(TRUNCATE)")

    def fork(self, session_id: str, *, turns: int | None = None) -> str:
        """A new session that has the first `turns` turns of this one (None: all of them); returns its id."""
        with self._changing(session_id) as (db, number):
            return rows.copy(db, number, turns=turns, at=self._now())

    def close(self) -> None:
        """Release every session, and close the file."""
        for recorder in self._recorders:
            recorder.release()
        self._recorders.clear()
        self._database.close()

    # -- within --------------------------------------------------------------------------------------------------------

    def _recorder(self, session_id: str, session: Session) -> StoreRecorder:
        recorder = StoreRecorder(self._database, session_id, session.options, self._now, lambda: self.count_tokens)
        self._recorders.append(recorder)
        return recorder

    @contextmanager
    def _held(self, session_id: str) -> Iterator[Hold]:
        """Hold a session. It is released at the end of the block only if something goes wrong in it."""
        with self._reading(session_id):
            pass
        try:
            hold = Hold(self.path, session_id)
        except OSError as error:
            raise SessionsUnusable(f"{error.filename}: can't be written: {error.strerror}") from None
        try:
            yield hold
        except BaseException:
            hold.release()
            raise

    @contextmanager
    def _reading(self, session_id: str) -> Iterator[tuple[sqlite3.Connection, int]]:
        with self._database.reading() as db, self._whole(session_id):
            number = rows.number_of(db, session_id)
            assert db is not None
            yield db, number

    @contextmanager
    def _changing(self, session_id: str) -> Iterator[tuple[sqlite3.Connection, int]]:
        with self._reading(session_id):
            pass  # it raises before `writing` would make the file
        with self._database.writing() as db, self._whole(session_id):
            yield db, rows.number_of(db, session_id)

    def _load(self, session_id: str) -> tuple[Session, int, Sequence[int]]:
        with self._reading(session_id) as (db, number):
            session, numbers = read_session(db, number)
            return session, number, numbers

    @contextmanager
    def _whole(self, session_id: str) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise unreadable(self.path, session_id, error) from error


__all__ = ["Health", "SessionHit", "SessionInfo", "SessionStore", "StoredTurn", "asked_in", "title_from", "title_of"]
