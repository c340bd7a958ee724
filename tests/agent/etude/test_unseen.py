"""What the étude is asked in the README, in the tests and in its evaluation, it was never trained on.

But for "hello" and "hi".
"""

from __future__ import annotations

import re
from functools import cache
from typing import get_args

import pytest

from tests.etude import reserved
from tests.etude.dialogues import SKILLS, make_dialogue, unseen_dialogue
from tests.etude.exam import others
from tests.etude.exam.plain import plain_turns
from tests.etude.prompts import make_prefix
from tests.etude.transcripts import SCENES
from tests.etude.words.unanswerable import FRAMES
from tests.etude.words.values import CITIES, Exam, Unseen, Values, held_out, words
from tests.etude.words.wording import PHRASINGS, chosen, former, phrased, unlike_training
from tests.support.command import ROOT

pytestmark = pytest.mark.own_job


@cache
def _trained() -> frozenset[str]:
    """The user turns of 3,000 dialogues as training has them."""
    values = Values(11)
    prefixes = [make_prefix(values, "structured" if number % 8 == 0 else None) for number in range(300)]
    dialogues = [make_dialogue(values, prefix) for prefix in prefixes for _ in range(10)]
    return frozenset(reserved.normalise(turn) for dialogue in dialogues for turn in dialogue.user_turns)


def test_the_readme_the_docs_and_the_tests() -> None:
    assert len(_trained()) > 2000
    assert not _trained() & reserved.load()
    assert not _trained() & reserved.collect(ROOT)


def test_the_evaluation() -> None:
    def examined(unseen: Exam) -> set[str]:
        values = Values(12, unseen)
        dialogues = [unseen_dialogue(values, skill)[1] for skill in SKILLS for _ in range(40)]
        return {reserved.normalise(dialogue.user_turns[-1]) for dialogue in dialogues}

    for unseen in get_args(Exam):
        assert not _trained() & examined(unseen)


def test_what_others_wrote() -> None:
    """In an exam their phrasings are asked as they stand, but for those that training happens to have."""
    values, exam = Values(13), Values(14, "others")
    for key in sorted(PHRASINGS.keys() & others.phrasings().keys()):  # a set has another order each time
        trained = {reserved.normalise(phrased(values, key, *"wxyz")) for _ in range(2000)}
        theirs = {one.format(*"wxyz") for one in unlike_training(key)}
        assert len(theirs) >= 5
        assert not trained & {reserved.normalise(one) for one in theirs}
        assert {phrased(exam, key, *"wxyz") for _ in range(20)} <= theirs
    assert len(others.outside()) == 100
    assert {reserved.normalise(one) for one in others.turns()} <= reserved.load()


def test_calls_in_everyday_words_are_kept_out() -> None:
    assert {reserved.normalise(one) for one in plain_turns()} <= reserved.load()


def test_what_the_lessons_before_had() -> None:
    """The model that training began from knows their phrasings."""
    values = Values(15, "phrasing")
    assert len(former()) > 300
    for frames in (*PHRASINGS.values(), FRAMES):
        assert former().isdisjoint(reserved.normalise(chosen(values, frames)) for _ in range(200))
    for key in others.phrasings():
        assert former().isdisjoint(map(reserved.normalise, unlike_training(key)))


def _drawn(unseen: Unseen) -> set[object]:
    """What values are made of, but for digits (too few to be kept apart) and the usual endings of files."""
    values = Values(16, unseen, ("har", "bor", "el"))
    drawn: set[object] = set()
    known = {city.lower() for city in CITIES}
    for _ in range(500):
        drawn |= {make() for make in (values.word, values.city, values.name, values.number, values.glued)}
        if (city := values.city()).lower() not in known:  # but "Los Angeles", which is kept or not as a whole
            drawn |= set(city.split())
        paths = (values.identifier(), values.file(), values.path())
        drawn |= {part for path in paths for part in re.split(r"[_/.-]+", path)}
    endings = {"", "txt", "py", "md", "json", "csv", "log", "toml", "html", "c"}
    return {value for value in drawn if value not in endings and str(value) not in "0123456789"}


def test_a_value_is_of_training_or_of_the_exam() -> None:
    trained = _drawn("nothing")
    assert len(trained) > 2000
    assert not set(filter(held_out, trained))
    exams: tuple[Unseen, ...] = ("values", "phrasing")
    for unseen in exams:
        assert len(asked := _drawn(unseen)) > 1000
        assert all(map(held_out, asked))


def test_training_has_cities_that_are_words_by_themselves_or_begin_with_one() -> None:
    values = Values(17)
    cities = {values.city() for _ in range(2000)}
    assert len([one for one in cities if one.startswith("New ")]) > 30
    assert len([one for one in cities if one.lower() in words()]) > 100


def test_all_that_is_asked_is_kept_out() -> None:
    asked = reserved.asked(ROOT)
    assert {"what is 48*17", "why is the sky blue"} <= asked
    assert {reserved.normalise(question) for scene in SCENES for question in scene.questions} <= asked
    assert not asked - reserved.load(), "not kept out of training; see python -m tests.etude.reserved --help"
