"""A second or third turn, which needs what was said before; the thinking of earlier turns is gone."""

from __future__ import annotations

from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answer, answers, asks, past, question
from tests.etude.skills.arithmetic import arithmetic, solve
from tests.etude.skills.browser import browser
from tests.etude.skills.chat import chat
from tests.etude.skills.functions import function, weather, weather_in
from tests.etude.skills.work import files
from tests.etude.words.values import Values

_OPERATIONS = (("+", "add"), ("-", "subtract"), ("*", "multiply"), ("/", "divide"))


def followup(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """One or two finished turns, and a question about them."""
    kinds = [
        "weather",
        "name",
        "another",
        "another",
        "first",
        "again",
        *(["sum", "sum"] if prefix.has_python else ["name"]),
    ]
    kind = values.one(kinds)
    made = {
        "sum": _sum, "weather": _weather, "name": _name, "another": _another, "first": _first, "again": _again,
    }[kind](values, prefix)  # fmt: skip
    return made, kind


def _sum(values: Values, prefix: Prefix) -> list[Segment]:
    while True:
        before, _ = arithmetic(values, prefix)
        said = answer(before)
        if said.startswith("The result is "):
            break
    result = said.removeprefix("The result is ").removesuffix(".")
    operator, phrasing = values.one(_OPERATIONS)
    number = values.number(6)
    asked = asks(values, phrasing, number)
    return past(before) + asked + solve(values, prefix, f"{result} {operator} {number}")


def _weather(values: Values, prefix: Prefix) -> list[Segment]:
    before, _ = weather(values, prefix)
    while "fahrenheit" in question(before):  # would the next be, too?
        before, _ = weather(values, prefix)
    city = values.city()
    return past(before) + asks(values, "weather too", city) + weather_in(values, prefix, city)


def _name(values: Values, prefix: Prefix) -> list[Segment]:
    before, _ = chat(values, prefix, "name")
    name = answer(before).removeprefix("Nice to meet you, ").removesuffix("!")
    between: list[Segment] = []
    if values.chance(0.5):
        between = past(values.one((_other_chat, arithmetic, weather))(values, prefix)[0])
    return (
        past(before)
        + between
        + asks(values, "who am i", values.word())
        + answers("The user gave a name.", f"Your name is {name}.")
    )


def _other_chat(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """In which nobody says another name."""
    while True:
        made, topic = chat(values, prefix)
        if topic != "name":
            return made, topic


def _another(values: Values, prefix: Prefix) -> list[Segment]:
    skills = (chat, arithmetic, weather, files, browser, function)
    return past(_any(values, prefix)) + values.one(skills)(values, prefix)[0]


def _first(values: Values, prefix: Prefix) -> list[Segment]:
    before = _any(values, prefix)
    between = past(values.one((chat, arithmetic))(values, prefix)[0]) if values.chance(0.4) else []
    return (
        past(before)
        + between
        + asks(values, "first", values.name())
        + answers("Repeat the first message.", question(before))
    )


def _again(values: Values, prefix: Prefix) -> list[Segment]:
    before = _any(values, prefix)
    return past(before) + asks(values, "again", values.name()) + answers("Repeat the last answer.", answer(before))


def _any(values: Values, prefix: Prefix) -> list[Segment]:
    return values.one((chat, arithmetic, weather, files))(values, prefix)[0]
