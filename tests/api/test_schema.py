"""The `schema` of a question: what answers are held to, and what is made of them."""

from __future__ import annotations

import datetime
import enum
import json
import logging
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from ossia import Agent, Model
from ossia.agent.errors import SchemaUnusable
from ossia.agent.schema import fault_of
from ossia.api.schema import read
from tests.support.command import write_script


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Stop:
    city: str
    day: datetime.date
    nights: int = 1


@dataclass
class Trip:
    stops: list[Stop]
    budget: float | None = None
    tags: set[str] = field(default_factory=set)


class Person(TypedDict, total=False):
    name: str
    age: int


class Point(NamedTuple):
    x: int
    y: int = 0


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field("Rex", title="Call name", pattern="^[A-Z]")


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")
    home: Path | None = None


class Tree(BaseModel):
    name: str
    kids: list[Tree] = []


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


SAMPLE = uuid.UUID(int=5)


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (
            Trip,
            '{"stops": [{"city": "Seoul", "day": "2026-12-01"}], "tags": ["a", "a"]}',
            Trip([Stop("Seoul", datetime.date(2026, 12, 1))], None, {"a"}),
        ),
        (list[Stop], '[{"city": "Oslo", "day": "2026-01-02"}]', [Stop("Oslo", datetime.date(2026, 1, 2))]),
        (Person, '{"name": "Ada"}', {"name": "Ada"}),
        (Point, "[3]", Point(3)),
        (Owner, '{"pet": {"kind": "dog"}, "home": "/tmp"}', Owner(pet=Dog(kind="dog"), home=Path("/tmp"))),
        (Cat | Dog, '{"kind": "dog"}', Dog(kind="dog")),
        (Tree, '{"name": "a", "kids": [{"name": "b"}]}', Tree(name="a", kids=[Tree(name="b")])),
        (Loose, '{"name": "a", "more": 1}', Loose(name="a", more=1)),
        (Color, '"red"', Color.RED),
        (dict[Color, int], '{"blue": 1}', {Color.BLUE: 1}),
        (Literal["yes", "no"], '"no"', "no"),
        (int | None, "null", None),
        (uuid.UUID, f'"{SAMPLE}"', SAMPLE),
        (bytes, '"abc"', b"abc"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": 1}', {"n": 1}),
        ({"enum": ["a", "b"]}, '"a"', "a"),
    ],
)
def test_an_answer_becomes_a_value(
    kind: Any, answer: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    form, data = read(kind)
    assert fault_of(answer, form.schema) is None
    read_value = data(answer)
    assert (read_value, type(read_value)) == (value, type(value))
    assert form.name == "answer" and caplog.records == []


def test_answers_are_held_to_the_type_and_nothing_else() -> None:
    """The model reads the schema: no noise, no room for other properties."""
    assert read(Owner)[0].schema == {
        "$defs": {
            "Cat": {
                "description": "A cat.",
                "properties": {
                    "kind": {"const": "cat", "type": "string"},
                    "lives": {"maximum": 9, "minimum": 1, "type": "integer"},
                },
                "required": ["kind", "lives"],
                "title": "Cat",
                "type": "object",
                "additionalProperties": False,
            },
            "Dog": {
                "properties": {
                    "kind": {"const": "dog", "type": "string"},
                    "name": {"default": "Rex", "pattern": "^[A-Z]", "title": "Call name", "type": "string"},
                },
                "required": ["kind"],
                "title": "Dog",
                "type": "object",
                "additionalProperties": False,
            },
        },
        "properties": {
            "pet": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
            "home": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["pet"],
        "title": "Owner",
        "type": "object",
        "additionalProperties": False,
    }
    given = {"type": "object", "properties": {"n": {"type": "integer", "title": "N"}}}
    assert read(given)[0].schema == given


def test_what_a_validator_refuses_is_one_line() -> None:
    form, data = read(list[Even])
    assert fault_of('[{"number": 3}]', form.schema) is None
    with pytest.raises(ValueError, match=r"^0\.number: Value error, must be even$"):
        data('[{"number": 3}]')
    with pytest.raises(ValueError, match=r"^0\.number: [^\n]*; 4\.number: [^\n]* \(and 2 more\)$"):
        data(json.dumps([{"number": 1}] * 7))


class Odd:
    pass


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "requried": ["a"]}, "schema: 'requried' is not a keyword of JSON Schema: write 'required'"),
        ({"type": "array", "uniqueItems": True}, "schema: the keyword 'uniqueItems' can't be followed while sampling"),
        ({"type": "strin"}, "schema: the keyword 'type' names no type of JSON (Invalid type: strin)"),
        ({"$ref": "#/$defs/Nowhere"}, "Nowhere"),
        ("Trip", "schema: expected a dict (a JSON Schema), a dataclass, a TypedDict, a pydantic model or another type"),
        (Stop("Oslo", datetime.date(2026, 1, 2)), "not Stop(city='Oslo'"),
        (Odd, "not <class '"),
        (list[Odd], "Unable to generate pydantic-core schema for"),
        (print, "another type, not <built-in function print>"),
        (list[Callable[[], int]], "schema: a field has a type that JSON can't express (Cannot generate"),
        (Annotated[str, Field(pattern="^(a")], "regex parse error"),
        (Annotated[str, Field(json_schema_extra={"pattern": "^(?=a)"})], "the keyword 'pattern' can't be followed"),
    ],
)
def test_a_schema_that_cannot_be_used_is_one_line(schema: Any, problem: str) -> None:
    with pytest.raises(SchemaUnusable) as caught:
        read(schema)
    assert problem in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("schema: ") and str(caught.value).count("schema: ") == 1


def test_what_restricts_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ossia"):
        read({"type": "string", "nullable": True})
    assert [message.partition(";")[0] for message in caplog.messages] == [
        "schema: ignored, since it restricts nothing: nullable"
    ]


@pytest.mark.parametrize(
    ("answer", "max_tokens", "end", "data", "error"),
    [
        ('{"number": 2}', None, "answered", Even(number=2), None),
        ('{"number": 3}', None, "answered", None, "number: Value error, must be even"),
        ('{"number": "2"}', None, "answered", None, "'2' is not of type 'integer' (at $.number)"),
        ("Two.", None, "answered", None, "it isn't JSON (Expecting value: line 1 column 1 (char 0))"),
        ('{"number": 2}', 5, "tokens", None, None),
    ],
)
def test_an_answer_that_is_no_value_says_why(
    tmp_path: Path, answer: str, max_tokens: int | None, end: str, data: object, error: str | None
) -> None:
    engine = write_script(tmp_path, f"<|channel|>final<|message|>{answer}<|return|>")
    with Model(engine=engine) as model, Agent(model, max_tokens=max_tokens) as agent:
        result = agent.ask("A number?", schema=Even)
    assert (result.end, result.data, result.error) == (end, data, error)


def test_a_dict_needs_no_pydantic() -> None:
    code = "import sys; from ossia.api.schema import read; read({'type': 'string'}); print('pydantic' in sys.modules)"
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")
