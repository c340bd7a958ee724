"""The library's file: SQLite with FTS5. Nothing here knows where documents come from.

roots      what the user added: a folder, a file or a URL
documents  one row each: its origin, its file's state when it was read, the page as it is shown (compressed)
words      the FTS5 table that is searched, by the document's id
removed    places below a root that the user took out; they stay out

A connection lives as long as one operation, so threads and processes share nothing but the file.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ossia.tools.database import MOVE, Database, Format
from ossia.tools.library._text import TOKENIZER, indexed

_UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Raised by reading rows of another writer than ossia."""
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
"""
# AUTOINCREMENT: `doc:17` in an old conversation never becomes another document.


class LibraryError(Exception):
    """The library's file can't be used. The message is one line: the file, its fault, what to do."""


_LIBRARY: Final = Format(
    0x6F737369,  # "ossi"
    (_SCHEMA,),
    LibraryError,
    pragmas=("cache_size=-16384",),  # KiB
    wait_s=15.0,
)
RootKind = Literal["folder", "file", "url"]


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a document's file when it was read, to find out whether it has changed since.

    `mtime_ns` is 0 for a URL; `maker` is the version of the code that made the page.
    """

    mtime_ns: int
    size: int
    digest: bytes
    maker: int


@dataclass(frozen=True, slots=True)
class Row:
    """A document to store. `text` is searched, `page` is shown (with its links), `links` is JSON.

    `guessed`, as in `Document`, isn't stored.
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

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection; without a file, to an empty library in memory."""
        with self._opened() as database, database.reading_or_empty() as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, which is committed at the end. A missing file is made."""
        with self._opened() as database, database.writing() as db:
            yield db

    def glance(self) -> list[str]:
        """The places of all roots, at once: see `Library.places`."""
        with self._opened() as database, database.inspecting(wait_s=0) as db:
            return [place for (place,) in db.execute("SELECT place FROM roots ORDER BY place")] if db else []

    def compact(self) -> None:
        """Rewrite the file without the bytes of deleted data."""
        with self._opened() as database:
            database.run("INSERT INTO words(words) VALUES('optimize')", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        with closing(Database(self.path, _LIBRARY)) as database:
            try:
                yield database
            except UnicodeEncodeError:  # raised by our code, not by what was read
                raise
            except _UNREADABLE as error:
                why = type(error).__name__
                raise LibraryError(f"{self.path}: not a whole database ({why}): {MOVE}") from error


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
    """Record a new mtime for unchanged content: it isn't read again."""
    db.execute("UPDATE documents SET mtime_ns=?, size=? WHERE origin=?", (seen.mtime_ns, seen.size, origin))


def delete(db: sqlite3.Connection, ids: Iterable[int]) -> int:
    """Delete documents. Returns their number."""
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
    """The document with that id, if any, with `max_bytes` of its page in UTF-8 (0: all of it)."""
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
    """The number of documents for an FTS5 query: 0.04 ms for a thousand, a fiftieth of the time to rank them."""
    return int(db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (match,)).fetchone()[0])


@contextmanager
def interruptible(db: sqlite3.Connection, ended: Callable[[], bool]) -> Iterator[None]:
    """While it is open, a query ends with a `LibraryError` once `ended()`."""
    db.set_progress_handler(ended, 500)  # SQLite's virtual machine steps: some 50 documents
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        raise LibraryError("it was stopped, or took too long: use fewer words") from error
    finally:
        db.set_progress_handler(None, 0)
