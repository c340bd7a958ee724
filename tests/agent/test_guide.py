"""The guide: what can be written under it, what can't, and what must."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from ossia.agent.engine.base import Constraint, ConstraintDropped
from ossia.agent.engine.guiding import AllBut, Mask, OneOf
from ossia.agent.errors import SchemaUnusable
from ossia.agent.guide import GuideCompiler, idle_keywords, require_usable
from ossia.agent.request import Request
from ossia.agent.respond import constraint_of
from ossia.harmony.messages import ResponseFormat
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.spec import ToolSpec
from tests.support.guiding import follow, refused_at
from tests.support.streams import harmony_ids

PLACE = {
    "type": "object",
    "properties": {
        "place_name": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["place_name", "unit"],
    "additionalProperties": False,
}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec("python", "", input="text", trained=True, provenance="built-in"),
    ToolSpec(
        "browser.search",
        "",
        {"type": "object", "properties": {"query": {"type": "string"}}},
        trained=True,
        provenance="built-in",
    ),
    ToolSpec("functions.get_weather", "", PLACE, provenance="built-in"),
    ToolSpec("functions.get_time", "", provenance="built-in"),
    ToolSpec("functions.odd", "", {"type": "object", "not": {"required": ["a"]}}, provenance="built-in"),
)
WEATHER = '{"place_name": "Berlin, Mitte", "unit": "celsius", "days": 3, "tags": ["a \\"b\\"", "ü"]}'


@cache
def _compiler(tokenizer: Tokenizer) -> GuideCompiler:
    return GuideCompiler(tokenizer)


def _guide(tokenizer: Tokenizer, **of_the_request: Any) -> Any:
    request = Request((), **{"tools": TOOLS, **of_the_request})
    return _compiler(tokenizer)(constraint_of(request))


THOUGHT = "<|channel|>analysis<|message|>Some thought. <b>{\n<|end|>"
WELL_FORMED = [
    "<|channel|>final<|message|>Hello!\n\n* a\n<|return|>",
    "<|channel|>final<|message|>Hello!<|end|><|start|>assistant<|channel|>final<|message|>More.<|return|>",
    f"{THOUGHT}<|start|>assistant<|channel|>final<|message|><|return|>",
    f"{THOUGHT}<|start|>assistant<|channel|>commentary<|message|>I'll look it up.<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + WEATHER + "<|call|>",
    f"{THOUGHT}<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{WEATHER}"
    "<|call|>",
    f"<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>{WEATHER}<|call|>",
    f"<|channel|>commentary to=functions.get_weather json<|message|>{WEATHER}\n<|call|>",
    f"<|channel|>analysis to=functions.get_weather code<|message|>{WEATHER}\n\n<|call|>",
    f"<|channel|>commentary to=functions.get_weather<|message|>{json.dumps(json.loads(WEATHER), indent=2)}<|call|>",
    '<|channel|>commentary to=functions.get_weather<|message|>{"place_name":"x","unit":"celsius"}<|call|>',
    "<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{}<|call|>",
    '<|channel|>analysis to=browser.search code<|message|>{"query":"x","topn":3}<|call|>',
    '<|channel|>commentary to=functions.odd <|constrain|>json<|message|>whatever {"b":<|call|>',
    "<|channel|>analysis to=python code<|message|>print('<b>')\nfor i in {1}: pass\n<|call|>",
    " to=python<|channel|>analysis code<|message|>1<|call|>",
    # tools that the model was trained with and that nobody offers
    '<|channel|>analysis to=container.exec code<|message|>{"command":["bash","-lc","ls"],"timeout":10000}<|call|>',
    " to=repo_browser.open_file<|channel|>analysis code<|message|>{}\n<|call|>",
    "<|channel|>commentary to=browser.open code<|message|>{}<|call|>",
]


@pytest.mark.parametrize("text", WELL_FORMED)
def test_what_a_model_writes_well_can_be_written(text: str, etude_tokenizer: Tokenizer) -> None:
    assert refused_at(_guide(etude_tokenizer), harmony_ids(etude_tokenizer, text)) is None


@pytest.mark.parametrize("text", WELL_FORMED)
def test_it_can_be_written_in_gpt_oss_vocabulary(text: str, o200k_tokenizer: Tokenizer) -> None:
    assert refused_at(_guide(o200k_tokenizer), harmony_ids(o200k_tokenizer, text)) is None


@pytest.mark.parametrize(
    ("well", "stray"),
    [
        ("", "Hello"),
        ("", "<|message|>"),
        ("", "<|start|>"),
        ("<|channel|>", "Final"),
        ("<|channel|>final", "_answer"),
        ("<|channel|>", "python"),
        ("<|channel|>commentary", "<|channel|>"),
        ("<|channel|>commentary", "<|constrain|>"),
        ("<|channel|>commentary", " json"),
        ("<|channel|>commentary to=functions", ".shell"),
        ("<|channel|>commentary to=functions.get_weather", " to"),
        ("<|channel|>final", " to"),
        ("<|channel|>final<|message|>Hi", "<|channel|>"),
        ("<|channel|>final<|message|>Hi", "<|start|>"),
        ("<|channel|>final<|message|>Hi", "<|call|>"),
        ("<|channel|>final<|message|>Hi", "<|endoftext|>"),
        ("<|channel|>final<|message|>Hi", "<|message|>"),
        ("<|channel|>analysis<|message|>Hm", "<|return|>"),
        ("<|channel|>analysis<|message|>Hm", "<|call|>"),
        ("<|channel|>analysis to=python code<|message|>1", "<|end|>"),
        ("<|channel|>commentary to=functions.get_time<|message|>", "["),
        ("<|channel|>commentary to=functions.get_time<|message|>", "<|call|>"),
        ("<|channel|>commentary to=functions.get_time<|message|>{}", "<|end|>"),
        ("<|channel|>commentary to=functions.get_time<|message|>{}", "]"),
        ('<|channel|>commentary to=functions.get_weather<|message|>{"place_name":', "3"),
        ('<|channel|>commentary to=functions.get_weather<|message|>{"place_name":"x",', "<|call|>"),
    ],
)
def test_what_cannot_be_written(well: str, stray: str, o200k_tokenizer: Tokenizer) -> None:
    ids = harmony_ids(o200k_tokenizer, well)
    assert refused_at(_guide(o200k_tokenizer), [*ids, *harmony_ids(o200k_tokenizer, stray)]) == len(ids)


def test_an_answer_by_a_schema(o200k_tokenizer: Tokenizer) -> None:
    answer = ResponseFormat("answer", PERSON)

    def refused(body: str, **more: Any) -> bool:
        header = "" if more else "<|channel|>final<|message|>"
        ids = harmony_ids(o200k_tokenizer, header + body + "<|return|>")
        return refused_at(_guide(o200k_tokenizer, response_format=answer, **more), ids) is not None

    assert not refused('{"name":"Ann","age":47}')
    assert not refused('{"name": "Ann", "age": 47}\n')
    assert refused('{"age":47,"name":"Ann"}')  # in the order that the schema has
    assert refused('{"name":"Ann"}')
    assert refused("Ann is 47.")
    assert not refused('{"name":"Ann","age":47}', open_with="final")
    assert refused("Ann is 47.", open_with="final")


def test_a_step_that_begins_in_the_answer_ends_there_too(o200k_tokenizer: Tokenizer) -> None:
    for closer in ("<|return|>", "<|end|>"):
        ids = harmony_ids(o200k_tokenizer, f"Hi.{closer}")
        assert refused_at(_guide(o200k_tokenizer, open_with="final"), ids) is None


def test_what_must_come_is_not_sampled(o200k_tokenizer: Tokenizer) -> None:
    call = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + WEATHER + "<|call|>"
    ids = harmony_ids(o200k_tokenizer, THOUGHT + "<|start|>assistant" + call)
    forced = follow(_guide(o200k_tokenizer), ids)
    assert "|".join(o200k_tokenizer.decode([ids[place]]) for place in forced) == (
        "<|start|>|assistant|ary|=|<|constrain|>|json|<|message|>|place|_name|unit|elsius|tags"
    )


def test_a_lone_tools_own_name_is_the_models_to_choose(o200k_tokenizer: Tokenizer) -> None:
    """Forced, `functions.shell` that nobody offers would become the one function that is on."""
    guide = _compiler(o200k_tokenizer)(Constraint(("functions.get_weather", "python")))
    start = harmony_ids(o200k_tokenizer, "<|channel|>commentary to=functions")
    assert follow(guide, start)[-1] == len(start) - 2  # the `=`, and nothing behind `functions`
    choice = guide.next()
    assert isinstance(choice, OneOf) and len(choice.ids) == 1


def test_a_header_that_was_let_go(o200k_tokenizer: Tokenizer) -> None:
    guide = _guide(o200k_tokenizer)
    guide.take(harmony_ids(o200k_tokenizer, "<|channel|>")[0])
    assert guide.unlikely() == ConstraintDropped("header", "the model wants another header than any that is valid here")
    for token in harmony_ids(o200k_tokenizer, "container.exec<|channel|>analysis code<|message|>"):
        assert guide.next() is None
        guide.take(token)
    assert isinstance(guide.next(), AllBut)
    assert guide.unlikely() is None  # only a header is let go so
    ids = harmony_ids(o200k_tokenizer, "{}<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>")
    assert refused_at(guide, ids) is None


def test_reserved_ids_and_those_without_a_token_never_come(o200k_tokenizer: Tokenizer) -> None:
    guide = _guide(o200k_tokenizer, tools=())
    follow(guide, harmony_ids(o200k_tokenizer, "<|channel|>analysis<|message|>"))
    choice = guide.next()
    assert isinstance(choice, AllBut)
    vocabulary = o200k_tokenizer.vocabulary
    none = {token for token, text in enumerate(vocabulary.tokens) if not text}
    assert choice.known == (none | set(vocabulary.control.values())) - {o200k_tokenizer.control.end}


def test_a_mask_is_of_the_ids_that_go_on_with_the_value(etude_tokenizer: Tokenizer) -> None:
    guide = _guide(etude_tokenizer)
    follow(guide, harmony_ids(etude_tokenizer, "<|channel|>commentary to=functions.get_time<|message|>"))
    choice = guide.next()
    assert isinstance(choice, Mask)
    size = etude_tokenizer.vocabulary.size
    texts = {etude_tokenizer.token_bytes(int(token)) for token in choice.listed(size)}
    assert texts and all(text and text[:1] in b"} \r\n" for text in texts)
    assert choice.count == len(choice.listed(size))


def test_behind_a_whole_value_only_what_closes_it_comes(etude_tokenizer: Tokenizer) -> None:
    """The other control tokens don't, nor ids without a token: several of them share a word of the mask."""
    guide = _guide(etude_tokenizer)
    follow(guide, harmony_ids(etude_tokenizer, "<|channel|>commentary to=functions.get_time<|message|>{}"))
    choice = guide.next()
    assert isinstance(choice, Mask)
    vocabulary = etude_tokenizer.vocabulary
    listed = set(map(int, choice.listed(vocabulary.size)))
    none = {token for token, text in enumerate(vocabulary.tokens) if not text}
    assert listed & (none | set(vocabulary.control.values())) == {etude_tokenizer.control.call}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"not": {}}, "the keyword 'not' can't be followed while sampling"),
        ({"if": {}, "then": {}}, "the keyword 'if', 'then' can't be followed while sampling"),
        ({"type": "array", "uniqueItems": True}, "the keyword 'uniqueItems' can't be followed while sampling"),
        ({"oneOf": [{"type": "string"}, {"maxLength": 3}]}, "the keyword 'oneOf' can't be followed where its schemas "),
        ({"type": "string", "format": "frob"}, "Unknown format: frob"),
        ({"type": "object", "required": 3}, "Expected array for 'required', got 3"),
        ({"$ref": "https://example.com/x.json"}, "Resource 'https://example.com/x.json' is not present"),
        ({"$ref": "#"}, "no value can satisfy it: does a $ref lead back to itself?"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "no value can "),
        ({"type": "string", "format": "byte"}, "Unknown format: byte; known are date, date-time, duration, email, "),
        ({"enum": []}, "no value can satisfy it: an 'enum' or 'anyOf' is empty"),
        ({"contains": {}, "maxContains": 3}, "the keyword 'contains', 'maxContains' can't be followed"),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, "the keyword 'dependentRequired' can't be followed"),
        (False, "the keyword 'not' can't be followed while sampling"),
        ([], "a JSON Schema must be an object, not list"),
        ({"enum": ["x" * 1_000_000]}, "it is larger than 64 KiB"),
        ({"type": "object", "properties": {f"key_{n}": {"type": "string"} for n in range(40_000)}}, "it is larger"),
    ],
)
def test_a_schema_that_cannot_be_followed_is_one_line(schema: Any, told: str) -> None:
    with pytest.raises(SchemaUnusable) as error:
        require_usable(schema)
    assert str(error.value).startswith(told) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("count", "part"),
    [
        (30, lambda ref: {**ref, "allOf": [ref]}),  # without a bound it takes gigabytes
        (30, lambda ref: {"properties": {"a": ref}, "allOf": [{"properties": {"a": ref}}]}),
        (30, lambda ref: {"enum": ["a", "b"], "anyOf": [ref, ref]}),
        (900, lambda ref: {"properties": {"a": ref}}),  # the library's stack overflows, and the process is gone
        (200, lambda ref: {"items": ref}),
    ],
)
def test_a_schema_that_is_large_only_when_it_is_written_out(count: int, part: Callable[[object], object]) -> None:
    parts = {f"a{n}": part({"$ref": f"#/$defs/a{n + 1}"}) for n in range(count)}
    with pytest.raises(SchemaUnusable, match="too large, or too deep, with each \\$ref written out"):
        require_usable({"$ref": "#/$defs/a0", "$defs": {**parts, f"a{count}": {"const": "abc"}}})


