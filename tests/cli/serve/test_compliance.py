"""The requests of Open Responses' compliance test, in our own words, to a real `ossia serve` with the built-in model."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.serve import Address, serving

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a place now",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "A city, such as San Francisco"}},
        "required": ["location"],
    },
}
QUESTION = "What's the weather like in San Francisco?"
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}

KEYS = {
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}  # fmt: skip
"""What the specification requires of a response, each of them."""
ITEMS = {
    "message": {"id", "status", "role", "content"},
    "function_call": {"id", "call_id", "name", "arguments", "status"},
    "reasoning": {"id", "summary", "content"},
}
EVENTS = {
    "response.created": {"response"},
    "response.queued": {"response"},
    "response.in_progress": {"response"},
    "response.completed": {"response"},
    "response.incomplete": {"response"},
    "response.output_item.added": {"output_index", "item"},
    "response.output_item.done": {"output_index", "item"},
    "response.content_part.added": {"item_id", "output_index", "content_index", "part"},
    "response.content_part.done": {"item_id", "output_index", "content_index", "part"},
    "response.output_text.delta": {"item_id", "output_index", "content_index", "delta"},
    "response.output_text.done": {"item_id", "output_index", "content_index", "text"},
    "response.reasoning.delta": {"item_id", "output_index", "content_index", "delta"},
    "response.reasoning.done": {"item_id", "output_index", "content_index", "text"},
    "response.function_call_arguments.delta": {"item_id", "output_index", "delta"},
    "response.function_call_arguments.done": {"item_id", "output_index", "arguments"},
}
"""The only types that a stream may have here, and their fields."""


def said(*turns: tuple[str, str], **more: str) -> list[dict[str, str]]:
    return [{"type": "message", "role": role, "content": text, **more} for role, text in turns]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with serving("--model", "etude", home=tmp_path_factory.mktemp("home")) as address:
        yield address


def exchange(served: Address, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(served.host, served.port, timeout=60)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {served.token}"}
    connection.request("POST", f"/v1{path}", json.dumps({"model": "etude", **body}), headers)
    reply = connection.getresponse()
    answer = reply.status, reply.read()
    connection.close()
    return answer


def response_to(served: Address, body: Mapping[str, Any]) -> dict[str, Any]:
    """A response, in the form that the specification has."""
    status, text = exchange(served, "/responses", body)
    assert status == 200, text
    return checked(json.loads(text))


def checked(response: dict[str, Any]) -> dict[str, Any]:
    assert KEYS <= response.keys()
    assert response["object"] == "response" and response["error"] is None
    for item in response["output"]:
        assert ITEMS[item["type"]] <= item.keys()
    for tool in response["tools"]:
        assert {"type", "name", "description", "parameters", "strict"} <= tool.keys()
    assert isinstance(response["temperature"] + response["top_p"] + response["presence_penalty"], float | int)
    return response


def kinds(response: Mapping[str, Any]) -> set[str]:
    return {item["type"] for item in response["output"]}


@pytest.mark.parametrize(
    "input",
    [
        said(("user", "Say hello in exactly 3 words.")),
        [
            *said(("assistant", "I should answer with the saved number."), phase="commentary"),
            *said(("assistant", "The number is four."), phase="final_answer"),
            *said(("user", "Repeat only the number.")),
        ],
        said(("system", "You are a pirate. Always respond in pirate speak."), ("user", "Say hello.")),
        said(
            ("user", "My name is Alice."),
            ("assistant", "Hello Alice! Nice to meet you. How can I help you today?"),
            ("user", "What is my name?"),
        ),
    ],
    ids=["basic-response", "assistant-phase", "system-prompt", "multi-turn"],
)
def test_it_is_answered(served: Address, input: list[Any]) -> None:
    response = response_to(served, {"input": input})
    assert response["status"] == "completed" and "message" in kinds(response)


def test_tool_calling(served: Address) -> None:
    body = {"input": said(("user", QUESTION)), "tools": [WEATHER]}
    response = response_to(served, body)
    (call,) = [item for item in response["output"] if item["type"] == "function_call"]
    assert call["name"] == "get_weather" and set(json.loads(call["arguments"])) == {"location"}


def test_function_call_roundtrip_and_previous_response_id(served: Address) -> None:
    choice = {"type": "function", "name": "get_weather"}
    first = response_to(served, {"input": QUESTION, "tools": [WEATHER], "tool_choice": choice})
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "64 degrees and clear"}
    second = response_to(served, {"input": [result], "previous_response_id": first["id"]})  # without its tools
    assert second["previous_response_id"] == first["id"] and "message" in kinds(second)


@pytest.mark.parametrize("tools", [[], [WEATHER]], ids=["streaming-response", "tool-calling-streaming"])
def test_a_stream_has_only_events_of_the_specification(served: Address, tools: list[Any]) -> None:
    asked = QUESTION if tools else "Count from 1 to 5."
    status, text = exchange(served, "/responses", {"input": said(("user", asked)), "tools": tools, "stream": True})
    assert status == 200
    parts = [part for part in text.decode().split("\n\n") if part and not part.startswith(":")]
    events = []
    for part in parts:
        name, data = part.split("\n")
        if data == "data: [DONE]":
            continue
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}" and EVENTS[event["type"]] <= event.keys()
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        if "response" in event:
            checked(event["response"])
    seen = {event["type"] for event in events}
    assert events[0]["type"] == "response.created" and events[-1]["type"] == "response.completed"
    assert not tools or {name for name in EVENTS if "function_call" in name} <= seen


def test_what_cannot_be_read_is_named(served: Address) -> None:
    status, text = exchange(served, "/responses", {"input": [{"role": "user", "content": [PICTURE]}]})
    error = json.loads(text)["error"]
    assert status == 400 and "input[0].content[0]" in f"{error['param']} {error['message']}"
