"""The file of the stored sessions: opened when first needed, shared by threads, and by processes through WAL."""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ossia.agent.errors import SessionsUnusable
from ossia.agent.sessions._schema import check_marks, migrate
from ossia.tools.files import FULL, cannot, is_full, require_owner

_WAIT_S: Final = 3.0  # for another process that is writing; each write takes milliseconds
_MAGIC: Final = b"SQLite format 3\0"  # sqlite.org/fileformat.html, section 1.3, as are the offsets below
_HEADER_BYTES: Final = 100
_VERSION_AT, _APPLICATION_AT = 60, 68


class Database:
    """One connection, used by one thread at a time. Raises `SessionsUnusable` for faults that aren't our own.

    A commit survives even if this process ends right after it; a crash of the machine can lose the last moments (WAL
    with synchronous=NORMAL).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection; None where there is no file yet (it isn't made)."""
        with self._lock, self._faults():
            yield self._connection(make=False)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, which is committed at the end. The file is made if it isn't there."""
        with self._lock, self._faults():
            db = self._connection(make=True)
            assert db is not None
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def looking(self) -> Iterator[sqlite3.Connection | None]:
        """A connection that changes nothing, whatever it finds; None where there is no file, or an empty one."""
        with self._faults():
            if not self.path.exists() or not _header(self.path):
                yield None
                return
            require_owner(self.path.stat(), self.path)
            _check_header(self.path)
            log = self.path.with_name(f"{self.path.name}-wal")
            # Without a log nobody is writing, and SQLite needn't make the files by which processes agree.
            how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
            address = f"{self.path.absolute().as_uri()}?{how}"
            db = sqlite3.connect(address, uri=True, timeout=_WAIT_S, isolation_level=None)
            try:
                yield db
            finally:
                db.close()

    def forget_deleted(self) -> None:
        """Remove deleted text from the file and its log for good: until then its bytes are still there."""
        with self._lock, self._faults():
            db = self._connection(make=False)
            if db is not None:
                db.execute("INSERT INTO words(words) VALUES('optimize')")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _connection(self, *, make: bool) -> sqlite3.Connection | None:
        if self._db is not None:
            return self._db
        if not make and not self.path.exists():
            return None
        if make:
            make_private(self.path)
        require_owner(self.path.stat(), self.path)
        _check_header(self.path)
        _tighten(self.path)
        db = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten
            migrate(db, self.path)
            with suppress(sqlite3.OperationalError):  # another process uses the file: it stays as it is
                db.execute("PRAGMA journal_mode=WAL")
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            explained = _explained(error, self.path)
            if explained is None:
                raise  # our mistake
            raise SessionsUnusable(f"{self.path}: {explained}") from error
        except UnicodeDecodeError as error:  # SQLite's message about a damaged table isn't UTF-8
            raise SessionsUnusable(f"{self.path}: not a whole database: {_MOVE}") from error
        except OSError as error:
            raise SessionsUnusable(f"{error.filename or self.path}: {cannot(error, 'used')}") from error


def make_private(path: Path) -> None:
    """Make a file that only its owner can read, and the folders above it that are missing. Raises OSError."""
    for folder in reversed([parent for parent in path.parents if not parent.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))


def _tighten(path: Path) -> None:
    """Let only the owner read it, even if it was copied here. SQLite gives its -wal and -shm the same mode."""
    with suppress(OSError):
        if os.name == "posix" and path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _check_header(path: Path) -> None:
    """Check the file before SQLite opens it, which would write the log of a newer version into it."""
    header, log = _header(path), path.with_name(f"{path.name}-wal")
    if not header and log.exists() and log.stat().st_size:
        header = _header(path)  # another process has made it meanwhile, and the log after it
        if not header:
            raise SessionsUnusable(f"{path}: it is empty, and {log.name} is not: {_MOVE}")
    if not header:
        return
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise SessionsUnusable(f"{path}: not a whole database: {_MOVE}")
    (version,) = struct.unpack_from(">I", header, _VERSION_AT)
    (application,) = struct.unpack_from(">I", header, _APPLICATION_AT)
    check_marks(application, version, path, empty=True)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADER_BYTES)


_MOVE: Final = "move it away, and a new one is made"


def _explained(error: sqlite3.DatabaseError, path: Path) -> str | None:
    """One line about a fault that isn't our own."""
    said, code = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and is_full(path.parent):  # its logs can't be made
        code = sqlite3.SQLITE_FULL
    match code:
        case sqlite3.SQLITE_FULL:
            return FULL
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"another process has been writing it for {_WAIT_S:.0f} s: try again"
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return f"not a whole database ({said}): {_MOVE}"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"can't be used: {said}"
    if "no such table" in said or "no such column" in said:
        return f"not a whole database ({said}): {_MOVE}"
    if "no such module" in said or "no such tokenizer" in said:
        return f"SQLite {sqlite3.sqlite_version} can't search ({said}): use a Python with SQLite 3.34 or later and FTS5"
    return None
