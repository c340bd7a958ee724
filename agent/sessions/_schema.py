"""The tables of the stored sessions.

sessions   one row each; `options` and `summary` are JSON, `titled` says who has given the title: 1 a person,
           2 the model, 0 nobody: it is what was asked
turns      how each turn ended; NULL: it is under way, or the process died
entries    the messages, in the order of `number`; `replaced`: when a retry or an edit replaced the entry
words      the FTS5 index over the texts of `entries`: trigrams, so that any part of a word is found, in any script

An entry's columns are what SQL queries need; `more` is the rest of it, as `agent.sessions.json` writes entries.
"""

from __future__ import annotations

from typing import Final

from ossia.agent.errors import SessionsUnusable
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

# The kinds of text were stored as "brings"; a session that lost them would no longer be asked about.
_TAINTS: Final = """
UPDATE sessions SET options = json_set(json_remove(options, '$.brings'), '$.taints', json_extract(options, '$.brings'))
WHERE json_valid(options) AND json_type(options, '$.brings') = 'array';
UPDATE entries SET more = json_set(json_remove(more, '$.brings'), '$.taints', json_extract(more, '$.brings'))
WHERE json_valid(more) AND json_type(more, '$.brings') = 'array';
"""

SESSIONS: Final = Format(
    0x6F737373,  # "osss"
    (_FIRST, _OWN_TEMPERATURE, _TAINTS),
    SessionsUnusable,
    pragmas=("secure_delete=ON",),  # what is deleted is overwritten
)
