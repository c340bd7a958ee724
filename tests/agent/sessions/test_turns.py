"""The turns of all stored sessions: which are found, in which order, and what is left out."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.agent.events import TurnEnd
from ossia.agent.sessions.session import Options, Session, UserText
from ossia.agent.sessions.store import SessionStore, StoredTurn
from ossia.harmony.messages import Message, ResponseFormat

SCHEMA = ResponseFormat("answer", {"type": "object"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    clock = itertools.count(1000.0)
    store = SessionStore(tmp_path / "sessions" / "sessions.sqlite", now=lambda: next(clock))
    yield store
    store.close()


def _say(
    session: Session,
    question: str | UserText,
    answer: str | None = "Yes.",
    *,
    end: TurnEnd = "answered",
    schema: ResponseFormat | None = None,
) -> None:
    session.options = Options(response_format=schema)
    session.open_turn(question)
    session.add(Message("assistant", ("A hidden thought.",), channel="analysis"))
    if answer is not None:
        session.add(Message("assistant", (answer,), channel="final"))
    session.close_turn(end)


def _asked(turns: object) -> list[str]:
    assert isinstance(turns, list)
    return [one.question for one in turns]


def test_the_last_turns_of_all_sessions_the_oldest_first(store: SessionStore) -> None:
    first, second = Session(Options()), Session(Options())
    second.model = "etude"
    ids = [store.keep(first), store.keep(second)]
    _say(first, "One?")
    _say(second, UserText("Two?\n\nwas piped in", "Two?"), '{"a": 1}', schema=SCHEMA)
    _say(first, UserText("only piped", ""), None, end="stopped")
    second.open_turn("Four?")
    second.steer("Quick!")
    found = store.last_turns(limit=None)
    assert found == [
        StoredTurn(ids[0], 0, found[0].created, "One?", "Yes.", None, "answered"),
        StoredTurn(ids[1], 0, found[1].created, "Two?", '{"a": 1}', "etude", "answered", structured=True),
        StoredTurn(ids[0], 1, found[2].created, "only piped", None, None, "stopped"),
        StoredTurn(ids[1], 1, found[3].created, "Four?", None, None, None),
    ]
    assert found == sorted(found, key=lambda one: one.created)
    assert store.last_turns(limit=2) == found[2:]
    assert store.last_turns(structured=True) == [found[1]]
    assert store.load(ids[1]).entries[2].structured


def test_words_are_looked_for_in_the_question_and_in_the_answer(store: SessionStore) -> None:
    session = Session(Options())
    store.keep(session)
    _say(session, UserText("Look:\n\ndef parse_header", "Look:"), "It is fine.")
    _say(session, "A rose?", "It needs *shade*.")
    _say(session, "Again?", '{"rose": "shade"}', schema=SCHEMA)
    for text, found in (
        ("header parse", ["Look:"]),
        ("FINE", ["Look:"]),
        ("rose", ["A rose?", "Again?"]),
        ("rose shade", ["Again?"]),
        ("is ne", ["Look:"]),
        ("hidden", []),
        ('" OR rose', []),
        ("*", ["A rose?"]),
        ("  ", ["Look:", "A rose?", "Again?"]),
    ):
        assert _asked(store.last_turns(text=text)) == found, text
    assert _asked(store.last_turns(text="rose", structured=True)) == ["Again?"]
    assert _asked(store.last_turns(text="rose", limit=1)) == ["Again?"]


def test_copies_of_a_fork_and_what_a_retry_replaced_are_left_out(store: SessionStore) -> None:
    session = Session(Options())
    origin = store.keep(session)
    for question in ("One?", "Two?"):
        _say(session, question)
    session.cut_back(1)
    _say(session, "Two, again?")
    fork = store.resume(store.fork(origin))
    _say(fork, "Three?")
    assert _asked(store.last_turns(limit=None)) == ["One?", "Two, again?", "Three?"]
    store.release(session)
    store.remove(origin)
    assert _asked(store.last_turns(limit=None)) == ["One?", "Two, again?", "Three?"]


def test_turns_that_only_forks_still_have_are_found_once(store: SessionStore) -> None:
    """As /rewind leaves them."""
    session = Session(Options())
    origin = store.keep(session)
    for question in ("One?", "Two?", "Three?"):
        _say(session, question)
    kept = store.fork(origin)
    session.cut_back(2)
    _say(session, "Other?")
    again = store.fork(origin)
    session.cut_back(1)
    store.fork(kept)
    found = store.last_turns(limit=None)
    assert _asked(found) == ["One?", "Two?", "Three?", "Other?"]
    assert [one.session for one in found] == [origin, again, kept, again]
    assert _asked(store.last_turns(text="three")) == ["Three?"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET more='{' WHERE turn=1",
        "UPDATE entries SET more='5' WHERE turn=1",
        "UPDATE entries SET text=x'00' WHERE turn=1",
        "UPDATE turns SET end='exploded' WHERE turn=1",
    ],
)
def test_a_turn_that_nobody_wrote_is_left_out_with_a_line(store: SessionStore, change: str) -> None:
    session = Session(Options())
    session_id = store.keep(session)
    for question in ("One?", "Two?", "Three?"):
        _say(session, UserText(question, ""))
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute(change)
    db.close()
    lines: list[str] = []
    assert _asked(store.last_turns(skipped=lines.append)) == ["One?", "Three?"]
    assert len(lines) == 1 and lines[0].startswith(f"turn 2 of session {session_id} isn't whole (")


def test_nothing_is_written(store: SessionStore) -> None:
    assert store.last_turns() == [] and not store.path.parent.exists()
    session = Session(Options())
    store.keep(session)
    _say(session, "One?")
    store.close()
    before = store.path.read_bytes()
    assert _asked(store.last_turns(text="one")) == ["One?"]
    store.close()
    assert (store.path.read_bytes(), [one.name for one in store.path.parent.iterdir()]) == (before, [store.path.name])
