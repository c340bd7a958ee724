"""The library's file: SQLite with FTS5. Nothing here knows where documents come from.

roots      what the user added: a folder, a file or a URL
documents  one row each: its origin, its file's state when it was read, the page as it is shown (compressed)
words      the FTS5 table that is searched, by the document's id
removed    places below a root that the user took out; they stay out

A connection lives as long as one operation, so threads and processes share nothing but the file: WAL, and writes of a
fraction of a second.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ossia.tools.files import FULL, cannot, is_full
from ossia.tools.library._text import TOKENIZER, indexed

VERSION: Final = 1
_APPLICATION: Final = 0x6F737369  # "ossi": so that no other program's database is taken for a library
_WAIT_S: Final = 15.0  # while another process writes
_MOVE: Final = "move it away, and `ossia docs add` makes a new one"
_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What reading raises if rows, or table names in SQLite's errors, aren't what we wrote."""
_TITLE, _TEXT, _NAME = 4.0, 1.0, 2.0  # the weights of bm25: the title's is spec §1.4's

_SCHEMA: Final = f"""
CREATE TABLE roots(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, place TEXT NOT NULL UNIQUE);
CREATE TABLE documents(
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    root INTEGER NOT NULL REFERENCES roots(id),
    origin TEXT NOT NULL UNIQUE,
    mtime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    digest BLOB NOT NULL,
    maker INTEGER NOT NULL,
    characters INTEGER NOT NULL,
    title TEXT NOT NULL,
    links TEXT NOT NULL,
    page BLOB NOT NULL);
CREATE INDEX documents_of_root ON documents(root, characters);
CREATE TABLE removed(place TEXT PRIMARY KEY);
CREATE VIRTUAL TABLE words USING fts5(title, text, name, tokenize="{TOKENIZER}", prefix=3);
INSERT INTO words(words, rank) VALUES('rank', 'bm25({_TITLE}, {_TEXT}, {_NAME})');
PRAGMA application_id={_APPLICATION};
PRAGMA user_version={VERSION};
"""
# AUTOINCREMENT: `doc:17` in an old conversation never becomes another document.

RootKind = Literal["folder", "file", "url"]


class LibraryError(Exception):
    """The library's file can't be used. The message is one line: which file, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a document's file when it was read: enough to tell whether it has changed since.

    `mtime_ns` and `size` are 0 for a URL; `maker` is the version of the code that made the page.
    """

    mtime_ns: int
    size: int
    digest: bytes
    maker: int


@dataclass(frozen=True, slots=True)
class Row:
    """A document to store. `text` is searched, `page` is shown (with its links), `links` is JSON.

    `guessed` (as in `Document`) isn't stored.
    """

    origin: str
    name: str
    seen: Seen
    title: str
    text: str
    page: str
    links: str = "{}"
    guessed: str = ""


