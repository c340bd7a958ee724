"""The tables of the stored sessions, and entries as their rows.

sessions   one row each; `options` and `summary` are JSON, `titled` says who has given the title: 1 a person,
           2 the model, 0 nobody: it is what was asked; `folder` is where it was begun, `forked` the number of
           turns that it had from its `parent`
turns      how each turn ended; NULL: it is under way, or the process died
entries    the messages, in the order of `number`; `replaced`: when a retry or an edit replaced the entry
words      the FTS5 index over the texts of `entries`: trigrams, so that any part of a word is found, in any script

An entry's columns are what SQL queries need; `more` is the rest of it, as `agent.sessions.json` writes entries.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from ossia.agent.errors import SessionsUnusable
from ossia.agent.kinds import kind_of
from ossia.agent.sessions.json import (
    end_from_json,
    entry_from_json,
    entry_to_json,
    options_from_json,
    summary_from_json,
)
from ossia.agent.sessions.session import Entry, Session
from ossia.harmony.errors import HarmonyError
from ossia.tools.database import Format

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
    summary TEXT,
    forked INTEGER,
    folder TEXT);
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
SESSIONS: Final = Format(
    0x6F737373,  # "osss"
    (_FIRST, "", "", ""),  # the first release wrote version 4; nobody has an older one
    SessionsUnusable,
    pragmas=("secure_delete=ON",),  # what is deleted is overwritten
)


COLUMNS: Final = "turn, kind, tokens, model, vocabulary, text, ids, state, more"
_SAID_CHARS: Final = 100
_READ: Final = "turn, model, vocabulary, text, ids, state, more"

CountTokens = Callable[[str], int]


def insert(db: sqlite3.Connection, session: int, entry: Entry, at: float, count_tokens: CountTokens | None) -> int:
    """Store an entry; returns the number of its row."""
    values = (session, at, *_values(entry, count_tokens))
    marks = ",".join("?" * len(values))
    cursor = db.execute(f"INSERT INTO entries(session, created, {COLUMNS}) VALUES({marks})", values)
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _values(entry: Entry, count_tokens: CountTokens | None) -> tuple[object, ...]:
    data, text = entry_to_json(entry), storable(entry.message.text)
    sampled, state = data["sampled"], data.pop("state")
    ids = sampled.pop("ids") if sampled else ()
    if entry.message.content == (text,):
        del data["message"]["content"]  # the column has it
    for column in ("turn", "model", "vocabulary"):
        del data[column]
    tokens = len(ids) if sampled else count_tokens(text) if count_tokens else None
    packed_ids = zlib.compress(struct.pack(f"<{len(ids)}I", *ids), 1) if sampled else None  # about 2.3 bytes each
    packed_state = None if state is None else zlib.compress(_json(state).encode(), 1)
    about = (entry.turn, kind_of(entry.message), tokens, entry.model, entry.vocabulary)
    return (*about, text, packed_ids, packed_state, _json(data))


def read_entries(db: sqlite3.Connection, session: int, *, replaced: bool = False) -> list[tuple[int, Entry]]:
    """The entries of a session with the numbers of their rows, in order; `replaced`: those that were replaced."""
    where = f"session=? AND replaced IS {'NOT ' if replaced else ''}NULL"
    rows = db.execute(f"SELECT number, {_READ} FROM entries WHERE {where} ORDER BY number", (session,))
    return [(row[0], _entry(row[1:])) for row in rows]


def read_session(db: sqlite3.Connection, number: int) -> tuple[Session, list[int]]:
    """A stored session, and the rows of its entries.

    A turn that was under way when the process died has None as its end, and the messages that it had by then.
    """
    options, summary = db.execute("SELECT options, summary FROM sessions WHERE number=?", (number,)).fetchone()
    numbered = read_entries(db, number)
    ended = dict(db.execute("SELECT turn, end FROM turns WHERE session=?", (number,)))
    turns = 1 + max([entry.turn for _, entry in numbered], default=-1)
    session = Session(
        options_from_json(json.loads(options)),
        entries=[entry for _, entry in numbered],
        ends=[end_from_json(ended.get(turn)) for turn in range(turns)],
        summary=summary_from_json(json.loads(summary)) if summary is not None else None,
    )
    return session, [row for row, _ in numbered]


def _entry(row: Sequence[Any]) -> Entry:
    turn, model, vocabulary, text, ids, state, more = row
    data = json.loads(more)
    data |= {"turn": turn, "model": model, "vocabulary": vocabulary}
    data["message"].setdefault("content", [{"type": "text", "text": text}])
    data["state"] = None if state is None else json.loads(zlib.decompress(state))
    if data["sampled"] is not None:
        data["sampled"]["ids"] = [token for (token,) in struct.iter_unpack("<I", zlib.decompress(ids))]
    return entry_from_json(data)


def unreadable(path: object, session_id: str, error: Exception) -> SessionsUnusable:
    """The error for a row that holds something we never wrote."""
    said = " ".join(str(error).split())[:_SAID_CHARS]  # it may be what the row holds
    return SessionsUnusable(
        f"{path}: session {session_id} isn't whole ({type(error).__name__}: {said}): `ossia sessions rm {session_id}` "
        "removes it"
    )


UNREADABLE: Final = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError),
    *(zlib.error, struct.error, HarmonyError),
)
"""The errors that reading a row raises if it holds something we never wrote."""


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))  # ASCII, so that a lone surrogate survives


def storable(text: str) -> str:
    """The text without lone surrogates, which SQLite doesn't take: a file name that isn't UTF-8 has some."""
    return text.encode("utf-8", "replace").decode()
