"""A turn as Chat Completions gives it: chunks that add up to the completion, and one end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from ossia.agent.limits import Limits
from ossia.agent.serving.asked import Asked
from ossia.agent.serving.chat_out import ChatWriter
from ossia.agent.stream import events as stream
from ossia.harmony.messages import ResponseFormat
from tests.agent.serving.test_responses_out import (
    FINAL,
    FUNCTION,
    FUNCTIONS,
    PREAMBLE,
    RUN,
    THOUGHT,
    any_events,
    any_result,
    call,
)
from tests.support.published import published

Json = dict[str, Any]


def asked(*, answer: ResponseFormat | None = None, **raw: object) -> Asked:
    return Asked("chat", "etude", (), functions=FUNCTIONS, answer=answer, raw=raw)


def written(events: Sequence[stream.Event], request: Asked | None = None) -> tuple[list[Json], Json]:
    """The chunks, as JSON, and the completion. The former must add up to the latter."""
    writer = ChatWriter(request or asked(), id="chatcmpl-1", created=7, model="etude", fingerprint="fp_1")
    chunks = [json.loads(json.dumps(one)) for event in events for one in writer.see(event)]
    whole = json.loads(json.dumps(writer.completion()))
    head = {"id": "chatcmpl-1", "created": 7, "model": "etude", "system_fingerprint": "fp_1"}
    assert head.items() <= whole.items()
    if "error" in chunks[-1]:
        assert writer.failure is not None and not any("error" in one for one in chunks[:-1])
        return chunks, whole
    usage = chunks.pop() if not chunks[-1]["choices"] else {}
    assert all(head.items() <= one.items() and one["object"] == "chat.completion.chunk" for one in chunks)
    choices = [one["choices"][0] for one in chunks]
    assert {one["finish_reason"] for one in choices[:-1]} <= {None}
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    message = whole["choices"][0]["message"]
    for name in ("content", "reasoning", "reasoning_content"):
        assert "".join(one["delta"].get(name) or "" for one in choices) == (message.get(name) or "")
    calls: list[Json] = []
    for one in (one for choice in choices for one in choice["delta"].get("tool_calls", ())):
        if one["index"] == len(calls):
            calls.append({"id": one["id"], "type": "function", "function": dict(one["function"])})
        else:
            calls[one["index"]]["function"]["arguments"] += one["function"]["arguments"]
    assert calls == message.get("tool_calls", [])
    assert usage.get("usage", whole["usage"]) == whole["usage"]
    return chunks, whole


def test_an_answer_with_its_reasoning(tmp_path: Path) -> None:
    events = published(tmp_path, THOUGHT + FINAL)
    _, whole = written(events, asked(stream_options={"include_usage": True}))
    (choice,) = whole["choices"]
    assert choice["message"] == {
        "role": "assistant", "content": "It rains.", "refusal": None, "reasoning": "They want weather.",
        "reasoning_content": "They want weather.",
    }  # fmt: skip
    assert choice["finish_reason"] == "stop"
    used = whole["usage"]
    assert 0 < used["completion_tokens_details"]["reasoning_tokens"] < used["completion_tokens"]
    writer = ChatWriter(asked(stream_options={"include_usage": True}), id="c", created=7, model="etude")
    chunks = [one for event in events for one in writer.see(event)]
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == used
    assert {one["usage"] for one in chunks[:-1]} == {None}


def test_a_call_of_the_clients_function(tmp_path: Path) -> None:
    wrong, right = (call("get_weather", f'{{"{name}": "Oslo"}}') for name in ("town", "city"))
    _, whole = written(published(tmp_path, wrong, THOUGHT + PREAMBLE + right, extra=(FUNCTION,)))
    (choice,) = whole["choices"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "I look."
    (made,) = choice["message"]["tool_calls"]
    assert made["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'} and made["id"] == "call_2"


def test_only_the_answer_is_content_where_it_must_follow_a_schema(tmp_path: Path) -> None:
    events = published(tmp_path, PREAMBLE + '<|channel|>final<|message|>{"a": 1}<|return|>')
    _, whole = written(events, asked(answer=ResponseFormat("a", {"type": "object"})))
    message = whole["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == ('{"a": 1}', "I look.")
    assert written(events)[1]["choices"][0]["message"]["content"] == 'I look.\n\n{"a": 1}'


def test_an_answer_that_is_cut(tmp_path: Path) -> None:
    _, whole = written(published(tmp_path, THOUGHT + FINAL, limits=Limits(max_tokens=12)))
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == 12


def test_a_refused_call_and_citations() -> None:
    text = "They swim[1]."
    sources = (stream.Source(1, "Capy", "http://a.test/capy", places=((9, 12),)),)
    why, allow = "it runs a command", "--allow container.exec"
    question = stream.Approval("call_2/1", "call_2", RUN.name, RUN.arguments, "", "", "", why, allow=allow)
    refused = stream.ToolResult("call_2", "refused", "This call needs approval")
    before = stream.Text("I look.", 0, preamble=True)
    events = [stream.Reasoning("Hm.", 0), before, RUN, question, refused, stream.Text(text, 2)]
    _, whole = written([*events, stream.Result("answered", text, sources=sources)])
    message = whole["choices"][0]["message"]
    assert message["reasoning"].startswith("Hm.\n\nrefused: it runs a command. The server's owner can allow it: --all")
    (note,) = message["annotations"]
    cited = note["url_citation"]
    assert message["content"][cited["start_index"] : cited["end_index"]] == "[1]"
    assert cited["url"] == "http://a.test/capy"


@pytest.mark.parametrize(
    ("result", "code", "kind"),
    [
        (stream.Result("error", error="the engine broke"), "server_error", "server_error"),
        (stream.Result("context", error="too long"), "context_length_exceeded", "invalid_request_error"),
        (stream.Result("stopped"), "server_error", "server_error"),
    ],
)
def test_a_failure_is_an_error_object(result: stream.Result, code: str, kind: str) -> None:
    chunks, _ = written([stream.Text("It"), result, stream.Text("more")])
    error = chunks[-1]["error"]
    assert (error["code"], error["type"], error["message"] != "") == (code, kind, True)


@given(any_events, any_result)
def test_events_in_any_order_make_sound_chunks(events: list[stream.Event], result: stream.Result) -> None:
    written([*events, result], asked(stream_options={"include_usage": True}))
