"""Values and the schemas of strangers, which may be made to take for ever."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from jsonschema.validators import Draft7Validator

from ossia.tools.calls.checked import CheckTooLong, faults, matches

SLOW = "^((a+)+b{50}|a{40}c)$"
"""Python's `re` tries 2**40 ways before it finds the second one."""


def _messages(value: object, schema: Any, draft: Any = None) -> list[str]:
    return [fault.message for fault in faults(value, schema, draft)]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (SLOW, "a" * 40 + "c", True),
        (SLOW, "a" * 40 + "d", False),
        ("b+", 'a\n"\\b', True),
        ("b+", "aaa", False),
        ("^é\t.$", "é\t\U0001f600", True),
        ("^.$", "\ud800", True),
        ("(?=x)", "y", True),  # no guide follows it: such a schema is refused before
    ],
)
def test_a_pattern_takes_no_longer_than_the_text(pattern: str, text: str, found: bool) -> None:
    assert matches(pattern, text) is found


def test_patterns_wherever_they_stand() -> None:
    slow = "a" * 40 + "d"
    assert _messages(slow, {"pattern": SLOW}) == [f"{slow!r} does not match {SLOW!r}"]
    assert _messages(slow, {"allOf": [{"$schema": "http://json-schema.org/draft-07/schema#", "pattern": SLOW}]})
    assert _messages({slow: 1}, {"patternProperties": {SLOW: {}}, "unevaluatedProperties": True}) == []
    closed = {"patternProperties": {SLOW: {"type": "integer"}}, "additionalProperties": False}
    assert _messages({slow: 1}, closed) == [f"Additional properties are not allowed ({slow!r} was unexpected)"]
    assert _messages({"a" * 40 + "c": "x"}, closed, Draft7Validator) == ["'x' is not of type 'integer'"]
    assert _messages({"b": 1, "c": 1}, {"properties": {"b": {}}, "additionalProperties": {"type": "null"}}) == [
        "1 is not of type 'null'"
    ]


@pytest.mark.parametrize("word", ["anyOf", "allOf", "oneOf"])
def test_schemas_that_double_the_work_are_given_up(word: str) -> None:
    parts = {f"a{n}": {word: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(CheckTooLong, match="too much to check"):
        list(islice(faults("abc", {"$ref": "#/$defs/a0", "$defs": {**parts, "a40": {"maxLength": 1}}}), 100_000))


def test_a_deep_schema_is_given_up_and_a_long_value_isnt() -> None:
    deep = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(900)}
    with pytest.raises(CheckTooLong, match="too deep"):
        _messages(1, {"$ref": "#/$defs/a0", "$defs": {**deep, "a900": {}}})
    assert _messages([[1, 2]] * 10_000, {"items": {"items": {"type": "integer"}}}) == []
