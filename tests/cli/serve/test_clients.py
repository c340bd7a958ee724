"""OpenAI's own library, pointed at a real `ossia serve` with the built-in model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.responses import FunctionToolParam, ResponseInputParam
from pydantic import BaseModel, Field

from tests.support.serve import Address, serving

ASKED = "Ada Lovelace was born in 1815"
CALLED = "Call set_lamp with room kitchen and level 40"
PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {
        "room": {"type": "string", "maxLength": 20},
        "level": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["room", "level"],
    "additionalProperties": False,
}
LAMP: FunctionToolParam = {
    "type": "function",
    "name": "set_lamp",
    "description": "Sets a lamp to a level from 0 to 100.",
    "parameters": PARAMETERS,
    "strict": True,
}
CHAT_LAMP: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "set_lamp", "description": "Sets a lamp to a level from 0 to 100.", "parameters": PARAMETERS},
}
DONE = "the lamp of the kitchen is at 40"


class Year(BaseModel):
    year: int = Field(ge=1000, le=2100)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with serving("--model", "etude", "--parallel", "2", home=tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture
def client(served: Address) -> Iterator[OpenAI]:
    with OpenAI(base_url=served.url, api_key=served.token, timeout=60, max_retries=0) as client:
        yield client


def test_a_response_and_its_stream_are_the_same(client: OpenAI) -> None:
    whole = client.responses.create(model="etude", input=ASKED, temperature=0)
    with client.responses.stream(model="etude", input=ASKED, temperature=0) as stream:
        events = list(stream)
        streamed = stream.get_final_response()
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    thought = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    (reasoning,) = (item.content for item in streamed.output if item.type == "reasoning")
    assert reasoning and thought == reasoning[0].text != ""
    assert whole.output_text == streamed.output_text == text != ""
    assert whole.status == streamed.status == "completed"
    assert whole.usage and streamed.usage and whole.usage.output_tokens == streamed.usage.output_tokens


def test_a_response_is_parsed_as_the_model_it_was_asked_for(client: OpenAI) -> None:
    response = client.responses.parse(model="etude", input=ASKED, text_format=Year)
    assert isinstance(response.output_parsed, Year)


@pytest.mark.parametrize("by_id", [True, False])
def test_a_loop_of_tools(client: OpenAI, by_id: bool) -> None:
    first = client.responses.create(model="etude", input=CALLED, tools=[LAMP], temperature=0)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("set_lamp", {"room": "kitchen", "level": 40})
    result: ResponseInputParam = [{"type": "function_call_output", "call_id": call.call_id, "output": DONE}]
    if by_id:
        again: dict[str, Any] = {"input": result, "previous_response_id": first.id}
    else:
        given = [item.model_dump(exclude_unset=True) for item in first.output]
        again = {"input": [{"role": "user", "content": CALLED}, *given, *result], "store": False}
    second = client.responses.create(model="etude", tools=[LAMP], temperature=0, **again)
    assert DONE in second.output_text
    assert second.usage and second.usage.input_tokens_details.cached_tokens >= 0


def test_a_streamed_call_is_put_together_from_its_parts(client: OpenAI) -> None:
    with client.responses.stream(model="etude", input=CALLED, tools=[LAMP], temperature=0) as stream:
        parts = "".join(event.delta for event in stream if event.type == "response.function_call_arguments.delta")
        (call,) = [item for item in stream.get_final_response().output if item.type == "function_call"]
    assert json.loads(parts) == json.loads(call.arguments) == {"room": "kitchen", "level": 40}


def test_a_tool_that_must_be_called_is_called(client: OpenAI) -> None:
    choice = {"type": "function", "name": "set_lamp"}
    response = client.responses.create(model="etude", input="Hello", tools=[LAMP], tool_choice=cast("Any", choice))
    assert [item.name for item in response.output if item.type == "function_call"] == ["set_lamp"]


def test_a_conversation_goes_on_by_its_id(client: OpenAI) -> None:
    first = client.responses.create(model="etude", input="My name is Alice.", temperature=0)
    second = client.responses.create(
        model="etude", input="What is my name?", previous_response_id=first.id, temperature=0
    )
    assert second.previous_response_id == first.id
    assert first.usage and second.usage and second.usage.input_tokens > first.usage.input_tokens


def test_a_chat_and_its_stream_are_the_same(client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": ASKED}]
    whole = client.chat.completions.create(model="etude", messages=messages, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model="etude", messages=messages, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert whole.choices[0].message.content == text != ""
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == ["stop"]
    assert whole.usage and chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_a_chat_is_parsed_as_the_model_it_was_asked_for(client: OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="etude", messages=[{"role": "user", "content": ASKED}], response_format=Year
    )
    assert isinstance(answer.choices[0].message.parsed, Year)


@pytest.mark.parametrize("own_ids", [False, True])
def test_a_loop_of_tools_in_a_chat(client: OpenAI, own_ids: bool) -> None:
    """Some clients, ossia among them, give calls ids of their own."""
    messages: list[Any] = [{"role": "user", "content": CALLED}]
    first = client.chat.completions.create(model="etude", messages=messages, tools=[CHAT_LAMP], temperature=0)
    assert first.choices[0].finish_reason == "tool_calls"
    (call,) = cast("list[Any]", first.choices[0].message.tool_calls)
    assert json.loads(call.function.arguments) == {"room": "kitchen", "level": 40}
    call_id = "call_1" if own_ids else call.id
    given = call.model_dump() | {"id": call_id}
    messages += [
        {"role": "assistant", "tool_calls": [given]},
        {"role": "tool", "tool_call_id": call_id, "content": DONE},
    ]
    second = client.chat.completions.create(model="etude", messages=messages, tools=[CHAT_LAMP], temperature=0)
    assert DONE in (second.choices[0].message.content or "")


def test_the_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["etude"]
    assert client.models.retrieve("etude").id == "etude"


def test_errors_are_the_library_s(client: OpenAI, served: Address) -> None:
    with pytest.raises(openai.AuthenticationError, match="token is wrong"):
        client.with_options(api_key="wrong").responses.create(model="etude", input="hi")
    with pytest.raises((openai.BadRequestError, openai.NotFoundError), match="gpt-5"):
        client.responses.create(model="gpt-5", input="hi")
    with pytest.raises((openai.BadRequestError, openai.NotFoundError), match="resp_none"):
        client.responses.create(model="etude", input="hi", previous_response_id="resp_none")
    image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="etude", input=image)
    assert "input[0].content[0]" in f"{caught.value.param} {caught.value}"


def test_a_client_that_leaves_costs_nothing(client: OpenAI) -> None:
    for _ in range(4):  # twice as many as there are lanes
        stream = client.responses.create(model="etude", input="Tell me a long story.", stream=True)
        next(iter(stream))
        stream.close()
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.001).responses.create(model="etude", input=ASKED)
    assert client.responses.parse(model="etude", input=ASKED, text_format=Year).output_parsed
