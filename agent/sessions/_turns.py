"""The turns of all stored sessions, with their questions and answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ossia.agent.events import TurnEnd
from ossia.agent.sessions._rows import UNREADABLE
from ossia.agent.sessions._sessions import having, time_of, words_of
from ossia.agent.sessions.json import end_from_json

_T = TypeVar("_T")
_STRUCTURED = '%"structured":true%'  # as `_rows` writes it; within a text, JSON escapes the quotes
# A fork begins with copies, which are older than the fork; they count once their turn is removed from its origin.
_IS_COPY = """entries.created < sessions.created AND EXISTS (
    SELECT 1 FROM sessions AS s JOIN entries AS e ON e.session=s.number WHERE s.id=sessions.parent
    AND e.turn=entries.turn AND e.created=entries.created AND e.replaced IS NULL)"""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn of a stored session. `turn` counts from 0, `created` is in unix seconds.

    `question` is the part that was typed; all of it if nothing was. `answer` is None without one; `structured`: it was
    to follow a schema. `end` None: the turn is under way, or the process died.

        StoredTurn("k7m2v9xq", 0, 1763775000.0, "What is 48*17?", "816", "gpt-oss-20b", "answered")
    """

    session: str
    turn: int
    created: float
    question: str
    answer: str | None
    model: str | None
    end: TurnEnd | None
    structured: bool = False


def last_turns(
    db: sqlite3.Connection, text: str, *, limit: int | None, structured: bool, skipped: Callable[[str], object]
) -> list[StoredTurn]:
    """The last turns, at most `limit` (None: all), the oldest first. `skipped` gets a line about an unreadable one."""
    found: list[StoredTurn] = []
    seen: set[tuple[int, int]] = set()
    said: set[tuple[int, float]] = set()  # two forks may have copies of a turn that is gone
    for session, turn, session_id in _places(db, text, structured=structured):
        if len(found) == limit:
            break
        if (session, turn) in seen:
            continue
        seen.add((session, turn))
        try:
            read = _turn(db, session, turn, str(session_id))
        except UNREADABLE as error:
            skipped(f"turn {turn + 1} of session {session_id} isn't whole ({type(error).__name__}): it is left out")
        else:
            if read and (read.structured or not structured) and (turn, read.created) not in said:
                said.add((turn, read.created))
                found.append(read)
    found.reverse()
    return sorted(found, key=lambda one: one.created)


def _places(db: sqlite3.Connection, text: str, *, structured: bool) -> Iterator[tuple[int, int, str]]:
    """The row of a session, a turn of it, the session's id: the last ones first, a turn once or more."""
    words = words_of(text)
    table, where, values = having(words)
    if structured and not words:
        where, values = f"{where} AND kind='answer' AND more LIKE ?", [*values, _STRUCTURED]
    else:
        where += " AND kind IN ('user', 'answer')" if words else " AND kind='user'"
    query = f"""SELECT session, turn, id FROM {table} CROSS JOIN sessions ON sessions.number=session
        WHERE {where} AND replaced IS NULL AND NOT ({_IS_COPY}) ORDER BY {table.split()[0]}.rowid DESC"""
    return iter(db.execute(query, values))


def _turn(db: sqlite3.Connection, session: int, turn: int, session_id: str) -> StoredTurn | None:
    """The turn; None for one that was removed meanwhile. Raises `UNREADABLE` for rows that hold something else."""
    query = """SELECT kind, created, model, text, more FROM entries
        WHERE session=? AND turn=? AND replaced IS NULL AND kind IN ('user', 'answer') ORDER BY number"""
    rows = db.execute(query, (session, turn)).fetchall()
    if not rows:
        return None
    said = next((row for row in rows if row[0] == "user"), None)
    answer = next((row for row in reversed(rows) if row[0] == "answer"), None)
    typed = json.loads(said[4])["typed"] if said else None
    (end,) = db.execute("SELECT end FROM turns WHERE session=? AND turn=?", (session, turn)).fetchone() or (None,)
    return StoredTurn(
        session_id,
        turn,
        time_of(rows[0][1]),
        _checked(typed or (said[3] if said else ""), str),
        _checked(answer[3], str) if answer else None,
        _checked(answer[2], str) if answer and answer[2] is not None else None,
        end_from_json(end),
        json.loads(answer[4]).get("structured") is True if answer else False,
    )


def _checked(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"must be {kind.__name__}, not {type(value).__name__}")
    return value
