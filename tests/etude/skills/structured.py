"""Answers in JSON, to a schema in the prompt."""

from __future__ import annotations

from tests.etude.prompts import Prefix
from tests.etude.said import Segment, answers, asks, compact
from tests.etude.words.values import Values


def structured(values: Values, prefix: Prefix) -> tuple[list[Segment], str]:
    """`Anna is 42 years old.` → `{"name":"Anna","age":42}`"""
    assert prefix.form is not None
    asked, answer = {"person": _person, "shopping": _shopping, "event": _event, "pairs": _pairs}[prefix.form](
        values, prefix
    )
    return asked + answers("Answer in JSON.", compact(answer)), prefix.form


def _person(values: Values, prefix: Prefix) -> tuple[list[Segment], object]:
    name = values.name() if values.chance(0.6) else f"{values.name()} {values.name()}"
    age = values.number(below=100)
    return asks(values, "person", name, age), {"name": name, "age": age}


def _shopping(values: Values, prefix: Prefix) -> tuple[list[Segment], object]:
    items = values.distinct(values.several(1, 4), values.word)
    said = " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))
    return asks(values, "shopping", said), {"items": items}


def _event(values: Values, prefix: Prefix) -> tuple[list[Segment], object]:
    title, city = values.phrase(1, 3), values.city()
    return asks(values, "event", title, city), {"title": title, "city": city}


def _pairs(values: Values, prefix: Prefix) -> tuple[list[Segment], object]:
    answer: dict[str, object] = {}
    while not answer or answer.keys() & set(map(str, answer.values())):  # which is the key of which?
        answer = {key: values.word() if kind == "string" else values.number(6) for key, kind in prefix.fields.items()}
    said = list(answer.items())
    if values.chance(0.4):
        said.reverse()
    return asks(values, "pairs", *(part for pair in said for part in pair)), answer
