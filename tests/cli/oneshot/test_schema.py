"""`ossia run --schema`: JSON by a schema, or nothing; and the guide's own flag and figures."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from ossia.agent.schema import fault_of
from ossia.cli.runtime.schema import read_schema
from tests.support.command import line_of, ossia, ossia_here, write_script
from tests.support.pty import PtyChat

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ASKED = ("run", "My friend Wilhelmina is 47.", "--model", "etude", "--no-tools", "--temperature", "0")
AGE = '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}'


def _answered(body: str) -> str:
    return f"<|channel|>final<|message|>{body}<|return|>"


def test_the_json_alone_goes_to_stdout(tmp_path: Path) -> None:
    schema = tmp_path / "person.json"
    schema.write_text(json.dumps(PERSON))
    done = ossia(*ASKED, "--schema", str(schema), "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"name":"Wilhelmina","age":47}\n', b"")


def test_it_is_held_to_the_schema() -> None:
    done = ossia(*ASKED, "--schema", AGE, "--json")
    line = line_of(done)
    assert (done.returncode, json.loads(line["answer"])) == (0, {"age": 47})
    assert line["usage"]["forced_tokens"] > 0 and line["let_go"] == []


def test_without_the_guide_what_does_not_follow_it_is_not_printed(tmp_path: Path) -> None:
    script = write_script(tmp_path, _answered('{"name":"Wilhelmina","age":47}'))
    done = ossia("run", "How old?", "--engine", script, "--schema", AGE, "--no-guide", "--quiet")
    assert (done.returncode, done.stdout) == (10, b"")
    assert done.stderr.startswith(b"ossia: error: the answer doesn't follow the schema, so nothing is printed: ")
    assert done.stderr.count(b"\n") == 1


def test_half_an_answer_is_none() -> None:
    done = ossia(*ASKED, "--schema", AGE, "--max-tokens", "12")
    assert (done.returncode, done.stdout) == (6, b"")
    told = (
        b"the answer is cut: --max-tokens was reached; "
        b"nothing is printed, since half an answer doesn't follow the schema"
    )
    assert told in done.stderr
    line = line_of(ossia(*ASKED, "--schema", AGE, "--max-tokens", "12", "--json"))
    assert (line["answer"], line["exit"], line["end"]) == (None, 6, "tokens")


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        ('{"age":3}\n', 0, ""),
        ('{"age":"3"}', 10, "'3' is not of type 'integer' (at $.age)"),
        ("three", 10, "it isn't JSON (Expecting value: line 1 column 1 (char 0))"),
    ],
)
def test_an_engine_that_cannot_be_guided_is_looked_at_afterwards(
    body: str, code: int, told: str, tmp_path: Path
) -> None:
    done = ossia_here("run", "hi", "--engine", write_script(tmp_path, _answered(body)), "--schema", AGE, "--quiet")
    assert (done.returncode, done.stdout.decode()) == (code, "" if code else '{"age":3}\n')
    assert told in done.stderr.decode()


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ('{"type":"object","not":{}}', "this schema can't be used: the keyword 'not' can't be followed while sampling"),
        ('{"requried":["a"]}', "this schema can't be used: 'requried' is not a keyword of JSON Schema"),
        ('{"$ref":"#"}', "this schema can't be used: no value can satisfy it: does a $ref lead back to itself?"),
        ('{"items":' * 200 + "{}" + "}" * 200, "this schema can't be used: it is nested deeper than 64 levels"),
        ('{"items":' * 40_000 + "{}" + "}" * 40_000, "not a JSON Schema: "),
        (json.dumps({"enum": ["x" * 100_000]}), "this schema can't be used: it is larger than 64 KiB"),
        (r'{"pattern":"\\p{L}"}', r"this schema can't be used: '\\p{L}' is not a 'regex' (at $.pattern)"),
        ('{"items":[{}]}', "this schema can't be used: [{}] is not of type 'object', 'boolean' (at $.items)"),
        ('{"$schema":5}', "this schema can't be used: "),
        ('{"type":', "not a JSON Schema: Expecting value: line 1 column 9 (char 8)"),
        (" ", "is empty; give a file, a schema, which begins with {, or a line such as "),
        ("a.json", "can't read a.json: No such file or directory (a schema begins with {; a line is such as "),
        ("data/person", "can't read data/person: No such file or directory (a schema begins with {; "),
        ("name, age integer", "'age integer': expected NAME [TYPE][[]] [: DESCRIPTION], the type one of str, int, "),
        ("[]", "'[]': expected NAME [TYPE][[]] [: DESCRIPTION], the type one of str, int, float, bool, as in "),
        (": a name", "': a name': expected NAME [TYPE][[]] "),
        ("a, b, a int", "'a' is there twice: give each property a name of its own"),
        (", ,", "no property is named: give a line such as "),
    ],
)
def test_a_schema_that_cannot_be_used_is_one_line_before_anything_runs(
    schema: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if len(schema) > 100_000:  # more than a command line takes
        Path("schema.json").write_text(schema)
    given = "schema.json" if len(schema) > 100_000 else schema
    done = ossia_here("run", "hi", "--schema", given)
    place = "--schema: " if given == schema else "--schema schema.json: "
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.decode().startswith(f"ossia: error: {place}{told}")


def test_words_that_demand_nothing_are_told_and_openais_form_is_taken(tmp_path: Path) -> None:
    tags = {"type": "array", "uniqueItems": False, "items": {"type": "string", "nullable": True}}
    schema = {"type": "object", "properties": {"tags": tags}, "required": ["tags"], "additionalProperties": False}
    wrapped = {"type": "json_schema", "json_schema": {"name": "tags", "strict": True, "schema": schema}}
    script = write_script(tmp_path, _answered('{"tags":["a","a"]}'))
    for given in (schema, wrapped):
        done = ossia_here("run", "hi", "--engine", script, "--schema", json.dumps(given))
        assert (done.returncode, done.stdout) == (0, b'{"tags":["a","a"]}\n')
        ignored = "since it restricts nothing: uniqueItems, nullable; where null may stand, write "
        assert ignored in done.stderr.decode()


def test_a_number_without_a_bound_is_cut_off_and_a_bound_is_proposed() -> None:
    fives = '{"type":"string","pattern":"^5{3000}$"}'
    done = ossia_here("run", "Ada Lovelace", "--model", "etude", "--no-tools", "--schema", fives)
    assert (done.returncode, done.stdout) == (6, b"")
    bound = "a bound in the schema (maximum, maxLength, maxItems) or --max-tokens stops it sooner"
    assert bound in done.stderr.decode()


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


TEXT = {"type": "string", "maxLength": 4000}


@pytest.mark.parametrize(
    ("line", "multi", "schema"),
    [
        ("name, age int,", False, _object(name=TEXT, age={"type": "integer"})),
        (
            "größe float, ok bool, tags[], n int[]: all of them, ",
            False,
            _object(größe={"type": "number"}, ok={"type": "boolean"},
                    tags={"type": "array", "items": TEXT, "maxItems": 1000},
                    n={"type": "array", "items": {"type": "integer"}, "maxItems": 1000, "description": "all of them"}),
        ),
        ("\nname str\n bio: one sentence, at most: two\n\n", False,
         _object(name=TEXT, bio={**TEXT, "description": "one sentence, at most: two"})),
        ("name", True, _object(items={"type": "array", "items": _object(name=TEXT), "maxItems": 1000})),
        ('{"type":"integer"}', True, _object(items={"type": "array", "items": {"type": "integer"}, "maxItems": 1000})),
    ],
)  # fmt: skip
def test_a_line_is_a_schema(line: str, multi: bool, schema: object) -> None:
    assert read_schema(line, of="--schema", warn=print, multi=multi).schema == schema


def test_a_file_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("name, age int").write_text('{"type": "integer"}')
    assert read_schema("name, age int", of="--schema", warn=print).schema == {"type": "integer"}


def test_the_guide_holds_the_model_to_a_line() -> None:
    done = ossia(*ASKED, "--schema", "name, age int", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"name":"Wilhelmina","age":47}\n', b"")


def test_several_items(tmp_path: Path) -> None:
    asked = ("run", "hi", "--schema-multi", "name, age int", "--quiet", "--engine")
    body = '{"items": [{"name": "Ada", "age": 36}, {"name": "Alan", "age": 41}]}'
    done = ossia_here(*asked, write_script(tmp_path, _answered(body)))
    assert (done.returncode, done.stdout.decode()) == (0, f"{body}\n")
    one = ossia_here(*asked, write_script(tmp_path, _answered('{"name": "Ada", "age": 36}')))
    assert (one.returncode, one.stdout) == (10, b"")
    both = ossia_here(*asked, "script:none.json", "--schema", "name")
    assert both.stderr == b"ossia: error: use --schema or --schema-multi, not both\n" and both.returncode == 2


def test_a_file_of_megabytes_is_not_read(tmp_path: Path) -> None:
    schema = tmp_path / "huge.json"
    schema.write_bytes(b'{"enum":["' + b"x" * (2 << 20) + b'"]}')
    done = ossia_here("run", "hi", "--schema", str(schema))
    assert (done.returncode, done.stderr) == (2, f"ossia: error: --schema {schema}: is larger than 1 MiB\n".encode())


def test_the_guide_can_be_turned_off_by_a_setting(tmp_path: Path) -> None:
    done = ossia(*ASKED, "--json", env={"OSSIA_GUIDE": "off"})
    assert line_of(done)["usage"]["forced_tokens"] == 0
    assert line_of(ossia(*ASKED, "--json"))["usage"]["forced_tokens"] > 0
    done = ossia_here("run", "hi", "--engine", write_script(tmp_path, _answered("Hi.")), "--no-guide")
    assert done.stdout == b"Hi.\n"


@pytest.mark.parametrize("constant", ["NaN", "-Infinity"])
def test_json_has_no_such_numbers(constant: str) -> None:
    assert fault_of(f'{{"a": {constant}}}', {}) == f"it isn't JSON ({constant} is not JSON)"
    assert fault_of('{"a": -1e999}', {}) == "it isn't JSON (-1e999 is too large a number)"


def test_a_reference_to_elsewhere_is_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        schema = {"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"}
        assert str(fault_of("{}", schema)).startswith("its schema refers to something that isn't in it (")
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_terminal_gets_no_control_characters_but_the_same_json(tmp_path: Path) -> None:
    """They may stand raw in JSON's strings, and would be obeyed."""
    body = '{"name": "a\x9b31m\u202eb\x7f"}'
    script = write_script(tmp_path, _answered(body))
    arguments = ("run", "hi", "--engine", script, "--schema", '{"type":"object"}', "--quiet")
    with PtyChat(*arguments) as shown:
        assert shown.wait() == 0
        assert b'{"name": "a\\u009b31m\\u202eb\\u007f"}\r\n' in shown.sent  # between the modes of keys
    assert ossia_here(*arguments).stdout.decode() == f"{body}\n"


