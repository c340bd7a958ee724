"""Bodies of both APIs become the same request; a fault is one line with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ossia.agent.serving import chat_in, responses_in
from ossia.agent.serving.asked import Asked, BadRequest, Item
from ossia.agent.serving.fields import call, said, thinking
from ossia.agent.serving.models import listed, require
from ossia.harmony.messages import COMMENTARY, Message, ResponseFormat

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = {"name": "add", "description": "Adds.", "parameters": SCHEMA}
PREAMBLE = Message("assistant", ("Let me see.",), channel=COMMENTARY)
ARGUMENTS = '{"a": 1}'


def _responses(given: Any = "hi", **rest: Any) -> Asked:
    return responses_in.asked_of({"input": given, **rest})


def _chat(*messages: Any, **rest: Any) -> Asked:
    return chat_in.asked_of({"messages": [*messages] or [{"role": "user", "content": "hi"}], **rest})


def test_the_same_conversation_through_both() -> None:
    said_so = [{"type": "output_text", "text": "Let me see.", "annotations": []}]
    items = [
        {"role": "system", "content": "Be short."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": one} for one in ("Add ", "1")]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "A sum."}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": said_so},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "1"}]},
        {"role": "assistant", "content": "It is 1."},
        {"role": "user", "content": "Thanks"},
    ]
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be short."}]},
        {"role": "user", "content": "Add 1"},
        {"role": "assistant", "reasoning_content": "A sum.", "content": "Let me see.",
         "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
        {"role": "assistant", "content": "It is 1."},
        {"role": "user", "content": "Thanks"},
    ]  # fmt: skip
    expected = (
        Message("developer", ("Be short.",)), Message("user", ("Add 1",)), thinking("A sum."), PREAMBLE,
        call("add", ARGUMENTS), Message("tool", ("1",)), said("It is 1."), Message("user", ("Thanks",)),
    )  # fmt: skip
    by_items, by_messages = _responses(items), _chat(*messages)
    assert tuple(item.message for item in by_items.items) == expected
    assert tuple(item.message for item in by_messages.items) == expected
    assert [item.id for item in by_items.items if item.id] == ["rs_1", "msg_1", "fc_1"]
    assert [item.call_id for item in by_messages.items if item.call_id] == ["call_1", "call_1"]


def test_what_stands_beside_the_input() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "number", "schema": schema, "strict": True}
    rest = {"temperature": 0, "top_p": 0.5, "prompt_cache_key": "k", "stream": True, "metadata": {"a": "b"}, "x": 1}
    asked = _responses(
        instructions="Be kind.", reasoning={"effort": "xhigh"}, text={"format": form, "verbosity": "low"}, store=False,
        max_output_tokens=9, max_tool_calls=2, previous_response_id="resp_1",
        tools=[{"type": "web_search_preview"}, {"type": "container"}],
        **rest,
    )  # fmt: skip
    assert (asked.instructions, asked.effort, asked.max_tokens, asked.max_calls) == ("Be kind.", "high", 9, 2)
    assert (asked.previous, asked.hosted, asked.store) == ("resp_1", {"web_search", "shell"}, False)
    chat = _chat(
        reasoning_effort="minimal", response_format={"type": "json_schema", "json_schema": form}, seed=7, max_tokens=9,
        **rest,
    )  # fmt: skip
    assert (chat.effort, chat.seed, chat.max_tokens, chat.store) == ("low", 7, 9, False)
    for one in (asked, chat):
        assert one.answer == ResponseFormat("number", schema)
        assert (one.temperature, one.top_p, one.key, one.stream) == (0, 0.5, "k", True)
    assert _chat(response_format={"type": "json_object"}).answer == ResponseFormat("answer", {"type": "object"})


def test_functions() -> None:
    """As the model is shown them, and with the names of their client."""
    python = {"type": "function", "name": "python", "parameters": None}
    grammar = {"type": "grammar", "syntax": "lark", "definition": "x"}
    patch = {"type": "custom", "name": "apply_patch", "format": grammar}
    agents = {"type": "namespace", "name": "agents", "tools": [{**python, "name": "close"}]}
    cached = {"type": "web_search", "external_web_access": False}  # as Codex asks for: nothing of the web
    choice = {"type": "function", "name": "python"}
    asked = _responses(tools=[{"type": "function", **ADD}, python, patch, agents, cached], tool_choice=choice)
    assert [(one.name, one.spec.name, one.text, one.namespace) for one in asked.functions] == [
        ("add", "functions.add", False, None),
        ("python", "functions.python_tool", False, None),
        ("apply_patch", "functions.apply_patch", True, None),
        ("close", "functions.agents__close", False, "agents"),
    ]
    assert asked.tool_choice == "functions.python_tool" and not asked.hosted
    assert asked.functions[0].spec.parameters == SCHEMA and asked.functions[0].spec.returned
    assert "lark grammar" in asked.functions[2].spec.description
    chat = _chat(tools=[{"type": "function", "function": ADD}], tool_choice="required")
    assert (chat.functions[0].spec, chat.tool_choice) == (asked.functions[0].spec, "required")


def test_a_schema_is_shown_without_references() -> None:
    """The prompt would have `any` for them; calls are held to the schema as it came."""
    schema = {"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": SCHEMA}}
    (function,) = _responses(tools=[{"type": "function", "name": "go", "parameters": schema}]).functions
    assert function.spec.parameters == schema
    assert function.spec.shown == {"type": "object", "properties": {"at": SCHEMA}}


def test_items_that_are_known_by_their_ids() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    reference = {"type": "item_reference", "id": "msg_1"}
    assert _responses([search, reference]).items == (Item(None, "ws_1"), Item(None, "msg_1", where="input[1].id"))
    broken = {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_image"}]}
    (item,) = _responses([broken]).items
    assert item.message == Message("tool", ("[this part is no text: the model can't read it]",))
    (half,) = _responses("\ud83d\ude00 \ud83d").items
    assert half.message == Message("user", ("😀 �",))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": 3}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "compaction"}]}, "input[0].type"),
        ({"input": "hi", "background": True}, "background"),
        ({"input": "hi", "tools": [{"type": "file_search"}]}, "tools[0].type"),
        ({"input": "hi", "tools": [{"type": "shell", "environment": {"type": "local"}}]}, "tools[0].environment"),
        ({"input": "hi", "tools": [{"type": "function", **ADD}] * 2}, "tools"),
        ({"input": "hi", "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name"),
        ({"input": "hi", "temperature": True}, "temperature"),
        ({"input": "hi", "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "strnig"}}}},
         "text.format.schema"),
        ([], None),
    ],
)  # fmt: skip
def test_faults(body: Any, param: str | None) -> None:
    with pytest.raises(BadRequest) as raised:
        responses_in.asked_of(body)
    assert (raised.value.status, raised.value.param) == (400, param)
    assert "\n" not in str(raised.value) and (param or "the body") in str(raised.value)


@pytest.mark.parametrize(
    "rest", [{"n": 2}, {"stop": ["\n"]}, {"logprobs": True}, {"functions": [ADD]}, {"logit_bias": {"1": 2}}]
)
def test_faults_of_chat(rest: Any) -> None:
    with pytest.raises(BadRequest, match=f"^{next(iter(rest))}: isn't supported"):
        _chat(**rest)


def test_names_of_the_model() -> None:
    for name in (None, "gpt-oss-20b", "openai/gpt-oss-20b", "gpt-oss:20b"):
        require(name, "gpt-oss-20b @ gpu.example:8000")
    with pytest.raises(BadRequest, match="only 'gpt-oss-20b'") as raised:
        require("gpt-4o", "gpt-oss-20b")
    assert raised.value.status == 404
    assert listed("etude", context_tokens=4096, created=1)["data"] == [
        {"id": "etude", "object": "model", "created": 1, "owned_by": "ossia", "context_length": 4096}
    ]


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, (*place, key))


def _changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = _changed(copy[place[0]], place[1:], new)
    return copy


def test_whatever_stands_anywhere_is_read_or_refused() -> None:
    """In one line: a bug would be another exception."""
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    grammar = {"syntax": "lark", "definition": "x"}
    function = {"name": "f", "arguments": "{}"}
    bodies = {
        responses_in.asked_of: {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "s"}]},
                {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "g", "input": "x"},
                {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
            ],
            "tools": [{"type": "function", **ADD},
                      {"type": "custom", "name": "g", "format": {"type": "grammar", **grammar}}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]},
            "text": {"format": form}, "reasoning": {"effort": "low"}, "temperature": 1, "max_output_tokens": 9,
        },
        chat_in.asked_of: {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": "p", "reasoning": "r",
                 "tool_calls": [{"id": "c", "type": "function", "function": function}]},
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            ],
            "tools": [{"type": "function", "function": ADD},
                      {"type": "custom", "custom": {"name": "g", "format": {"type": "grammar", "grammar": grammar}}}],
            "tool_choice": {"type": "function", "function": {"name": "add"}},
            "response_format": {"type": "json_schema", "json_schema": form}, "seed": 1, "stop": None,
        },
    }  # fmt: skip
    odd = (None, -1.5, "x\ud800", [], {"type": []}, float("nan"))
    refused = 0
    for read, body in bodies.items():
        for place in _places(body):
            for value in odd:
                try:
                    read(_changed(body, place, value))
                except BadRequest as error:
                    refused += 1
                    assert "\n" not in str(error)
    assert refused > 300


def test_a_schema_that_would_take_for_ever_costs_a_line() -> None:
    """An answer's is refused; a function's is made simpler, as any that can't be followed."""
    parts = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}", "allOf": [{"$ref": f"#/$defs/a{n + 1}"}]} for n in range(40)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": {**parts, "a40": {"const": "x"}}}
    with pytest.raises(BadRequest, match="with each \\$ref written out"):
        _responses(text={"format": {"type": "json_schema", "name": "a", "schema": schema}})
    asked = _responses(tools=[{"type": "function", "name": "f", "parameters": schema}])
    assert "$ref" not in str(asked.functions[0].spec.parameters)
