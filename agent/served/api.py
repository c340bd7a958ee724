"""The two APIs of OpenAI's that servers speak: what is sent for a step, and how the stream that answers is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Literal

from ossia.agent.engine.remote.server import first, seed_of, table, whole
from ossia.agent.request import Request
from ossia.agent.served.wire import Called, Conversation, Ended, Failed, Json, Piece, Reasoning, Said, Usage

Kind = Literal["responses", "chat"]

DONE: Final[Json] = {"object": "[DONE]"}
"""The event that stands for the end of a stream."""

_WHOLE: Final = ("stop", "completed", "tool_calls", "tool_use", "function_call", "eos", "eos_token", "stop_sequence",
                 "end_turn")  # fmt: skip
_AT_LIMIT: Final = ("length", "max_tokens", "max_output_tokens", "model_length")
"""The ends of answers, in the words of several servers. Other reasons, as `content_filter`, leave it incomplete."""


class ChatApi:
    """Chat Completions. https://platform.openai.com/docs/api-reference/chat-streaming has the events.

    The reasoning text, which OpenAI's own servers don't give, is `reasoning` with Ollama, LM Studio, vLLM and Hugging
    Face's router, and `reasoning_content` with llama.cpp, transformers and older ones
    (https://cookbook.openai.com/articles/gpt-oss/handle-raw-cot).
    """

    kind: Kind = "chat"
    title = "Chat Completions"
    path = "/v1/chat/completions"
    _NAMES: Final = ("reasoning", "reasoning_content")

    def __init__(self) -> None:
        self._reasoning = self._NAMES[0]

    def body(self, request: Request, said: Conversation, model: str) -> Json:
        """The body to post to `path`."""
        system = [{"role": "system", "content": said.instructions}] if said.instructions else []
        body = _common(request, model, said) | {
            "messages": [*system, *map(self._message, said.messages)],
            "stream_options": {"include_usage": True},
            "reasoning_effort": _effort(request),
        }
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        if said.functions:
            body["tools"] = [{"type": "function", "function": function} for function in said.functions]
            body["parallel_tool_calls"] = False
        if answer := request.response_format:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": answer.name, "schema": answer.schema, "strict": True},
            }
        return body

    def read(self, events: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
        """The pieces in a stream of events."""
        return _whole(self._pieces(events))

    def _pieces(self, events: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
        call, ended = "", False
        for event in events:
            if event is DONE and not ended:
                yield Ended("stop")
            if usage := table(event.get("usage")):
                yield _usage(usage, "prompt_tokens", "completion_tokens")
            choice = first(event.get("choices"))
            delta = table(choice.get("delta")) or table(choice.get("message"))  # the latter where nothing is streamed
            for name in self._NAMES:
                if reasoning := _raw(delta.get(name)):
                    self._reasoning = name
                    yield Reasoning(reasoning)
                    break
            if text := _raw(delta.get("content")):
                yield Said(text)
            for item in map(table, _list(delta.get("tool_calls"))):
                call = str(item.get("index") if item.get("index") is not None else call or 0)
                yield _called(call, table(item.get("function")))
            if old := table(delta.get("function_call")):  # what tool_calls were called until 2023
                yield _called("0", old)
            if how := choice.get("finish_reason"):
                ended = True
                yield _end(str(how))
            if why := _text(event.get("error")):  # transformers serve's; the client raises one that is an object
                yield Failed(why)

    def _message(self, message: Json) -> Json:
        message = dict(message)
        if reasoning := message.pop("thinking", None):
            message[self._reasoning] = reasoning
        return message


class ResponsesApi:
    """Responses. https://platform.openai.com/docs/api-reference/responses-streaming has the events.

    gpt-oss's own reasoning is the `content` of reasoning items; Ollama gives it as their summary, and takes it
    back as `encrypted_content`, which it doesn't encrypt. No response is stored, and none is referred to.
    """

    kind: Kind = "responses"
    title = "Responses API"
    path = "/v1/responses"

    def __init__(self) -> None:
        self._as_encrypted = False

    def body(self, request: Request, said: Conversation, model: str) -> Json:
        body = _common(request, model, said) | {
            "input": [item for n, message in enumerate(said.messages) for item in self._items(message, n)],
            "reasoning": {"effort": _effort(request)},
            "store": False,
        }
        if said.instructions:
            body["instructions"] = said.instructions
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        if said.functions:
            body["tools"] = [{"type": "function", "strict": False, **function} for function in said.functions]
            body["parallel_tool_calls"] = False
        if answer := request.response_format:
            form = {"type": "json_schema", "name": answer.name, "schema": answer.schema, "strict": True}
            body["text"] = {"format": form}
        return body

    def read(self, events: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
        return _whole(self._pieces(events))

    def _pieces(self, events: Iterable[Mapping[str, Any]]) -> Iterator[Piece]:
        begun: dict[str, str] = {}  # items that had deltas, by which kind
        for event in events:
            kind, item = _text(event.get("type")), table(event.get("item"))
            delta = _raw(event.get("delta"))
            # The item's number; llama.cpp doesn't number them.
            key = str(event.get("output_index", "")) or _text(item.get("id")) or _text(event.get("item_id"))
            match kind:
                case (
                    "response.reasoning_text.delta"
                    | "response.reasoning.delta"  # Open Responses' name for it
                    | "response.reasoning_summary_text.delta"
                ) if delta:
                    if begun.setdefault(key, kind) == kind:  # reasoning and a summary of it: the first that came
                        yield Reasoning(delta)
                case "response.output_text.delta" | "response.refusal.delta" if delta:
                    begun[key] = kind
                    yield Said(delta)
                case "response.function_call_arguments.delta" if delta:
                    begun[key] = kind
                    yield Called(key, text=delta)
                case "response.output_item.added" if item.get("type") == "function_call":
                    yield Called(key, _text(item.get("name")))
                case "response.output_item.done":
                    yield from self._done(item, key, begun)
                case "response.completed" | "response.incomplete":
                    response = table(event.get("response"))
                    if usage := table(response.get("usage")):
                        yield _usage(usage, "input_tokens", "output_tokens")
                    status = _text(response.get("status")) if kind == "response.completed" else "incomplete"
                    if status == "incomplete":
                        status = _text(table(response.get("incomplete_details")).get("reason")) or "max_output_tokens"
                    yield Ended("stop") if status in ("", "in_progress") else _end(status)
                    return
                case _ if event is DONE:
                    yield Ended("stop")
                case "response.failed" | "error":
                    fault = table(table(event.get("response")).get("error")) or event
                    yield Failed(_text(fault.get("message")))

    def _done(self, item: Mapping[str, Any], key: str, begun: Mapping[str, str]) -> Iterator[Piece]:
        """The pieces of a finished item: a call without deltas. Notes the form in which reasoning goes back."""
        if item.get("type") == "reasoning":
            self._as_encrypted = bool(item.get("encrypted_content")) and any(
                table(part).get("text") == item["encrypted_content"] for part in _list(item.get("summary"))
            )
        elif item.get("type") == "function_call" and key not in begun:
            yield Called(key, text=_arguments(item.get("arguments")))

    def _items(self, message: Json, number: int) -> Iterator[Json]:
        if message["role"] == "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            return
        if reasoning := message.get("thinking"):
            content = [{"type": "reasoning_text", "text": reasoning}]
            encrypted = {"encrypted_content": reasoning} if self._as_encrypted else {}
            yield {"type": "reasoning", "id": f"rs_{number}", "summary": [], "content": content, **encrypted}
        if message["content"]:
            yield {"type": "message", "role": message["role"], "content": message["content"]}
        for call in message.get("tool_calls", ()):
            yield {"type": "function_call", "call_id": call["id"], **call["function"]}


Api = ChatApi | ResponsesApi
"""One of the two. It remembers what this server calls the reasoning text, to send it back under that name."""


def call_refused(error: Mapping[str, Any]) -> tuple[Called, ...] | None:
    """The call that a server refused to pass on: Groq one that its schema doesn't allow, Ollama one that isn't JSON.

    Empty if what the model wrote can't be read as a call; None if the error is another one. The tool answers it.
    """
    if error.get("code") != "tool_use_failed":
        return () if _text(error.get("message")).startswith("error parsing tool call") else None
    value: object = error.get("failed_generation")
    with suppress(ValueError, RecursionError):
        value = json.loads(value) if isinstance(value, str) else value
    values = value if isinstance(value, list) else [value]
    calls = (_called("", {**table(one), **table(table(one).get("function"))}) for one in values[:1])
    return tuple(call for call in calls if call.name)


def _end(how: str) -> Ended | Failed:
    how = how.lower()
    if how in _WHOLE:
        return Ended("stop")
    return Ended("tokens") if how in _AT_LIMIT else Failed(f"it ended the answer by {how}")


def _called(key: str, function: Mapping[str, Any]) -> Called:
    arguments = function.get("arguments", function.get("parameters"))
    return Called(key, _text(function.get("name")), _arguments(arguments))


def _arguments(value: object) -> str:
    """A call's arguments as text, also where a server sends the object itself."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else _raw(value)


def _whole(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, a surrogate pair that was split between two of them joined; half a pair becomes `?`."""
    half: Reasoning | Said | Called | None = None
    for piece in pieces:
        if not isinstance(piece, Reasoning | Said | Called):
            yield piece
            continue
        text = piece.text
        if half is not None and type(half) is type(piece) and text:  # the rest, or the proof that nothing is missing
            text, half = half.text + text, None
        elif half is not None and (text or type(half) is not type(piece)):
            yield replace(half, text="?")
            half = None
        if text and "\ud800" <= text[-1] < "\udc00":
            half, text = replace(piece, text=text[-1]), text[:-1]
        if text or isinstance(piece, Called):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            yield replace(piece, text=_text(text))
    if half is not None:
        yield replace(half, text="?")


def _common(request: Request, model: str, said: Conversation) -> Json:
    """The fields of both APIs. `top_k`, `min_p` and `seed` aren't in both: they are sent only if they are set."""
    sampling = request.sampling
    body: Json = {"model": model, "stream": True, "top_p": sampling.top_p}
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_k:
        body["top_k"] = sampling.top_k
    if sampling.min_p:
        body["min_p"] = sampling.min_p
    if (seed := seed_of(sampling, salt=len(said.messages))) is not None:
        body["seed"] = seed
    return body


def _effort(request: Request) -> str:
    """A step that must be the answer thinks little: nothing else keeps the server's model from thinking again."""
    return "low" if request.open_with else request.effort


def _usage(usage: Mapping[str, Any], prompt: str, completion: str) -> Usage:
    cached = table(usage.get(f"{prompt}_details")).get("cached_tokens")
    tokens = _number(usage.get(prompt))
    held = None if cached is None else min(_number(cached), tokens)
    return Usage(tokens, held, _number(usage.get(completion)))



def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _raw(value: object) -> str:
    """A text that may begin or end with half a surrogate pair."""
    return value if isinstance(value, str) else ""


def _text(value: object) -> str:
    """A text that can be stored: half a surrogate pair, which JSON can spell, becomes `?`."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _number(value: object) -> int:
    """A number of tokens; 0 for what can't be one."""
    return whole(value) or 0