class Store:
    """The tables. Every method opens the file, does one thing and closes it; raises `LibraryError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Is there a library?"""
        try:
            return self.path.exists()
        except OSError as error:  # we may not enter a folder above it
            raise LibraryError(f"{self.path}: can't be used: {error.strerror}") from None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection; None if there is no library yet (none is created)."""
        if not self.exists():
            yield None
            return
        with self._connected() as db:
            yield db if _is_library(db, self.path) else None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, which is committed at the end. A missing file is created."""
        self._make_file()
        with self._connected() as db:
            if not _is_library(db, self.path):
                _create(db, self.path)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def compact(self) -> None:
        """Rewrite the file without deleted data: until then its bytes are still in there."""
        if not self.exists():
            return
        with self._connected() as db:
            db.execute("INSERT INTO words(words) VALUES('optimize')")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _make_file(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            os.close(os.open(self.path, flags, 0o600))  # SQLite gives its -wal and -shm the same mode
        except OSError as error:
            raise LibraryError(f"{self.path}: {cannot(error, 'written')}") from None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        db: sqlite3.Connection | None = None
        try:
            db = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("PRAGMA cache_size=-16384")  # KiB
            yield db
        except sqlite3.DatabaseError as error:
            explained = self._explained(error)
            if explained is None:
                raise  # a bug of ours
            raise LibraryError(explained) from error
        except _UNREADABLE as error:
            if isinstance(error, UnicodeEncodeError):
                raise  # raised by our code, not by what was read
            raise LibraryError(f"{self.path}: not a whole library ({type(error).__name__}): {_MOVE}") from error
        finally:
            if db is not None:
                db.close()

    def _explained(self, error: sqlite3.DatabaseError) -> str | None:
        """A line for an error that isn't a bug of ours. (Python 3.11 has SQLite's codes, but not for all these.)"""
        said = str(error)
        if "interrupted" in said:
            return "it was stopped, or took too long: use fewer words"
        if "locked" in said:
            return f"{self.path}: another process has been writing it for {_WAIT_S:.0f} s: try again"
        if "disk is full" in said:
            return f"{self.path}: {FULL}"
        if any(sign in said for sign in ("unable to open", "readonly", "disk I/O error")):
            why = FULL if is_full(self.path.parent) else f"can't be used: {said}"  # its log files can't be created
            return f"{self.path}: {why}"
        torn = type(error) is sqlite3.DatabaseError  # not a subclass: SQLite calls the file corrupt
        if torn or "no such table" in said or "malformed" in said:
            return f"{self.path}: not a whole library ({said}): {_MOVE}"
        return None


def _is_library(db: sqlite3.Connection, path: Path) -> bool:
    """False for a file without any table. Raises for another program's database, and for a newer library."""
    db.execute("BEGIN")  # a consistent view: another process may be creating the tables
    try:
        return _looks_like_one(db, path)
    finally:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")


def _looks_like_one(db: sqlite3.Connection, path: Path) -> bool:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION and version == VERSION:
        return True
    if application == _APPLICATION and version:
        newer = f"expected a library of version {VERSION}, got {version}: use the ossia that wrote it"
        raise LibraryError(f"{path}: {newer}")
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise LibraryError(f"{path}: a database of another program: move it away")
    return False


def _create(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables, unless another process has just done so."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")  # changing this doesn't wait for other connections
            break
        except sqlite3.OperationalError:
            if is_full(path.parent) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    db.execute("BEGIN EXCLUSIVE")
    if _looks_like_one(db, path):
        db.execute("ROLLBACK")
        return
    for statement in _SCHEMA.split(";\n"):
        db.execute(statement)
    db.execute("COMMIT")


# -- documents ---------------------------------------------------------------------------------------------------------


def put(db: sqlite3.Connection, root: int, row: Row) -> None:
    """Store a document of a root; replaces its older version."""
    values = (
        root, row.origin, row.seen.mtime_ns, row.seen.size, row.seen.digest, row.seen.maker,
        len(row.text), row.title, row.links, zlib.compress(row.page.encode(), 1),
    )  # fmt: skip
    found = db.execute("SELECT id FROM documents WHERE origin=?", (row.origin,)).fetchone()
    if found is None:
        cursor = db.execute(f"INSERT INTO documents({_COLUMNS}) VALUES({','.join('?' * len(values))})", values)
        number = cursor.lastrowid
    else:
        number = found[0]
        db.execute(f"UPDATE documents SET ({_COLUMNS}) = ({','.join('?' * len(values))}) WHERE id=?", (*values, number))
        db.execute("DELETE FROM words WHERE rowid=?", (number,))
    words = (number, indexed(row.title), indexed(row.text), indexed(row.name))
    db.execute("INSERT INTO words(rowid, title, text, name) VALUES(?,?,?,?)", words)


_COLUMNS: Final = "root, origin, mtime_ns, size, digest, maker, characters, title, links, page"


def touch(db: sqlite3.Connection, origin: str, seen: Seen) -> None:
    """Record a new mtime for unchanged content, so that it isn't read again."""
    db.execute("UPDATE documents SET mtime_ns=?, size=? WHERE origin=?", (seen.mtime_ns, seen.size, origin))


def delete(db: sqlite3.Connection, ids: Iterable[int]) -> int:
    """Delete documents; returns how many there were."""
    rows = [(number,) for number in ids]
    db.executemany("DELETE FROM words WHERE rowid=?", rows)
    return db.executemany("DELETE FROM documents WHERE id=?", rows).rowcount if rows else 0


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as it is stored; `page` may be only the start of it. `links` is JSON."""

    id: int
    title: str
    origin: str
    page: str
    links: str


def page(db: sqlite3.Connection, number: int, *, max_bytes: int = 0) -> Stored | None:
    """A document, None if there is none with that id. `max_bytes` of its page in UTF-8; 0: all of it."""
    found = db.execute("SELECT id, title, origin, page, links FROM documents WHERE id=?", (number,)).fetchone()
    if found is None:
        return None
    try:
        text = zlib.decompressobj().decompress(found[3], max_bytes).decode("utf-8", "ignore")
    except zlib.error as error:
        raise sqlite3.DatabaseError(f"malformed page: {error}") from None
    return Stored(found[0], found[1], found[2], text, found[4])


def matching(db: sqlite3.Connection, match: str, limit: int) -> list[int]:
    """The ids of the best `limit` documents for an FTS5 query, best first."""
    query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    return [number for (number,) in db.execute(query, (match, limit))]


def frequency(db: sqlite3.Connection, match: str) -> int:
    """How many documents match an FTS5 query: 0.04 ms for a thousand, a fiftieth of the time to rank them."""
    return int(db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchone()[0])


@contextmanager
def interruptible(db: sqlite3.Connection, ended: Callable[[], bool]) -> Iterator[None]:
    """While it is open, a query ends with "interrupted" once `ended()`."""
    db.set_progress_handler(ended, 500)  # SQLite's virtual machine steps: some 50 documents
    try:
        yield
    finally:
        db.set_progress_handler(None, 0)
