"""Arguments as models write them."""

from __future__ import annotations

import pytest

from tools.arguments import read_arguments
from tools.spec import ToolFailed, ToolSpec

DOUBLE = ToolSpec(
    "functions.double",
    "",
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
)
NAMED = ToolSpec(
    "functions.make",
    "",
    {"type": "object", "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}}},
)
NOTHING = ToolSpec("functions.now", "")
RAW = ToolSpec("python", "", input="text")


@pytest.mark.parametrize(
    ("spec", "text", "args"),
    [
        (DOUBLE, '{"n": 2}', {"n": 2}),
        (DOUBLE, ' {"n": 2}\n', {"n": 2}),
        (DOUBLE, '{"n": 2}]', {"n": 2}),
        (DOUBLE, '{"n": 2}<|call|>commentary', {"n": 2}),
        (DOUBLE, '```json\n{"n": 2}\n```', {"n": 2}),
        (DOUBLE, '{"name": "double", "parameters": {"n": 2}}', {"n": 2}),
        (DOUBLE, '{"name": "functions.double", "arguments": {"n": 2}}', {"n": 2}),
        (NAMED, '{"name": "make", "parameters": {}}', {"name": "make", "parameters": {}}),
        (NOTHING, "", {}),
        (NOTHING, "{}", {}),
        (RAW, '{"n": 2', '{"n": 2'),
    ],
)
def test_what_is_understood(spec: ToolSpec, text: str, args: object) -> None:
    assert read_arguments(spec, text) == args


def test_no_depth_of_nesting_breaks_it() -> None:
    """Some are too deep for the reader of JSON, a few more for what words the complaint."""
    for depth in range(500, 1100):
        with pytest.raises(ToolFailed):
            read_arguments(DOUBLE, '{"n": ' + '{"a": ' * depth + "1" + "}" * depth + "}")


@pytest.mark.parametrize(
    ("spec", "text", "complaint"),
    [
        (DOUBLE, '{"n": ', "not valid JSON"),
        (DOUBLE, "ls -R", "not valid JSON"),
        (DOUBLE, '{"n": NaN}', "NaN is not JSON"),
        (DOUBLE, '{"n": 2}{"n": 3}', "more than one JSON value"),
        (DOUBLE, '{"n": "two"}', "n of functions.double: 'two' is not of type 'integer'. Expected {"),
        (DOUBLE, '{"name": "other", "parameters": {"n": 2}}', "unknown arguments 'name', 'parameters' (it has: n)"),
        (DOUBLE, "", "'n' is a required property"),
        (DOUBLE, "[" * 100_000, "not valid JSON"),
        (NOTHING, '{"a": 1}', "unknown argument 'a' (it takes no arguments)"),
        (NOTHING, '"' + "x" * 100_000 + '"', "is not of type 'object'"),
    ],
)
def test_what_is_refused_tells_the_model_why(spec: ToolSpec, text: str, complaint: str) -> None:
    with pytest.raises(ToolFailed) as raised:
        read_arguments(spec, text)
    assert complaint in str(raised.value)
    assert len(str(raised.value)) < 2000
