"""JSON Schema → TypeScript: every rule by a case, and any schema against the reference library."""

from __future__ import annotations

import math
import random
from typing import Any

import openai_harmony
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossia.harmony.errors import RenderError
from ossia.harmony.messages import DeveloperPrompt, FunctionDecl, Message, Namespace
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.typescript import typescript
from tests.support.hostile import Hostile
from tests.support.reference import Reference


def declaring(schema: object) -> Message:
    """A developer message that declares one function with `schema` as its parameters."""
    functions = Namespace("functions", None, (FunctionDecl("f", "", schema),))
    return Message("developer", (DeveloperPrompt(tools={"functions": functions}),))


def reference_typescript(schema: object, reference: Reference, tokenizer: Tokenizer) -> str:
    """What the wheel makes of `schema` (which isn't None: that would be a function without parameters)."""
    text = tokenizer.decode(reference.render(declaring(schema)))
    return text.partition("type f = (_: ")[2].removesuffix(") => any;\n\n} // namespace functions<|end|>")


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


CASES: list[tuple[Any, str]] = [
    # not a type we know: any
    ({}, "any"),
    ("string", "any"),
    ([{"type": "string"}], "any"),
    ({"type": 3}, "any"),
    ({"type": "null"}, "any"),
    ({"anyOf": [{"type": "string"}]}, "any"),
    ({"enum": ["a"]}, "any"),
    # simple types
    ({"type": "string"}, "string"),
    ({"type": "string", "enum": ["a", 1, 'b"']}, '"a" | "b""'),
    ({"type": "string", "enum": [1]}, "string"),
    ({"type": "string", "enum": "a"}, "string"),
    ({"type": "number", "enum": [1]}, "number"),
    ({"type": "integer"}, "number"),
    ({"type": "boolean"}, "boolean"),
    # a list of types
    ({"type": ["integer", "null", "object", 3], "enum": ["a"]}, "number | null | object"),
    ({"type": [""]}, ""),
    ({"type": [3]}, "any"),
    ({"type": []}, "any"),
    # arrays
    ({"type": "array"}, "Array<any>"),
    ({"type": "array", "items": None}, "any[]"),
    ({"type": "array", "items": {"type": "string", "enum": ["x", "y"], "nullable": True}}, '"x" | "y"[]'),
    ({"type": "array", "items": {"type": "array", "items": object_of(a={})}}, "{\na?: any,\n}[][]"),
    # objects
    ({"type": "object"}, "{\n}"),
    ({"type": "object", "properties": {}}, "{\n}"),
    ({"type": "object", "properties": ["a"]}, "{\n}"),
    ({"type": "object", "description": "D\nE"}, "// D\nE\n{\n}"),
    ({**object_of(b={}, a={}), "required": ["a", 3]}, "{\nb?: any,\na: any,\n}"),
    ({**object_of(a={}), "required": "a"}, "{\na?: any,\n}"),
    (object_of(a=object_of(b={"type": "string"})), "{\na?: {\n    b?: string,\n    },\n}"),
    (
        object_of(a={"type": "object", "description": "D", "properties": {"b": {"title": "T"}}}),
        "{\n// D\na?:     // D\n{\n    // T\n    //\n    b?: any,\n    },\n}",
    ),
    # the comments of a property
    (object_of(a={"title": "T", "description": "D"}), "{\n// T\n//\n// D\na?: any,\n}"),
    (object_of(a={"title": 1, "description": ["D"]}), "{\na?: any,\n}"),
    (object_of(a={"examples": ["x", 1, "y"]}), '{\n// Examples:\n// - "x"\n// - "y"\na?: any,\n}'),
    (object_of(a={"examples": [1]}), "{\n// Examples:\na?: any,\n}"),
    (object_of(a={"examples": []}), "{\na?: any,\n}"),
    (object_of(a={"default": 'x"'}), '{\na?: any, // default: "x""\n}'),
    (object_of(a={"default": "x", "enum": [1]}), "{\na?: any, // default: x\n}"),
    (object_of(a={"default": "x", "enum": []}), '{\na?: any, // default: "x"\n}'),
    (object_of(a={"default": None}), "{\na?: any, // default: null\n}"),
    (object_of(a={"default": {"x": [1, True, "é\n"]}}), '{\na?: any, // default: {"x":[1,true,"é\\n"]}\n}'),
    (object_of(a={"oneOf": "x", "description": "D", "default": 1}), "{\na?: any,\n}"),
    # nullable
    (object_of(a={"type": "string", "nullable": True}), "{\na?: string | null,\n}"),
    (object_of(a={"type": "string", "nullable": 1}), "{\na?: string,\n}"),
    (object_of(a={"type": "string", "nullable": True, "enum": ["null_x"]}), '{\na?: "null_x",\n}'),
    # oneOf, at the top
    ({"oneOf": [], "type": "string"}, ""),
    (
        {"oneOf": [{"type": "string", "description": "S"}, {"type": "number", "nullable": True, "default": 1}]},
        "\n | string // S\n | number | null // default: 1",
    ),
    ({"oneOf": [{"default": "x"}]}, '\n | any // default: "x"'),
    ({"oneOf": [{"default": "x\n", "enum": ["x"]}]}, '\n | any // default: "x\\n"'),
    ({"oneOf": [{"oneOf": [{"type": "string"}]}]}, "\n | \n    | string"),
    # oneOf, of a property
    (
        object_of(a={"description": "D", "default": "x", "oneOf": [{"type": "string"}, {"type": "number"}]}),
        '{\n// D\n// default: "x"\na?:\n | string\n | number\n,\n}',
    ),
    (  # a description that the first variant has too is written nowhere
        object_of(a={"description": "D", "oneOf": [{"description": "D"}, {"description": "D"}]}),
        "{\na?:\n | any\n | any\n,\n}",
    ),
    (
        object_of(a={"description": "D", "oneOf": [{"description": "E"}, {"description": "D"}, {"description": "E"}]}),
        "{\n// D\na?:\n | any\n | any\n | any // E\n,\n}",
    ),
    (
        object_of(a={"oneOf": [{"description": "E", "default": "x", "enum": ["x"]}]}),
        "{\na?:\n | any // E default: x\n,\n}",
    ),
    (object_of(a={"oneOf": []}), "{\na?:\n,\n}"),
]


