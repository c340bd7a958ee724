"""The title of a conversation is what was asked, not the first line alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore, asked_in

LOG = "\n".join(f"2026-11-23 08:{number:02} ERROR worker {number} died: why? no idea" for number in range(40))
CODE = "def f(x):\n    return x + 1\n\nprint(f(1))"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("What is 48*17?", "What is 48*17?"),
        ("Speak of llamas", "Speak of llamas"),
        ("  \n# Notes\nmore", "# Notes"),
        ("Guten Tag!\nWas ist ein Lama?", "Was ist ein Lama?"),
        ("hi\nwhy does it crash?", "why does it crash?"),
        ("Hidden Markov models", "Hidden Markov models"),
        ("Help files for vim", "Help files for vim"),
        ("Please write a haiku", "Please write a haiku"),
        (f"{LOG}\n\nWhich worker died first?", "Which worker died first?"),
        (f"Which worker died first?\n\n{LOG}", "Which worker died first?"),
        (f"Which worker died first? {LOG}", "Which worker died first?"),
        ("Is it A? Or is it B? Say it in a word.", "Is it A? Or is it B?"),
        (f"Fix this.\n\n{CODE}", "Fix this."),
        (f"{CODE}\n\nWhy does this print 2?", "Why does this print 2?"),
        (f"```python\n{CODE}\n```\nthe second line is slow", "the second line is slow"),
        (f"```python\n{CODE}\n```", "def f(x):"),
        ("I'm planning a trip to Peru. Where should I go?", "I'm planning a trip to Peru. Where should I go?"),
        (f"{'I have tried a lot of things. ' * 5}Why does it still crash?", "Why does it still crash?"),
        ("x" * 200, "x" * 79 + "…"),
        ("ラマとは何ですか？", "ラマとは何ですか？"),
        ("", ""),
    ],
)
def test_what_a_message_asks(said: str, title: str) -> None:
    assert asked_in(said) == title


@pytest.mark.parametrize("said", [" ", "hi ", "hi, ", "? ", "a ? ", "a\n", "```\n", "help me "])
def test_a_long_text_takes_no_time(said: str) -> None:
    assert len(asked_in(said * 100_000)) <= 80


def test_the_title_is_what_was_asked_first(tmp_path: Path) -> None:
    clock = itertools.count(1)
    store, session = SessionStore(tmp_path / "sessions.db", now=lambda: float(next(clock))), Session()
    session_id = store.keep(session)
    titles = []
    for said in (" ", "Notes.\nwhy does it crash?", "What is 48*17?"):
        session.open_turn(said)
        session.close_turn("answered")
        titles.append(store.find(session_id).title)
    assert titles == ["", "why does it crash?", "why does it crash?"]
    store.rename(session_id, "Hi")
    session.open_turn("And 48*18?")
    assert store.find(session_id).title == "Hi", "a person gave it"
    store.rename(session_id, "")
    assert store.find(session_id).title == "why does it crash?"
    store.close()


def test_the_models_title_takes_the_place_of_the_question_alone(tmp_path: Path) -> None:
    clock = itertools.count(1)
    store, session = SessionStore(tmp_path / "sessions.db", now=lambda: float(next(clock))), Session()
    session_id = store.keep(session)
    session.open_turn(" ")
    assert not store.wants_title(session_id), "nothing was asked yet"
    session.open_turn("What is a llama?")
    assert store.wants_title(session_id)
    store.entitle(session_id, "Camelids of\nSouth America")
    assert (store.find(session_id).title, store.wants_title(session_id)) == ("Camelids of", False)
    store.entitle(session_id, "Another one")
    session.open_turn("And an alpaca?")
    assert store.find(session_id).title == "Camelids of", "it has one"
    assert [hit.kind for hit in store.search("camelids")] == ["title"]
    assert store.find(store.fork(session_id, turns=1)).title == "Camelids of"
    store.rename(session_id, "Mine")
    store.entitle(session_id, "Another one")
    assert store.find(session_id).title == "Mine", "a person gave it"
    store.close()