def test_a_session_keeps_its_schema_until_it_is_off(tmp_path: Path) -> None:
    home = {"XDG_DATA_HOME": str(tmp_path)}
    answered = write_script(tmp_path, _answered('{"age":3}'))
    ossia("run", "hi", "--save", "--engine", answered, "--schema", AGE, env=home)
    kept = ossia("run", "again", "--continue", "--engine", answered, env=home)
    assert "the answer follows the session's schema; --schema off ends that" in kept.stderr.decode()
    free = write_script(tmp_path, _answered("Three."))
    assert ossia("run", "again", "--continue", "--engine", free, env=home).returncode == 10
    for flags in (("--schema", "off"), ()):
        done = ossia("run", "again", "--continue", "--engine", free, *flags, env=home)
        assert done.stdout == b"Three.\n"


def test_the_json_line_says_why_there_is_no_answer(tmp_path: Path) -> None:
    done = ossia_here("run", "hi", "--engine", write_script(tmp_path, _answered("three")), "--schema", AGE, "--json")
    line = line_of(done)
    assert (line["answer"], line["exit"], done.returncode) == (None, 10, 10)
    assert line["error"] == "it isn't JSON (Expecting value: line 1 column 1 (char 0))"
    assert done.stderr.decode().endswith("the answer doesn't follow the schema: " + line["error"] + "\n")


@pytest.mark.parametrize("flag", ["--raw", "--json"])
def test_what_is_printed_is_not_said_not_to_be(flag: str) -> None:
    cut = ossia(*ASKED, "--schema", AGE, "--max-tokens", "6", flag)
    assert cut.returncode == 6 and "nothing is printed" not in cut.stderr.decode()