@pytest.mark.parametrize(("schema", "text"), CASES)
def test_each_rule(schema: Any, text: str, wheel: openai_harmony.HarmonyEncoding, wheel_tokenizer: Tokenizer) -> None:
    assert typescript(schema) == text
    assert reference_typescript(schema, Reference(wheel), wheel_tokenizer) == text


NUMBERS = [
    *((0, "0"), (-1, "-1"), (2**63, "9223372036854775808"), (2**64 - 1, "18446744073709551615")),
    *((-(2**63), "-9223372036854775808"), (2**64, "1.8446744073709552e19"), (-(2**63) - 1, "-9.223372036854776e18")),
    *((0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (-2.5, "-2.5"), (12.0, "12.0")),
    (1e15, "1000000000000000.0"),
    *((1e16, "1e16"), (1.5e16, "1.5e16"), (1e-5, "0.00001"), (1.2e-5, "0.000012"), (1e-6, "1e-6"), (1.5e-7, "1.5e-7")),
    *((1e22, "1e22"), (1.7976931348623157e308, "1.7976931348623157e308"), (5e-324, "5e-324")),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_numbers_are_written_as_the_reference_writes_them(
    number: float, text: str, wheel: openai_harmony.HarmonyEncoding, wheel_tokenizer: Tokenizer
) -> None:
    schema = object_of(a={"default": number})
    assert typescript(schema) == f"{{\na?: any, // default: {text}\n}}"
    assert reference_typescript(schema, Reference(wheel), wheel_tokenizer) == typescript(schema)


def test_floats_that_the_reference_reads_wrong_are_written_right(
    wheel: openai_harmony.HarmonyEncoding, wheel_tokenizer: Tokenizer
) -> None:
    """serde_json reads some floats of 16 or 17 digits one unit off; ours are exact, on purpose."""
    schema = object_of(a={"default": 123456789.12345679})
    assert "default: 123456789.12345679\n" in typescript(schema)
    assert "default: 123456789.1234568\n" in reference_typescript(schema, Reference(wheel), wheel_tokenizer)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, b"x", {1: 2}, [object()]])
def test_a_default_that_is_not_json_is_named(value: object) -> None:
    with pytest.raises(RenderError, match=r"JSON|too large for a double"):
        typescript(object_of(a={"default": value}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**64 - 1).filter(lambda n: n >= -(2**53)) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TEXT = st.sampled_from(["", "D", "same", "a\nb", "null", "<|end|>"])
SCHEMA = st.recursive(
    JSON | st.fixed_dictionaries({"type": st.sampled_from(["string", "number", "array", "object", "integer"])}),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "object", "array", "string", ["integer", "null"]])},
        optional={
            "description": TEXT | JSON,
            "title": TEXT | JSON,
            "default": TEXT | JSON,
            "nullable": st.booleans(),
            "enum": st.lists(TEXT | JSON, max_size=3),
            "examples": st.lists(TEXT | JSON, max_size=3),
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "required": st.lists(st.sampled_from("abc"), max_size=2),
            "oneOf": st.lists(inner, max_size=3),
        },
    ),
    max_leaves=8,
)


@settings(max_examples=150, derandomize=True)
@given(schema=SCHEMA.filter(lambda schema: schema is not None))
def test_any_schema_is_the_reference_s(
    schema: Any, wheel: openai_harmony.HarmonyEncoding, wheel_tokenizer: Tokenizer
) -> None:
    assert typescript(schema) == reference_typescript(schema, Reference(wheel), wheel_tokenizer)


def test_hostile_schemas_are_the_reference_s(wheel: openai_harmony.HarmonyEncoding, wheel_tokenizer: Tokenizer) -> None:
    reference = Reference(wheel)
    for seed in range(1000):
        schema = {"oneOf": [Hostile(random.Random(seed)).schema()]}
        assert typescript(schema) == reference_typescript(schema, reference, wheel_tokenizer), f"seed {seed}"