def test_a_schema_that_refers_to_itself_or_to_another_by_its_id() -> None:
    tree = {"type": "object", "properties": {"of": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    require_usable({"$defs": {"tree": tree}, "$ref": "#/$defs/tree"})
    require_usable({"$defs": {"tree": tree}, "allOf": [{"$ref": "#/$defs/tree"}], "required": ["of"]})
    named = {f"a{n}": {"$id": f"https://a.test/{n}", "items": {"$ref": f"/{n + 1}"}} for n in range(200)}
    named["end"] = {"$id": "https://a.test/200"}
    with pytest.raises(SchemaUnusable, match="too deep"):
        require_usable({"$id": "https://a.test/", "$defs": named, "$ref": "/0"})


def test_a_deep_schema() -> None:
    schema: dict[str, object] = {}
    for _ in range(50_000):
        schema = {"items": schema}
    with pytest.raises(SchemaUnusable, match="deeper than 64 levels"):
        require_usable(schema)
    while schema:  # taken apart by hand: Python would go 50,000 calls deep
        schema = schema["items"]  # type: ignore[assignment]


IDLE: tuple[dict[str, object], ...] = (
    {"type": "array", "uniqueItems": False, "additionalItems": False},
    {"properties": {"a": {"items": {"anyOf": [{"uniqueItems": False, "items": {"not": False}}]}}}},
    {"then": {"not": {}}, "maxContains": 3},
    {"if": {"type": "null"}},
    {"contains": {"type": "null"}, "minContains": 0},
    {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}},  # of a record, by Zod
    {"unevaluatedProperties": True, "unevaluatedItems": {}},
    {"dependentRequired": {"a": []}, "dependentSchemas": {"a": True}, "dependencies": {}},
    {"type": "string", "contentEncoding": "base64", "nullable": True, "discriminator": {"propertyName": "kind"}},
)


@pytest.mark.parametrize("schema", IDLE)
def test_keywords_that_demand_nothing_are_named(schema: dict[str, object]) -> None:
    assert bool(idle_keywords(schema)) != ("propertyNames" in schema)
    assert not idle_keywords({"const": schema, "properties": {"uniqueItems": {"title": "T", "x-note": schema}}})


@pytest.mark.parametrize(
    "schema",
    [
        PLACE,
        True,
        {},
        *IDLE,
        {"type": "object", "properties": {"not": {"type": "string"}, "requried": {"type": "null"}}},
        {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "x-note": {"a": 1}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "default": 3, "anyOf": [{"type": "null"}]},
    ],
)
def test_schemas_that_can(schema: object) -> None:
    require_usable(schema)


@pytest.mark.parametrize(
    ("schema", "keyword", "right"),
    [
        ({"type": "object", "requried": ["a"]}, "requried", "required"),
        ({"properties": {"a": {"items": [{"minLenght": 3}]}}}, "minLenght", "minLength"),
        ({"anyOf": [{}, {"$defs": {"b": {"additionalProperties": {"frobnicate": 1}}}}]}, "frobnicate", None),
        ({"additonalProperties": False}, "additonalProperties", "additionalProperties"),
        ({"type": "object", "require": []}, "require", "required"),
        ({"maxlength": 3}, "maxlength", "maxLength"),
        ({"min_items": 3}, "min_items", "minItems"),
        ({"not": False, "enums": ["a"]}, "enums", "enum"),
    ],
)
def test_a_keyword_that_no_schema_has(schema: Mapping[str, object], keyword: str, right: str | None) -> None:
    with pytest.raises(SchemaUnusable) as error:
        require_usable(schema)
    proposed = f": write '{right}'" if right else ""
    assert str(error.value) == f"'{keyword}' is not a keyword of JSON Schema{proposed}"


def test_arguments_by_a_schema_that_cannot_be_followed_are_free_and_told(o200k_tokenizer: Tokenizer) -> None:
    guide = _guide(o200k_tokenizer)
    follow(guide, harmony_ids(o200k_tokenizer, "<|channel|>commentary to=functions.odd<|message|>"))
    told = "its schema can't be followed: the keyword 'not' can't be followed while sampling"
    assert (guide.dropped(), guide.dropped()) == (ConstraintDropped("arguments", told), None)
    assert isinstance(guide.next(), AllBut)


def test_a_grammar_that_becomes_too_much_lets_go(o200k_tokenizer: Tokenizer) -> None:
    """Hundreds of optional properties, too deep for a first look: llguidance gives up inside of them."""
    many = {"type": "object", "properties": {f"key_{n}": {"type": "string"} for n in range(600)}}
    schema = {"type": "object", "properties": {"a": many}, "required": ["a"]}
    require_usable(schema)
    guide = _compiler(o200k_tokenizer)(Constraint(("functions.f",), {"functions.f": schema}))
    follow(guide, harmony_ids(o200k_tokenizer, '<|channel|>commentary to=functions.f<|message|>{"a":{"'))
    choice, told = guide.next(), guide.dropped()
    assert isinstance(choice, AllBut) and o200k_tokenizer.control.call not in choice.known
    assert told is not None and told.what == "arguments" and "\n" not in told.reason
    assert guide.dropped() is None


def test_a_schemas_own_settings_of_the_grammar_are_not_taken(o200k_tokenizer: Tokenizer) -> None:
    loose = {**PERSON, "x-guidance": {"whitespace_pattern": "[ ]*", "item_separator": ";", "key_separator": ":"}}
    guide = _compiler(o200k_tokenizer)(Constraint(("functions.f",), {"functions.f": loose}))
    call = '<|channel|>commentary to=functions.f<|message|>{"name":"A","age":1}<|call|>'
    assert refused_at(guide, harmony_ids(o200k_tokenizer, call)) is None


def test_blanks_without_end_cannot_come(o200k_tokenizer: Tokenizer) -> None:
    guide = _guide(o200k_tokenizer)
    start = "<|channel|>commentary to=functions.get_weather<|message|>{"
    assert refused_at(guide, harmony_ids(o200k_tokenizer, start + "\n" * 40)) is not None


def test_what_a_request_asks_for() -> None:
    constraint = constraint_of(Request((), tools=TOOLS[:3], open_with="final"))
    assert constraint.recipients[:4] == ("python", "browser.search", "functions.get_weather", "browser.open")
    assert constraint.recipients.count("python") == 1
    assert list(constraint.arguments) == ["browser.search", "functions.get_weather"]
    assert (constraint.answer, constraint.open_with) == (None, "final")
