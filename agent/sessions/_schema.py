"""The tables of the stored sessions, and how an older file is brought up to date.

sessions   one row each; `options` and `summary` are JSON, `titled` says who has given the title: 1 a person,
           2 the model, 0 nobody: it is what was asked
turns      how each turn ended; NULL: it is under way, or the process died
entries    the messages, in the order of `number`; `replaced`: when a retry or an edit replaced the entry
words      the FTS5 index over the texts of `entries`: trigrams, so that any part of a word is found, in any script

An entry's columns are what SQL queries need; `more` is the rest of it, as `agent.sessions.json` writes entries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ossia.agent.errors import SessionsUnusable

APPLICATION: Final = 0x6F737373
"""The mark of our files, "osss", so that another program's database isn't taken for ours."""

# Trigrams compared with words (unicode61): to store a result of 40,000 characters takes 9 ms of CPU instead of 1, and
# the index has 2.4 bytes for each character instead of 0.4. But they find `header` in `parse_header` and `parseHeader`.
_FIRST: Final = """
CREATE TABLE sessions(
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    titled INTEGER NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    workspace TEXT,
    parent TEXT,
    model TEXT,
    options TEXT NOT NULL,
    summary TEXT);
CREATE INDEX sessions_by_time ON sessions(updated);
CREATE TABLE turns(
    session INTEGER NOT NULL REFERENCES sessions(number),
    turn INTEGER NOT NULL,
    end TEXT,
    PRIMARY KEY(session, turn)) WITHOUT ROWID;
CREATE TABLE entries(
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions(number),
    turn INTEGER NOT NULL,
    kind TEXT NOT NULL,
    created REAL NOT NULL,
    replaced REAL,
    tokens INTEGER,
    model TEXT,
    vocabulary TEXT,
    text TEXT NOT NULL,
    ids BLOB,
    state BLOB,
    more TEXT NOT NULL);
CREATE INDEX entries_of_session ON entries(session, turn, tokens) WHERE replaced IS NULL;
CREATE INDEX entries_all ON entries(session);
CREATE VIRTUAL TABLE words USING fts5(text, content='entries', content_rowid='number', tokenize='trigram');
CREATE TRIGGER entry_stored AFTER INSERT ON entries BEGIN
    INSERT INTO words(rowid, text) VALUES(new.number, new.text);
END;
CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
    INSERT INTO words(words, rowid, text) VALUES('delete', old.number, old.text);
END;
"""

# 1.0 was what every session got; since models have temperatures of their own, null means that one.
_OWN_TEMPERATURE: Final = """
UPDATE sessions SET options = json_set(options, '$.sampling.temperature', NULL)
WHERE json_valid(options) AND json_extract(options, '$.sampling.temperature') = 1.0;
"""

MIGRATIONS: Final[tuple[str, ...]] = (_FIRST, _OWN_TEMPERATURE)
"""`MIGRATIONS[n]` turns version n into version n + 1. A released step is never changed: a new one is added."""


def migrate(db: sqlite3.Connection, where: object, steps: Sequence[str] = MIGRATIONS) -> None:
    """Bring a database to the version of this program; an empty one gets its tables.

    It is one transaction: all of it or nothing. Raises `SessionsUnusable` for a newer or another program's database.
    """
    db.execute("BEGIN")  # to see marks and tables as of one moment: another process may be making them
    try:
        version = version_of(db, where, len(steps))
    finally:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
    if version < len(steps):
        db.execute("BEGIN EXCLUSIVE")
        try:
            begin = version_of(db, where, len(steps))  # another process may have been quicker
            for step in steps[begin:]:
                for statement in _statements(step):
                    db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute(f"PRAGMA user_version={len(steps)}")
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        # Into the file itself, where an older program reads the version before it lets SQLite touch anything.
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def version_of(db: sqlite3.Connection, where: object, newest: int = len(MIGRATIONS)) -> int:
    """The version that a database has; 0 for an empty one. Call it in a transaction.

    Raises `SessionsUnusable` for a database that we must not touch.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    check_marks(application, version, where, newest, empty=empty)
    return int(version)


def check_marks(application: int, version: int, where: object, newest: int = len(MIGRATIONS), *, empty: bool) -> None:
    """Raises `SessionsUnusable` unless these are the marks of ossia's own database, or of one without any table."""
    if application == APPLICATION and version > newest:
        raise SessionsUnusable(
            f"{where}: the sessions must be of version {newest}, not {version}: use the ossia that wrote them"
        )
    if application != APPLICATION and not (empty and application == version == 0):
        raise SessionsUnusable(f"{where}: a database of another program: move it away")


def _statements(script: str) -> list[str]:
    """A script's statements, since `executescript` would commit the transaction first."""
    found, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
