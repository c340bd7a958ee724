"""Schemas made flat: what Harmony writes of them, and that nothing a stranger sends is too much."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from functools import cache
from textwrap import dedent
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter

from ossia.harmony.typescript import typescript
from ossia.tools.functions.schema import SchemaLimits, flatten
from ossia.tools.text import one_line


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: float
    y: float = 0.0


class Tree(BaseModel):
    name: str
    kids: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


def _function(
    a: int,
    b: str | None,
    c: Color | None,
    d: Point | None,
    e: str | None = None,
    f: int | float | str = 3,
    g: Color = Color.RED,
    h: Level | None = None,
    i: Tree | None = None,
    j: dict[str, int] | None = None,
    k: list[Point] = [],  # noqa: B006
    m: Annotated[int, Field(description="how\nmany  of\tthem", ge=1, title="Noise")] = 3,
    n: Literal["x", "y"] | None = None,
    o: Cat | Dog | None = None,
    p: Annotated[Cat | Dog | None, Field(discriminator="kind")] = None,
    q: tuple[int, str] = (1, "a"),
    r: Any = None,
    s: list[str] | str = "x",
) -> None: ...


def test_what_pydantic_writes_becomes_what_harmony_can_write() -> None:
    flat = flatten(TypeAdapter(_function).json_schema())
    assert flat is not None
    Draft202012Validator.check_schema(flat)
    assert typescript(flat) == dedent("""\
        {
        a: number,
        b: string | null,
        // One of: "red", "blue", null
        c: string | null,
        d:
         | {
           x: number,
           y?: number, // default: 0.0
           }
         | null
        ,
        e?: string,
        f?: number | string, // default: 3
        g?: "red" | "blue", // default: red
        // One of: 1, 2
        h?: number,
        i?: {
            name: string,
            kids?: {
                name: string,
                kids?: Array<any>, // default: []
                }[], // default: []
            },
        j?: object,
        k?: {
            x: number,
            y?: number, // default: 0.0
            }[], // default: []
        // how many of them
        m?: number, // default: 3
        n?: "x" | "y",
        o?:
         | {
           kind: "cat",
           lives: number,
           }
         | {
           kind: "dog",
           bark: string,
           }
        ,
        p?:
         | {
           kind: "cat",
           lives: number,
           }
         | {
           kind: "dog",
           bark: string,
           }
        ,
        q?: Array<any>, // default: [1,"a"]
        r?: any,
        // default: "x"
        s?:
         | string[]
         | string
        ,
        }""")


def test_what_is_flat_still_checks() -> None:
    flat = flatten(TypeAdapter(_function).json_schema())
    assert flat is not None
    validator = Draft202012Validator(flat)
    good = {"a": 1, "b": None, "c": "red", "d": {"x": 1}, "m": 2, "o": {"kind": "dog", "bark": "w"}, "j": {"any": 1}}
    assert validator.is_valid(good)
    for bad in ({"a": "x"}, {"c": "green"}, {"d": {"y": 1}}, {"m": 0}, {"o": {"kind": "cow"}}, {"q": [1]}, {"h": 3}):
        assert not validator.is_valid(good | bad), bad


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": 5, "required": 7},
        {"type": "string"},
        {"$ref": "#"},
        {"$ref": "https://evil.test/schema.json"},
        {"allOf": [{"$ref": "#"}]},
        {"properties": None, "title": "x"},
    ],
)
def test_schemas_without_parameters(schema: dict[str, object]) -> None:
    assert flatten(schema) is None


@pytest.mark.parametrize(
    ("property_", "text"),
    [
        ({"const": "a"}, 'p?: "a",'),
        ({"const": 5}, "// One of: 5\np?: number,"),
        ({"type": ["string", "null"], "default": None}, "p?: string,"),
        ({"type": ["integer", "number", "string"]}, "p?: number | string,"),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, 'p?: "a" | "b",'),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "p?: number,"),
        ({"anyOf": [{"type": "null"}]}, "p?: null,"),
        ({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, "p?: any,"),
        ({"items": {"type": "string"}}, "p?: string[],"),
        (
            {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["a"]}]},
            "p?: {\n    a: any,\n    b?: any,\n    },",
        ),
        ({"$ref": "#/definitions/D", "description": "own"}, "// own\np?: number,"),
        ({"$ref": "#/definitions/a~1b"}, "p?: boolean,"),
        ({"$ref": "#/nowhere"}, "p?: any,"),
        ({"type": "string", "description": "a\n} x; // \u202eb\x1b[0m"}, "// a } x; // b\np?: string,"),
        ({"type": "string", "default": "a\nb"}, 'p?: string, // default: "a b"'),
        ({"type": "string", "pattern": "(a+)+$", "format": "uri", "x-mcp-header": "H"}, "p?: string,"),
        ({"type": "nonsense"}, "p?: any,"),
        (True, "p?: any,"),
    ],
)  # fmt: skip
def test_one_property(property_: object, text: str) -> None:
    definitions = {"D": {"type": "integer", "description": "other", "title": "D"}, "a/b": {"type": "boolean"}}
    flat = flatten({"type": "object", "properties": {"p": property_}, "definitions": definitions})
    assert typescript(flat) == "{\n" + text + "\n}"
    assert "pattern" not in json.dumps(flat)


def test_an_object_that_takes_more_than_it_names_says_so() -> None:
    named = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert flatten(named) == named
    assert flatten({**named, "additionalProperties": False}) == named
    for more in (True, {}, {"type": "string"}):
        assert flatten({**named, "additionalProperties": more}) == {**named, "additionalProperties": True}
    cut = flatten({"type": "object", "properties": {f"p{n}": {} for n in range(100)}, "required": ["p1", "p99"]})
    assert cut is not None and cut["additionalProperties"] is True and cut["required"] == ["p1"]


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@cache
def _hostile() -> dict[str, dict[str, Any]]:
    laughs = {
        str(n): {"type": "object", "properties": {key: {"$ref": f"#/$defs/{n + 1}"} for key in "abcdefgh"}}
        for n in range(30)
    }
    long = {"type": "string", "description": "x" * 100_000, "default": "y" * 100_000}
    return {
        "deep": _deep(50_000),
        "wide": {"type": "object", "properties": {f"p{n}": long for n in range(20_000)}},
        "laughs": {"type": "object", "properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": laughs},
        "cyclic": {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"anyOf": [{"$ref": "#"}] * 50}}},
        "enum": {"type": "object", "properties": {"a": {"enum": [str(n) * 50 for n in range(50_000)]}}},
        "names": {"type": "object", "properties": {"a" * 50_000: {}, "b\nc": {}, "": {}, "ok": {}}},
        "required": {"type": "object", "properties": {"a": {}}, "required": ["a"] * 100_000},
        "allOf": {"allOf": [{"allOf": [{"$ref": "#"}] * 30}] * 30, "properties": {"a": {}}},
    }


@pytest.mark.parametrize("name", ["deep", "wide", "laughs", "cyclic", "enum", "names", "required", "allOf"])
def test_a_hostile_schema_is_bounded(name: str) -> None:
    """Hostile row 33, for what a server says of its arguments: huge, deep, referring to itself."""
    flat = flatten(_hostile()[name])
    assert flat is not None
    assert len(json.dumps(flat)) <= 16_000
    text = typescript(flat)
    assert len(text) < 40_000 and all(len(line) < 5_000 for line in text.splitlines())
    Draft202012Validator.check_schema(flat)


def test_what_python_makes_to_hold_itself_is_bounded_too() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["me"] = schema
    schema["properties"]["list"] = {"type": "array", "default": (loop := [])}
    loop.append(loop)
    flat = flatten(schema, limits=SchemaLimits(max_depth=2))
    assert flat is not None and len(json.dumps(flat)) < 1_000


_KEYS = st.sampled_from(
    [
        *("type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum", "const", "default", "a"),
        *("required", "description", "title", "nullable", "minimum", "minLength", "additionalProperties", "b"),
    ]
)
_LEAVES = (
    st.sampled_from(["string", "object", "array", "integer", "null", "#", "#/$defs/a", "#/properties/a", "a"])
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
)
_SCHEMAS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=6), max_leaves=25
)


@settings(max_examples=60)
@given(st.dictionaries(_KEYS, _SCHEMAS, max_size=6))
def test_whatever_comes_something_sound_comes_out(schema: dict[str, object]) -> None:
    before = repr(schema)
    flat = flatten({"type": "object", "properties": {"p": schema, "a": schema}, "$defs": {"a": schema}})
    assert repr(schema) == before
    assert flat is not None
    Draft202012Validator.check_schema(flat)
    assert typescript(flat).startswith("{\n")
    json.dumps(flat, allow_nan=False)
    list(Draft202012Validator(flat).iter_errors({"p": {"a": [1, None]}, "a": "x"}))


def test_one_line() -> None:
    assert one_line(" a\n\tb\x00c\u200b ", 10) == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("a" * 10_000_000, 3) == "aa…"
    assert one_line("", 5) == ""
