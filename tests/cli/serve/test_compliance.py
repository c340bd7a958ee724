"""The requests of Open Responses' compliance test, to a real `ossia serve` with the built-in model."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.open_responses import follow, require
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

TYPES = {
    *(f"response.{one}" for one in ("created", "queued", "in_progress", "completed", "failed", "incomplete")),
    *(f"response.{one}.{end}" for one in ("output_item", "content_part") for end in ("added", "done")),
    *(f"response.{one}.{end}" for one in ("output_text", "refusal", "reasoning", "function_call_arguments")
      for end in ("delta", "done")),
}  # fmt: skip
"""Those of the specification that a stream may have here: its test refuses any other."""


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
    response: dict[str, Any] = json.loads(text)
    require(response, "response")
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
    *events, done, rest = [part for part in text.decode().split("\n\n") if not part.startswith(":")]
    assert (done, rest) == ("data: [DONE]", "")
    named = [event.split("\n") for event in events]
    sent = [json.loads(data.removeprefix("data: ")) for _, data in named]
    assert [name for name, _ in named] == [f"event: {event['type']}" for event in sent]
    assert kinds(follow(sent)) >= ({"function_call"} if tools else {"message"})
    assert {event["type"] for event in sent} <= TYPES


def test_what_cannot_be_read_is_named(served: Address) -> None:
    status, text = exchange(served, "/responses", {"input": [{"role": "user", "content": [PICTURE]}]})
    error = json.loads(text)["error"]
    assert status == 400 and "input[0].content[0]" in f"{error['param']} {error['message']}"
