"""A thing is asked for in many words: courtesy, no capitals, typing mistakes, other orders, greetings of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.etude.prompts import make_prefix
from tests.etude.said import answer, question
from tests.etude.skills.chat import chat
from tests.etude.words.around import AFTER, BEFORE
from tests.etude.words.values import Values
from tests.etude.words.wording import phrased

pytestmark = pytest.mark.own_job

_FOREIGN = ("bonjour", "hola", "guten tag", "namaste", "merhaba")


def _asked(key: str, *parts: str) -> list[str]:
    values = Values(31)
    return [phrased(values, key, *parts) for _ in range(3000)]


@pytest.mark.parametrize(
    ("is_so", "least", "most"),
    [
        (lambda said: said.lower().startswith(tuple(one.lower() for one in BEFORE)), 0.06, 0.2),
        (lambda said: said.rstrip(".?!").endswith(AFTER), 0.03, 0.2),
        (lambda said: said[0].islower(), 0.1, 0.45),
        (lambda said: said.startswith("Zurich"), 0.02, 0.25),
        (lambda said: "weather" not in said and "wether" not in said, 0.2, 0.6),
        (
            lambda said: any(one in said for one in ("weatehr", "weaather", "wether", "waether", "weathher")),
            0.001,
            0.05,
        ),
    ],
    ids=["courtesy before", "courtesy after", "no capital", "the value first", "without the word", "typing mistakes"],
)
def test_the_weather_is_asked_for_in_many_words(is_so: Callable[[str], bool], least: float, most: float) -> None:
    asked = _asked("weather", "Zurich")
    assert all("Zurich" in said for said in asked) and len(set(asked)) > 1500
    assert least < sum(map(is_so, asked)) / len(asked) < most


def test_who_greets_in_another_language_is_greeted_in_english() -> None:
    values = Values(32)
    prefix = make_prefix(values)
    chats = [chat(values, prefix, "greeting")[0] for _ in range(6000)]
    found = {one for made in chats for one in _FOREIGN if question(made).lower().startswith(one)}
    assert found == set(_FOREIGN)
    assert {answer(made) for made in chats} == {"Hello! How can I help you?"}
