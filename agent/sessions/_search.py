"""Searching the stored sessions: words as people type them, which are never taken for FTS5's syntax."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass, replace
from typing import Final

from ossia.agent.sessions._rows import storable
from ossia.agent.sessions._sessions import like_pattern

_TRIGRAM: Final = 3  # shorter words can't be looked up in the index
_MAX_WORDS: Final = 20
_MAX_CHARS: Final = 500
_MAX_ROWS: Final = 1000  # at most so many messages are ranked
_AROUND_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class Found:
    """The best match in a session; `session` is the number of its row."""

    session: int
    kind: str
    snippet: str
    matches: int


def find_words(db: sqlite3.Connection, text: str, *, limit: int, thinking: bool) -> list[Found]:
    """The best match in each of the best `limit` sessions: titles first, then by rank."""
    words = storable(text.replace("\0", " ")[:_MAX_CHARS]).split()[:_MAX_WORDS]
    if not words:
        return []
    found: dict[int, Found] = {}
    for session, kind, said in (*_titles(db, words), *_messages(db, words, thinking=thinking)):
        if not isinstance(said, str):  # a damaged row
            continue
        if session in found:
            found[session] = replace(found[session], matches=found[session].matches + 1)
        elif len(found) < limit:
            found[session] = Found(session, kind, _snippet(said, words), 1)
    return list(found.values())


def _titles(db: sqlite3.Connection, words: list[str]) -> list[tuple[int, str, str]]:
    """Only titles that were given: any other is the beginning of a message, which is searched anyway."""
    where, values = _alike("title", words)
    query = f"SELECT number, 'title', title FROM sessions WHERE titled>0 AND {where} ORDER BY updated DESC LIMIT ?"
    return db.execute(query, (*values, _MAX_ROWS)).fetchall()


def _messages(db: sqlite3.Connection, words: list[str], *, thinking: bool) -> list[tuple[int, str, str]]:
    long = [word for word in words if len(word) >= _TRIGRAM]
    where, values = _alike("entries.text", words if not long else [word for word in words if word not in long])
    where += " AND replaced IS NULL" + ("" if thinking else " AND kind<>'thinking'")
    if not long:
        query = f"SELECT session, kind, text FROM entries WHERE {where} ORDER BY number DESC LIMIT ?"
        return db.execute(query, (*values, _MAX_ROWS)).fetchall()
    match = " ".join('"' + word.replace('"', '""') + '"' for word in long)
    query = f"""SELECT session, kind, entries.text FROM words JOIN entries ON entries.number=words.rowid
        WHERE words MATCH ? AND {where} ORDER BY words.rank, entries.number LIMIT ?"""
    return db.execute(query, (match, *values, _MAX_ROWS)).fetchall()


def _alike(column: str, words: list[str]) -> tuple[str, list[str]]:
    """An SQL condition, and its values: all words are in the column."""
    return " AND ".join([f"{column} LIKE ? ESCAPE '\\'"] * len(words)) or "1", [like_pattern(word) for word in words]


def _snippet(text: str, words: list[str]) -> str:
    """One line around the first place where one of the words is."""
    places = [match.start() for word in words if (match := re.search(re.escape(word), text, re.IGNORECASE))]
    at = min(places, default=0)
    begin, end = max(0, at - _AROUND_CHARS), at + 2 * _AROUND_CHARS
    before, after = "…" if begin > 0 else "", "…" if end < len(text) else ""
    return f"{before}{' '.join(text[begin:end].split())}{after}"
