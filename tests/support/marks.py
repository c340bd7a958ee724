"""Requests whose answers carry a number of their own, and the reading of it in the answers."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from typing import Any

_YEAR = {
    "type": "object",
    "properties": {"year": {"type": "integer", "minimum": 1000, "maximum": 9999}},
    "required": ["year"],
    "additionalProperties": False,
}
_LEVEL = {
    "type": "object",
    "properties": {"room": {"type": "string"}, "level": {"type": "integer"}},
    "required": ["room", "level"],
    "additionalProperties": False,
}
_HOW = "Set a lamp to a level."
_PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}


def request_for(mark: int, api: str, form: str) -> tuple[str, dict[str, Any]]:
    """Path and body of a request to étude whose answer has the mark: in a `"text"`, in `"json"`, in a `"call"`."""
    asked = {
        "text": f"Say: {mark}",
        "json": f"Ada was born in {mark}",
        "call": f"Call set_lamp with room kitchen and level {mark}",
    }[form]
    if api == "responses":
        schema = {"type": "json_schema", "name": "year", "schema": _YEAR, "strict": True}
        tool = {"type": "function", "name": "set_lamp", "description": _HOW, "parameters": _LEVEL}
        body: dict[str, Any] = {"input": asked, "max_output_tokens": 400}
        more: dict[str, dict[str, Any]] = {"json": {"text": {"format": schema}}, "call": {"tools": [tool]}}
    else:
        schema = {"type": "json_schema", "json_schema": {"name": "year", "schema": _YEAR, "strict": True}}
        tool = {"type": "function", "function": {"name": "set_lamp", "description": _HOW, "parameters": _LEVEL}}
        body = {"messages": [{"role": "user", "content": asked}], "max_completion_tokens": 400}
        more = {"json": {"response_format": schema}, "call": {"tools": [tool]}}
    return _PATHS[api], {"model": "etude", "temperature": 0, **body, **more.get(form, {})}


class Mark:
    """A number that no other request under way has: 1000 to 9999."""

    def __init__(self, draw: random.Random, lock: threading.Lock, open_marks: set[int]) -> None:
        self._draw, self._lock, self._open = draw, lock, open_marks

    def __enter__(self) -> int:
        with self._lock:
            self._mark = next(mark for mark in iter(self._number, None) if mark not in self._open)
            self._open.add(self._mark)
        return self._mark

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._open.remove(self._mark)

    def _number(self) -> int:
        return self._draw.randrange(1000, 10_000)


def numbers_of(answer: Mapping[str, Any]) -> list[int]:
    """The numbers of an answer: of its text, and of its calls' arguments."""
    if answer["object"] == "response":
        texts = [one["arguments"] for one in answer["output"] if one["type"] == "function_call"]
        texts += [part["text"] for one in answer["output"] if one["type"] == "message" for part in one["content"]]
    else:
        message = answer["choices"][0]["message"]
        texts = [one["function"]["arguments"] for one in message.get("tool_calls") or ()]
        texts.append(message.get("content") or "")
    return _numbers(texts)


def streamed_numbers(events: list[dict[str, Any]]) -> list[int]:
    """As `numbers_of`, of a stream, of its deltas alone. Raises ValueError for a stream without an end."""
    if events and events[0].get("object") == "chat.completion.chunk":
        choices = [one for event in events for one in event["choices"]]
        if not [one for one in choices if one.get("finish_reason")]:
            raise ValueError("the stream has no end")
        calls = [call for one in choices for call in one["delta"].get("tool_calls") or ()]
        texts = ["".join(one["delta"].get("content") or "" for one in choices)]
        return _numbers([*texts, "".join(call["function"].get("arguments") or "" for call in calls)])
    if not events or events[-1]["type"] not in ("response.completed", "response.incomplete"):
        raise ValueError(f"the stream has no end: {events[-1:]}")
    deltas = ("response.output_text.delta", "response.function_call_arguments.delta")
    values = _numbers(["".join(event["delta"] for event in events if event["type"] in deltas)])
    if values != numbers_of(events[-1]["response"]):
        raise ValueError("the deltas aren't the response")
    return values


def _numbers(texts: list[str]) -> list[int]:
    return [int(word) for text in texts for word in "".join(c if c.isdigit() else " " for c in text).split()]


def one_line(body: bytes) -> None:
    message = json.loads(body)["error"]["message"]
    if not message or "\n" in message:
        raise ValueError(f"not one line: {message!r}")
