"""Arguments as models write them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ossia.tools.calls.arguments import ArgumentReader, patch_in
from ossia.tools.calls.coerce import Misfit, closed, fitted
from ossia.tools.spec import ToolFailed, ToolSpec
from ossia.tools.work import ApplyPatch, ListDir, OpenFile, PrintTree, Search
from ossia.tools.work.exec import Exec

DOUBLE = ToolSpec(
    "functions.double",
    "",
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
    provenance="built-in",
)
NAMED = ToolSpec(
    "functions.make",
    "",
    {"type": "object", "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}}},
    provenance="built-in",
)
NOTHING = ToolSpec("functions.now", "", provenance="built-in")
FREE = ToolSpec("functions.free", "", {"type": "object"}, provenance="built-in")
MANY = ToolSpec(
    "functions.many",
    "",
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": "number"},
            "text": {"type": "string"},
            "yes": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "maybe": {"type": ["integer", "null"]},
            "inner": {"type": "object", "properties": {"file_path": {"type": "string"}}},
            "any": {},
        },
    },
    provenance="built-in",
)
WEATHER = ToolSpec(
    "functions.weather", "", {"type": "object", "properties": {"city": {"type": "string"}}}, provenance="built-in"
)


SHELL = Exec().spec
PATCH, READ, SEARCH, LIST, TREE = (tool().spec for tool in (ApplyPatch, OpenFile, Search, ListDir, PrintTree))
BASH = ["bash", "-lc"]
A_PATCH = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
RAW = ToolSpec("python", "", input="text", provenance="built-in")


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
    assert ArgumentReader(spec).read(text) == args


def test_no_depth_of_nesting_breaks_it() -> None:
    """Some are too deep for the reader of JSON, a few more for what words the complaint."""
    for depth in range(500, 1100):
        with pytest.raises(ToolFailed):
            ArgumentReader(DOUBLE).read('{"n": ' + '{"a": ' * depth + "1" + "}" * depth + "}")


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
        ArgumentReader(spec).read(text)
    assert complaint in str(raised.value)
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ('{"n": "3", "x": "2.5"}', {"n": 3, "x": 2.5}),
        ('{"n": 3.0, "x": 2, "text": 7}', {"n": 3, "x": 2, "text": "7"}),
        ('{"n": "3.0", "text": true, "yes": "True"}', {"n": 3, "text": "true", "yes": True}),
        ('{"yes": 0, "list": "[1, \\"2\\"]"}', {"yes": False, "list": [1, 2]}),
        ('{"list": 4}', {"list": [4]}),
        ('{"n": null, "maybe": null, "text": null}', {"maybe": None}),
        ('{"inner": {"filePath": "a"}}', {"inner": {"file_path": "a"}}),
        ('{"inner": "{\\"file-path\\": 3}"}', {"inner": {"file_path": "3"}}),
        ('{"n": 1, "nope": null, "more": []}', {"n": 1}),
        ('{"n": 1,}', {"n": 1}),
        ('{"list": [1, 2, ], }', {"list": [1, 2]}),
        ("{'text': 'it\\'s \"so\"', 'yes': True, 'maybe': None}", {"text": 'it\'s "so"', "yes": True, "maybe": None}),
        ('{text: "a, }", n: 2}', {"text": "a, }", "n": 2}),
        ('{"text": "two\nlines"}', {"text": "two\nlines"}),
        ('"{\\"n\\": 2}"', {"n": 2}),
        ('Here it is: {"n": 2}', {"n": 2}),
        ('{"arguments": {"n": 2}}', {"n": 2}),
        ('{"tool": "many", "args": {"n": 2}}', {"n": 2}),
        ('{"any": {"deep": [1.0, "x"]}}', {"any": {"deep": [1.0, "x"]}}),
        ('{"text": "\\ud800"}', {"text": "?"}),
    ],
)
def test_values_are_fitted_to_the_schema(text: str, args: object) -> None:
    """Hostile row 31: what has one meaning is taken in it."""
    got = ArgumentReader(MANY).read(text)
    assert (got, json.dumps(got)) == (args, json.dumps(args))


@pytest.mark.parametrize(
    ("spec", "text", "args"),
    [
        (SHELL, "ls -la", {"command": [*BASH, "ls -la"]}),
        (SHELL, "```bash\nls -la\n```", {"command": [*BASH, "ls -la"]}),
        (SHELL, '{"cmd": "ls"}', {"command": [*BASH, "ls"]}),
        (SHELL, '{"commands": ["ls -la"]}', {"command": [*BASH, "ls -la"]}),
        (SHELL, '{"command": ["ls"]}', {"command": ["ls"]}),
        (
            SHELL,
            '{"cmd": ["bash", "-lc", "ls | wc"], "timeout": 10000}',
            {"command": [*BASH, "ls | wc"], "timeout": 10000},
        ),
        (
            SHELL,
            '{"command": ["git", "log", "a b"], "timeout_ms": 900}',
            {"command": ["git", "log", "a b"], "timeout": 0.9},
        ),
        (SHELL, '{"command": "[\\"bash\\",\\"-lc\\",\\"ls\\"]"}', {"command": [*BASH, "ls"]}),
        (SHELL, '["bash", "-lc", "ls"]', {"command": [*BASH, "ls"]}),
        (SHELL, '{"command": ["bash", "-lc", "ls"]}]', {"command": [*BASH, "ls"]}),
        (SHELL, '{"name": "container.exec", "arguments": {"command": ["ls"]}}', {"command": ["ls"]}),
        (SHELL, '{"name": "container.exec", "arguments": "{\\"command\\": [\\"ls\\"]}"}', {"command": ["ls"]}),
        *(
            (SHELL, json.dumps({"name": name, "arguments": {"command": ["ls"]}}), {"command": ["ls"]})
            for name in ("shell", "bash", "exec", "functions.exec")
        ),
        (READ, '{"name": "read_file", "arguments": {"file_path": "a"}}', {"path": "a"}),
        (READ, '{"tool": "functions.open_file", "arguments": "{\\"path\\": \\"a\\"}"}', {"path": "a"}),
        (SHELL, "[ -f a.py ] && echo yes", {"command": [*BASH, "[ -f a.py ] && echo yes"]}),
        (SHELL, '[ "$x" ] && ls', {"command": [*BASH, '[ "$x" ] && ls']}),
        (SHELL, '["ls"]; commentary', {"command": ["ls"]}),
        (SHELL, '[[ "$x" = y ]] || ls', {"command": [*BASH, '[[ "$x" = y ]] || ls']}),
        (SHELL, "{ ls; date; } | wc", {"command": [*BASH, "{ ls; date; } | wc"]}),
        (SHELL, '{"command": ["ls"], "timeout_ms": 30000}', {"command": ["ls"], "timeout": 30000}),
        (
            SHELL,
            '{"command": "[ -f a ] && ls", "workdir": "."}',
            {"command": [*BASH, "[ -f a ] && ls"], "workdir": "."},
        ),
        (SHELL, '{"command": ["ls"], "cwd": "src"}', {"command": ["ls"], "workdir": "src"}),
        (SHELL, '{"command": ["/bin/sh", "-c", "ls", "x"]}', {"command": ["/bin/sh", "-c", "ls", "x"]}),
        (PATCH, A_PATCH, {"patch": A_PATCH}),
        (PATCH, json.dumps(A_PATCH), {"patch": A_PATCH}),
        (PATCH, json.dumps({"whatever": A_PATCH}), {"patch": A_PATCH}),
        (PATCH, json.dumps({"command": ["apply_patch", A_PATCH]}), {"patch": A_PATCH}),
        (PATCH, f"```\n{A_PATCH}\n```", {"patch": A_PATCH}),
        (PATCH, json.dumps({"input": A_PATCH}), {"patch": A_PATCH}),
        (READ, '{"file_path": "a", "start_line": 3, "end_line": 7}', {"path": "a", "line_start": 3, "line_end": 7}),
        (
            READ,
            '{"path": "a", "line_start": 1, "line_end": 9, "line_numbers": true}',
            {"path": "a", "line_start": 1, "line_end": 9, "line_numbers": True},
        ),
        (READ, '{"path": "a", "file": null}', {"path": "a"}),
        (SEARCH, '{"pattern": "x", "dir": "src"}', {"query": "x", "path": "src"}),
        (SEARCH, '{"path": "", "query": "x", "max_results": 20}', {"query": "x", "path": "", "max_results": 20}),
        (SEARCH, '{"query": "x"}', {"query": "x", "path": ""}),
        (LIST, "{}", {"path": ""}),
        (LIST, '{"file_path": "src"}', {"path": "src"}),
        (TREE, '{"file": "src"}', {"path": "src", "depth": 2}),
        (TREE, '{"path": "", "depth": 3}', {"path": "", "depth": 3}),
        (TREE, "", {"path": "", "depth": 2}),
        (WEATHER, "Paris", {"city": "Paris"}),
        (ToolSpec("functions.say", "", {"type": "string"}, provenance="built-in"), "hello", "hello"),
        (ToolSpec("functions.say", "", {"type": "string"}, provenance="built-in"), '{"text": "hello"}', "hello"),
        (FREE, '{"a": {"b": [null]}}', {"a": {"b": [None]}}),
    ],
)
def test_the_arguments_of_other_programs_tools(spec: ToolSpec, text: str, args: object) -> None:
    """Hostile row 31, and what gpt-oss was trained to write."""
    assert ArgumentReader(spec).read(text) == args


@pytest.mark.parametrize(
    ("spec", "text", "complaint"),
    [
        (MANY, '{"n": "three"}', "n of functions.many: 'three' is not of type 'integer'"),
        (MANY, '{"n": 3.5}', "3.5 is not of type 'integer'"),
        (MANY, '{"n": 1, "nope": 1}', "functions.many: unknown argument 'nope' (it has: n, x, text, yes, list"),
        (MANY, '{"inner": {"other": 1}}', "unknown argument 'other' (it has: file_path)"),
        (MANY, '{"x": 1e999}', "1e999 is too large a number"),
        (MANY, '{"x": -Infinity}', "-Infinity is not JSON"),
        (MANY, '{"n": ' + "1" * 5000 + "}", "not valid JSON"),
        (MANY, '{"text": "a\\u0000b"}', "the arguments hold a NUL character"),
        (MANY, '{"any": ' + "[" * 10_000 + "]" * 10_000 + "}", "not valid JSON"),
        (MANY, '{"any": ' + "[" * 100 + "]" * 100 + "}", "nested too deep (more than 64 levels)"),
        (MANY, '{"any": "' + "x" * 2_000_000 + '"}', "too long (2000011 characters)"),
        (SHELL, '{"command": "ls", "user": "me"}', "unknown argument 'user' (it has: command, workdir, timeout)"),
        (SHELL, '{"command": []}', "command of container.exec: "),
        (SHELL, '{\n  "command": ["ls"', "not valid JSON"),
        (SHELL, '[  "bash", "-lc", "ls', "not valid JSON"),
        (SHELL, '{"name": "read_file", "arguments": {"command": ["ls"]}}', "unknown arguments 'name', 'arguments'"),
        (SHELL, '{"command": ["ls"], "timeout": NaN}', "NaN is not JSON"),
        (READ, "[1]", "is not of type 'object'"),
        (RAW, "x" * 2_000_001, "too long"),
    ],
)
def test_what_has_no_one_meaning_is_refused(spec: ToolSpec, text: str, complaint: str) -> None:
    """Hostile row 31: NaN, unknown keys, 10,000 levels, too much."""
    with pytest.raises(ToolFailed) as raised:
        ArgumentReader(spec).read(text)
    assert complaint in str(raised.value)
    assert str(raised.value).startswith("Error: ") and len(str(raised.value)) < 2000


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(
    ("spec", "meant", "args"),
    [
        (READ, {"path": "a.txt"}, {"path": "a.txt"}),
        (READ, {"name": "open_file", "arguments": {"path": "a.txt"}}, {"path": "a.txt"}),
        (SHELL, {"command": ["ls"]}, {"command": ["ls"]}),
        (SHELL, {"cmd": "ls -l"}, {"command": [*BASH, "ls -l"]}),
        (SHELL, ["bash", "-lc", "ls"], {"command": [*BASH, "ls"]}),
        (PATCH, {"patch": A_PATCH}, {"patch": A_PATCH}),
    ],
)
def test_json_in_json_is_the_arguments(spec: ToolSpec, meant: object, args: object, times: int) -> None:
    text = json.dumps(meant)
    for _ in range(times):
        text = json.dumps(text)
    assert ArgumentReader(spec).read(text) == args
    if spec is SHELL:  # as the value of the one argument, too
        assert ArgumentReader(spec).read(json.dumps({"command": text})) == args


@pytest.mark.parametrize(
    ("spec", "text", "args"),
    [
        (READ, json.dumps("[a] {b}.txt"), {"path": "[a] {b}.txt"}),
        (SHELL, json.dumps("{ ls; }"), {"command": [*BASH, "{ ls; }"]}),
        (SHELL, json.dumps('[ "$x" ] && ls'), {"command": [*BASH, '[ "$x" ] && ls']}),
        (SHELL, '"my program" --all', {"command": [*BASH, '"my program" --all']}),
        (SHELL, json.dumps('"my program" --all'), {"command": [*BASH, '"my program" --all']}),
        (RAW, json.dumps(json.dumps({"code": "1"})), json.dumps(json.dumps({"code": "1"}))),
    ],
)
def test_a_text_that_only_looks_like_json_stays(spec: ToolSpec, text: str, args: object) -> None:
    assert ArgumentReader(spec).read(text) == args


def test_other_arguments_in_json_are_no_text_of_the_tool() -> None:
    with pytest.raises(ToolFailed, match="unknown argument 'town'"):
        ArgumentReader(READ).read(json.dumps(json.dumps({"town": "Paris"})))


def test_a_megabyte_is_read() -> None:
    """Hostile row 31."""
    args = ArgumentReader(MANY).read(json.dumps({"text": "x\n" * 500_000}))
    assert args == {"text": "x\n" * 500_000}


@pytest.mark.parametrize(
    ("command", "patch"),
    [
        (A_PATCH, A_PATCH),
        (f"apply_patch <<'EOF'\n{A_PATCH}\nEOF\n", A_PATCH),
        (f'applypatch "{A_PATCH}"', A_PATCH),
        (f"apply_patch <<'EOF'\n{A_PATCH}\nEOF\nrm x", None),
        (f"{A_PATCH}\nrm x", None),
        ("apply_patch --help", None),
        ("ls", None),
    ],
)
def test_a_patch_in_place_of_a_command(command: str, patch: str | None) -> None:
    assert patch_in(SHELL.name, {"command": [*BASH, command]}) == patch
    assert patch_in(SHELL.name, {"command": [command]}) == patch
    assert patch_in(READ.name, {"command": [*BASH, command]}) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_KINDS = st.sampled_from(["integer", "number", "string", "boolean", "array", "object", "null"])
_SOME_KINDS = st.lists(_KINDS, min_size=1, max_size=2, unique=True)
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.just({}) | _KINDS.map(lambda kind: {"type": kind}) | _SOME_KINDS.map(lambda some: {"type": some}),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array"])},
        optional={
            "properties": st.dictionaries(st.sampled_from(["n", "command", "path", "a_b"]), inner, max_size=3),
            "items": inner,
            "required": st.lists(st.sampled_from(["n", "command"]), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
        },
    ),
    max_leaves=5,
)
_OBJECTS = st.recursive(
    st.just(1),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["n", "a_b", "more"]), inner, max_size=3)
    ),
)
_PIECES = st.sampled_from(
    [*"{}[]:,\"'\\ \n", "n", "1", "NaN", "true", "None", "```json\n", "```", "\\u0000", "command", "-1e9"]
)


@given(
    st.sampled_from(["functions.f", "container.exec", "repo_browser.open_file", "repo_browser.apply_patch"]),
    _SCHEMAS,
    _JSON.map(lambda value: json.dumps(value)) | st.lists(_PIECES, max_size=20).map("".join) | st.text(),
)
@settings(max_examples=300)
@example("functions.f", {"type": "object"}, '{"a": 1e400}')
def test_nothing_breaks_it(name: str, schema: dict[str, Any], text: str) -> None:
    """Arguments that fit, or a line for the model; and what fits can be written as strict JSON."""
    try:
        args = ArgumentReader(ToolSpec(name, "", schema, provenance="built-in")).read(text)
    except ToolFailed as failed:
        assert str(failed).startswith("Error: ")
        return
    assert not any(isinstance(value, float) and not math.isfinite(value) for value in _values(args))
    json.dumps(args, allow_nan=False, ensure_ascii=False).encode()


@given(_SCHEMAS, _OBJECTS)
@settings(max_examples=300)
@example({"type": "object", "properties": {"n": {}}}, {"n": 1, "more": 2})
@example({"type": "array", "items": {"properties": {"n": {}}}}, [{"more": 2}])
def test_a_closed_schema_allows_no_name_that_is_refused(schema: dict[str, Any], value: object) -> None:
    """The guide holds arguments to it: what it lets through must not be sent back for a name."""
    try:
        fitted(value, schema)
    except Misfit as refused:
        if str(refused).startswith("unknown argument"):
            assert not Draft202012Validator(closed(schema)).is_valid(value)


def test_what_is_open_stays_open() -> None:
    free = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    assert closed(free) == free and closed({"type": "object"}) == {"type": "object"}
    assert closed({"properties": {"n": {}}, "anyOf": [{}]}) == {"properties": {"n": {}}, "anyOf": [{}]}


def _values(value: object) -> list[object]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *(leaf for one in inner for leaf in _values(one))]
