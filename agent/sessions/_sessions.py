"""The rows of the stored sessions: looked up, renamed, copied, removed."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ossia.agent.errors import SessionMissing
from ossia.agent.sessions._rows import read_entries, storable
from ossia.agent.sessions._titles import TITLE_CHARS, asked_in, title_from, title_of

_ID_LETTERS: Final = "23456789bcdfghjkmnpqrstvwxz"  # they make no words, and none looks like another (0 and O)
_ID_CHARS: Final = 8
_LAST_TIME: Final = 253_402_214_400.0  # 9999-12-31: the last day that `datetime` knows, in any time zone
_INFO: Final = """
    SELECT id, title, created, updated,
        (SELECT count(*) FROM turns WHERE session=sessions.number), model, workspace, parent,
        (SELECT coalesce(sum(tokens), 0) FROM entries WHERE session=sessions.number AND replaced IS NULL),
        forked, (SELECT title FROM sessions AS origin WHERE origin.id=sessions.parent), folder
    FROM sessions"""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The facts that a list shows of a stored session. Times are unix seconds.

    `title`: what the user asked first, until the model or a person gives another. `model` is the one that spoke last.
    `parent`: the id of the session that it was forked from, with its first `forked` turns (None: unknown);
    `parent_title` is None once that one is removed. `tokens`: those of its messages, as far as they were counted.
    `folder` is where it was begun; None: it came from a file.

        SessionInfo("k7m2v9xq", "What is 48*17?", 1763775000.0, 1763775012.5, 1, "gpt-oss-20b", None, None, 61)
    """

    id: str
    title: str
    created: float
    updated: float
    turns: int
    model: str | None
    workspace: str | None
    parent: str | None
    tokens: int
    forked: int | None = None
    parent_title: str | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class SessionHit:
    """A session in which something was found, and its best match.

    `kind` is that of the matching message (`agent.kinds`), or `"title"`. `snippet` is one line around the match;
    `matches` counts that session's matching messages.
    """

    info: SessionInfo
    kind: str
    snippet: str
    matches: int = 1


def new_id(db: sqlite3.Connection | None) -> str:
    """An id that no session has: eight characters that can't be mistaken for each other, `"k7m2v9xq"`."""
    while True:
        new = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_CHARS))
        if db is None or db.execute("SELECT 1 FROM sessions WHERE id=?", (new,)).fetchone() is None:
            return new


def number_of(db: sqlite3.Connection | None, session_id: str) -> int:
    """The number of a session's row. Raises `SessionMissing`."""
    row = db.execute("SELECT number FROM sessions WHERE id=?", (session_id,)).fetchone() if db is not None else None
    if row is None:
        raise SessionMissing(f"there is no session {session_id}: `ossia sessions list` shows the stored ones")
    return int(row[0])


def infos(db: sqlite3.Connection, rest: str, *values: object) -> list[SessionInfo]:
    """The sessions that a query finds; `rest` is its part from WHERE on."""
    return [_info(row) for row in db.execute(f"{_INFO} {rest}", values)]


def _info(row: Sequence[Any]) -> SessionInfo:
    """Leave out what isn't a text or a number in a damaged row, so that the session can be listed and removed."""
    session_id, title, created, updated, turns, model, workspace, parent, tokens, forked, parent_title, folder = row
    first = (_text(session_id) or "?", _text(title) or "", time_of(created), time_of(updated), int(turns))
    origin = forked if isinstance(forked, int) else None, _text(parent_title), _text(folder)
    return SessionInfo(*first, _text(model), _text(workspace), _text(parent), int(tokens), *origin)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def time_of(value: object) -> float:
    """A stored time; 0.0 for what is none."""
    return value if isinstance(value, float) and 0 <= value <= _LAST_TIME else 0.0


def find(db: sqlite3.Connection, ref: str) -> list[SessionInfo]:
    """The session with this id, or the only one whose id begins with it, or all that `ref` may mean, newest first.

    Those have it as their title; if none has, they contain it in their title; if none does, their ids begin with it.
    """
    ref = storable(ref.replace("\0", "")[: 2 * TITLE_CHARS])
    if not ref:
        return []
    newest = "ORDER BY updated DESC, number DESC"
    begun = infos(db, f"WHERE substr(id, 1, ?)=? {newest}", len(ref), ref.lower())
    if len(begun) == 1:
        return begun
    titled = infos(db, rf"WHERE title LIKE ? ESCAPE '\' {newest}", like_pattern(ref))
    return [info for info in titled if info.title.casefold() == ref.casefold()] or titled or begun


def like_pattern(text: str) -> str:
    r"""A pattern for `LIKE ? ESCAPE '\'` that finds exactly this text, anywhere."""
    escaped = re.sub(r"([\\%_])", r"\\\1", text)
    return f"%{escaped}%"


def rename(db: sqlite3.Connection, number: int, title: str) -> None:
    """Give a session a title; with an empty one, the title is what the user asked again."""
    given = title_of(title)
    if given:
        db.execute("UPDATE sessions SET title=?, titled=1 WHERE number=?", (given, number))
        return
    said = (entry for _, entry in read_entries(db, number) if entry.message.role == "user")
    asked = title_from(entry.typed or entry.message.text for entry in said)
    db.execute("UPDATE sessions SET title=?, titled=0 WHERE number=?", (asked, number))


