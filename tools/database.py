"""A private SQLite file: made and opened when first needed, shared by threads, and by processes through WAL."""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ossia.tools.files import FULL, cannot, is_full, make_private_file, require_owner

_MAGIC: Final = b"SQLite format 3\0"  # sqlite.org/fileformat.html, section 1.3, as are the offsets below
_HEADER_BYTES: Final = 100
_VERSION_AT, _APPLICATION_AT = 60, 68
MOVE: Final = "move it away, and a new one is made"


@dataclass(frozen=True, slots=True)
class Format:
    """The kind of a database. `application` marks its files, so that no other program's is taken for one.

    `steps[n]` is the SQL that turns version n into n + 1. A released step is never changed: a new one is added.
    `error` is raised, with one line, for every fault that isn't our own. `pragmas` are set for each connection.
    `wait_s`: for another process that is writing.
    """

    application: int
    steps: tuple[str, ...]
    error: type[Exception]
    pragmas: tuple[str, ...] = ()
    wait_s: float = 3.0


class Database:
    """One connection, used by one thread at a time. Raises the `error` of its format.

    A commit survives even if this process ends right after it; a crash of the machine can lose the last moments (WAL
    with synchronous=NORMAL).
    """

    def __init__(self, path: Path, form: Format) -> None:
        self.path, self._form = path, form
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection; None without a file (it isn't made)."""
        with self._lock, self._faults():
            yield self._connection(make=False)

    @contextmanager
    def reading_or_empty(self) -> Iterator[sqlite3.Connection]:
        """A connection; without a file, to an empty database in memory."""
        with self.reading() as db:
            if db is not None:
                yield db
                return
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
                migrate(empty, self.path, self._form)
                yield empty

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, which is committed at the end. A missing file is made."""
        with self._lock, self._faults():
            db = self._connection(make=True)
            assert db is not None
            with _transaction(db, "IMMEDIATE"):
                yield db

    @contextmanager
    def inspecting(self, *, wait_s: float | None = None) -> Iterator[sqlite3.Connection | None]:
        """A read-only connection, for a file in any state; None without a file, or for an empty one.

        `wait_s`: for another process; None: as its format says.
        """
        with self._faults():
            if not self.path.exists() or not _header(self.path):
                yield None
                return
            require_owner(self.path.stat(), self.path)
            self._check_header()
            log = self._log
            # Without a log nobody is writing, and SQLite needn't make the files by which processes agree.
            how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
            address = f"{self.path.absolute().as_uri()}?{how}"
            wait_s = self._form.wait_s if wait_s is None else wait_s
            db = sqlite3.connect(address, uri=True, timeout=wait_s, isolation_level=None)
            try:
                yield db
            finally:
                db.close()

    def run(self, *statements: str) -> None:
        """Execute statements outside a transaction: `run("VACUUM")`. Does nothing without a file."""
        with self.reading() as db:
            if db is not None:
                for statement in statements:
                    db.execute(statement)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _connection(self, *, make: bool) -> sqlite3.Connection | None:
        if self._db is not None:
            return self._db
        if not make and not self.path.exists():
            return None
        if make:
            make_private_file(self.path)
        require_owner(self.path.stat(), self.path)
        self._check_header()
        with suppress(OSError):  # it may have been copied here. SQLite gives its -wal and -shm the same mode
            if os.name == "posix" and self.path.stat().st_mode & 0o077:
                self.path.chmod(0o600)
        db = sqlite3.connect(self.path, timeout=self._form.wait_s, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("synchronous=NORMAL", *self._form.pragmas):
                db.execute(f"PRAGMA {pragma}")
            migrate(db, self.path, self._form)
            with suppress(sqlite3.OperationalError):  # another process uses the file: it stays as it is
                db.execute("PRAGMA journal_mode=WAL")
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _check_header(self) -> None:
        """Check the file before SQLite opens it, and writes the log of a newer version into it."""
        header, log = _header(self.path), self._log
        if not header and log.exists() and log.stat().st_size:
            header = _header(self.path)  # another process has made it meanwhile, and the log after it
            if not header:
                raise self._form.error(f"{self.path}: it is empty, and {log.name} is not: {MOVE}")
        if not header:
            return
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
            raise self._form.error(f"{self.path}: not a whole database: {MOVE}")
        (version,) = struct.unpack_from(">I", header, _VERSION_AT)
        (application,) = struct.unpack_from(">I", header, _APPLICATION_AT)
        _check_marks(application, version, self.path, self._form, empty=True)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            explained = self._explained(error)
            if explained is None:
                raise  # our mistake
            raise self._form.error(f"{self.path}: {explained}") from error
        except UnicodeDecodeError as error:  # SQLite's message about a damaged table isn't UTF-8
            raise self._form.error(f"{self.path}: not a whole database: {MOVE}") from error
        except OSError as error:
            raise self._form.error(f"{error.filename or self.path}: {cannot(error, 'used')}") from error

    def _explained(self, error: sqlite3.DatabaseError) -> str | None:
        """One line about a fault that isn't our own."""
        said, code = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and is_full(self.path.parent):  # no room for a log
            code = sqlite3.SQLITE_FULL
        match code:
            case sqlite3.SQLITE_FULL:
                return FULL
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return f"another process has been writing it for {self._form.wait_s:.0f} s: try again"
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return f"not a whole database ({said}): {MOVE}"
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return f"can't be used: {said}"
        if "no such table" in said or "no such column" in said:
            return f"not a whole database ({said}): {MOVE}"
        if "no such module" in said or "no such tokenizer" in said:
            return f"SQLite {sqlite3.sqlite_version} can't search ({said}): use a Python with SQLite 3.34 and FTS5"
        return None


def migrate(db: sqlite3.Connection, path: Path, form: Format) -> None:
    """Bring a database to the version of this program, all of it or nothing; an empty one gets its tables.

    Raises the format's `error` for a newer or another program's database.
    """
    with _transaction(db):  # to see marks and tables as of one moment: another process may be making them
        version = _version_of(db, path, form)
    newest = len(form.steps)
    if version == newest:
        return
    with _transaction(db, "EXCLUSIVE"):
        for step in form.steps[_version_of(db, path, form) :]:  # another process may have been quicker
            for statement in _statements(step):
                db.execute(statement)
        db.execute(f"PRAGMA application_id={form.application}")
        db.execute(f"PRAGMA user_version={newest}")
    # Into the file itself, where an older program reads the version before it lets SQLite touch anything.
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def _transaction(db: sqlite3.Connection, kind: str = "") -> Iterator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _version_of(db: sqlite3.Connection, path: Path, form: Format) -> int:
    """The version of a database in a transaction; 0 for an empty one."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    _check_marks(application, version, path, form, empty=empty)
    return int(version)


def _check_marks(application: int, version: int, path: Path, form: Format, *, empty: bool) -> None:
    """Raises unless these are the format's marks, or those of a database without any table."""
    newest = len(form.steps)
    if application == form.application and version > newest:
        raise form.error(f"{path}: must be of version {newest}, not {version}: use the ossia that wrote it")
    if application != form.application and not (empty and application == version == 0):
        raise form.error(f"{path}: a database of another program: move it away")


def _statements(script: str) -> Iterator[str]:
    """A script's statements, since `executescript` would commit the transaction first."""
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_BYTES)
