"""OpenAI's own library takes what we send: its types fit, strictly, and its streams add up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel, ValidationError

from ossia.agent.serving import chat_in, responses_in
from ossia.agent.serving.chat_out import ChatWriter
from ossia.agent.serving.responses_out import ResponsesWriter
from ossia.agent.stream import events as stream
from tests.agent.serving.test_responses_out import (
    DONE,
    FINAL,
    FUNCTION,
    PREAMBLE,
    RUN,
    SEARCH,
    THOUGHT,
    WEATHER,
    call,
    ran,
)
from tests.support.published import published

TOOL: Any = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}
TOOLS: list[Any] = [TOOL, {"type": "shell", "environment": {"type": "container_auto"}}]
_TYPES = {get_args(one.model_fields["type"].annotation)[0]: one for one in get_args(get_args(ResponseStreamEvent)[0])}

Connect = Callable[[list[stream.Event]], openai.OpenAI]


@pytest.fixture(name="connect")
def _connect() -> Connect:
    """Gives clients of a server that answers with these events; it checks all that it sends."""

    def connect(events: list[stream.Event]) -> openai.OpenAI:
        transport = httpx2.MockTransport(lambda request: _answered(request, events))
        http = httpx2.Client(transport=transport)
        return openai.OpenAI(api_key="x", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0)

    return connect


def _answered(request: httpx2.Request, events: list[stream.Event]) -> httpx2.Response:
    chat = request.url.path.endswith("/chat/completions")
    asked = (chat_in if chat else responses_in).asked_of(json.loads(request.content))
    writer = (
        ChatWriter(asked, id="chatcmpl-1", created=7, model="etude")
        if chat
        else ResponsesWriter(asked, id="resp_1", mark="1", created_at=7, model="etude")
    )
    sent = [one for event in events for one in writer.see(event)]
    for one in sent:
        if "error" not in one and not one.get("type", "").startswith("response.reasoning."):  # Open Responses' own
            (ChatCompletionChunk if chat else _TYPES[one["type"]]).model_validate(one)
    if asked.stream:
        lines = "".join(f"data: {json.dumps(one)}\n\n" for one in sent) + "data: [DONE]\n\n"
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=lines.encode())
    whole = writer.completion() if isinstance(writer, ChatWriter) else writer.response()
    (ChatCompletion if chat else _TYPES["response.completed"].model_fields["response"].annotation).model_validate(whole)
    return httpx2.Response(200, json=whole)


@pytest.mark.parametrize("kind", ["call", "hosted"])
def test_a_stream_adds_up_to_the_response(connect: Connect, tmp_path: Path, kind: str) -> None:
    events = [*ran(SEARCH, "done", "L0"), *ran(RUN, "failed", "no"), stream.Text("Done."), DONE]
    if kind == "call":
        events = published(tmp_path, THOUGHT + PREAMBLE + call("get_weather", '{"city": "Oslo"}'), extra=(FUNCTION,))
    client = connect(events)
    with client.responses.stream(model="etude", input="Hi", tools=TOOLS) as streamed:
        streamed.until_done()
    response = streamed.get_final_response()
    whole = client.responses.create(model="etude", input="Hi", tools=TOOLS)
    assert (response.output_text, response.usage) == (whole.output_text, whole.usage)
    assert [(item.type, item.id) for item in response.output] == [(item.type, item.id) for item in whole.output]
    assert [item.type for item in whole.output] == (
        ["reasoning", "message", "function_call"] if kind == "call" else
        ["web_search_call", "shell_call", "shell_call_output", "message"]
    )  # fmt: skip


def test_chunks_add_up_to_the_completion(connect: Connect, tmp_path: Path) -> None:
    client = connect(published(tmp_path, THOUGHT + FINAL))
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    with client.chat.completions.stream(
        model="etude", messages=messages, stream_options={"include_usage": True}
    ) as streamed:
        completion = streamed.get_final_completion()
    whole = client.chat.completions.create(model="etude", messages=messages)
    assert completion.choices[0].message.content == whole.choices[0].message.content == "It rains."
    assert completion.usage == whole.usage and whole.choices[0].finish_reason == "stop"


class _City(BaseModel):
    city: str


def test_an_answer_is_parsed_and_a_failure_is_raised(connect: Connect) -> None:
    client = connect([stream.Text('{"city": "Oslo"}'), stream.Result("answered", '{"city": "Oslo"}')])
    assert client.responses.parse(model="etude", input="Hi", text_format=_City).output_parsed == _City(city="Oslo")
    client = connect([stream.Text("It"), stream.Result("error", error="the engine broke")])
    with pytest.raises(openai.APIError, match="the engine broke"), client.responses.stream(
        model="etude", input="Hi"
    ) as streamed:
        streamed.until_done()
    assert client.responses.create(model="etude", input="Hi").status == "failed"
    with pytest.raises(openai.APIError, match="the engine broke"):
        list(client.chat.completions.create(model="etude", messages=[{"role": "user", "content": "Hi"}], stream=True))


def test_a_full_context_has_the_code_that_codex_reads(connect: Connect) -> None:
    """OpenAI's types don't have it, its servers do."""
    full = stream.Result("context", error="the prompt has 9 tokens")
    with pytest.raises(ValidationError, match="context_length_exceeded"):
        connect([full]).responses.create(model="etude", input="Hi")