def wants_title(db: sqlite3.Connection, number: int) -> bool:
    """True if nobody has given it a title, although something was asked in it."""
    title, titled = db.execute("SELECT title, titled FROM sessions WHERE number=?", (number,)).fetchone()
    return not titled and bool(asked_in(title))


def entitle(db: sqlite3.Connection, number: int, title: str) -> None:
    """Give it the model's title, unless it has been given one."""
    db.execute("UPDATE sessions SET title=?, titled=2 WHERE number=? AND titled=0", (title_of(title), number))


def remove(db: sqlite3.Connection, number: int) -> None:
    """Delete everything about a session."""
    for table, column in (("entries", "session"), ("turns", "session"), ("sessions", "number")):
        db.execute(f"DELETE FROM {table} WHERE {column}=?", (number,))


def copy(db: sqlite3.Connection, number: int, *, turns: int | None, at: float) -> str:
    """Copy the first `turns` turns of a session (None: all); returns the id of the copy."""
    copied_id = new_id(db)
    keys = "title, titled, workspace, folder, model, options"
    (parent, summary) = db.execute("SELECT id, summary FROM sessions WHERE number=?", (number,)).fetchone()
    if turns is not None and turns_summarised(db, number) > turns:
        summary = None
    cursor = db.execute(
        f"""INSERT INTO sessions(id, parent, summary, created, updated, forked, {keys})
        SELECT ?, ?, ?, ?, ?, (SELECT min(count(*), ?) FROM turns WHERE session=?), {keys}
        FROM sessions WHERE number=?""",
        (copied_id, parent, summary, at, at, turns if turns is not None else 1 << 62, number, number),
    )
    which: tuple[Any, ...] = (cursor.lastrowid, number, turns if turns is not None else 1 << 62)
    db.execute("INSERT INTO turns SELECT ?, turn, end FROM turns WHERE session=? AND turn<?", which)
    kept = "turn, kind, created, tokens, model, vocabulary, text, ids, state, more"
    db.execute(
        f"""INSERT INTO entries(session, {kept}) SELECT ?, {kept} FROM entries
        WHERE session=? AND turn<? AND replaced IS NULL ORDER BY number""",
        which,
    )
    return copied_id


def turns_summarised(db: sqlite3.Connection, number: int) -> int:
    """The number of turns in a session's summary; 0 without a summary."""
    (summary,) = db.execute("SELECT summary FROM sessions WHERE number=?", (number,)).fetchone()
    return 0 if summary is None else int(json.loads(summary)["turns"])


# -- searching: words as people type them, which are never taken for the syntax of FTS5 --------------------------------

_TRIGRAM: Final = 3  # shorter words can't be looked up in the index
_MAX_WORDS: Final = 20
_MAX_CHARS: Final = 500
_MAX_ROWS: Final = 1000  # at most so many messages are ranked
_AROUND_CHARS: Final = 40


def search(db: sqlite3.Connection, text: str, *, limit: int, thinking: bool) -> list[SessionHit]:
    """The best match in each of the best `limit` sessions: titles first, then by rank."""
    words = words_of(text)
    if not words:
        return []
    found: dict[int, SessionHit] = {}
    for number, kind, said in (*_titles(db, words), *_messages(db, words, thinking=thinking)):
        if not isinstance(said, str):  # a damaged row
            continue
        if number in found:
            found[number] = replace(found[number], matches=found[number].matches + 1)
        elif len(found) < limit:
            (info,) = infos(db, "WHERE number=?", number)
            found[number] = SessionHit(info, kind, _snippet(said, words))
    return list(found.values())


def words_of(text: str) -> list[str]:
    """The words to look for; what is beyond 500 characters or 20 words is left out."""
    return storable(text.replace("\0", " ")[:_MAX_CHARS]).split()[:_MAX_WORDS]


def having(words: list[str]) -> tuple[str, str, list[str]]:
    """The tables, an SQL condition, and its values: the entries with all these words in their text."""
    long = [word for word in words if len(word) >= _TRIGRAM]
    where, values = _alike("entries.text", [word for word in words if not long or word not in long])
    if not long:
        return "entries", where, values
    match = " ".join('"' + word.replace('"', '""') + '"' for word in long)
    return "words JOIN entries ON entries.number=words.rowid", f"words MATCH ? AND {where}", [match, *values]


def _titles(db: sqlite3.Connection, words: list[str]) -> list[tuple[int, str, str]]:
    """Only titles that were given: any other is the beginning of a message, which is searched anyway."""
    where, values = _alike("title", words)
    query = f"SELECT number, 'title', title FROM sessions WHERE titled>0 AND {where} ORDER BY updated DESC LIMIT ?"
    return db.execute(query, (*values, _MAX_ROWS)).fetchall()


def _messages(db: sqlite3.Connection, words: list[str], *, thinking: bool) -> list[tuple[int, str, str]]:
    table, where, values = having(words)
    where += " AND replaced IS NULL" + ("" if thinking else " AND kind<>'thinking'")
    order = "number DESC" if table == "entries" else "words.rank, number"
    query = f"SELECT session, kind, entries.text FROM {table} WHERE {where} ORDER BY {order} LIMIT ?"
    return db.execute(query, (*values, _MAX_ROWS)).fetchall()


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
