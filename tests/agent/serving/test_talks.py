"""Requests become turns of a conversation, in which every message stands as it was sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ossia.agent.serving.asked import Asked, BadRequest, Function, Item
from ossia.harmony.messages import COMMENTARY, FINAL, Message, ResponseFormat
from ossia.tools.functions.returned import ReturnedFunction
from tests.support import serving as script
from tests.support.serving import serving

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}}
ADD = Function("add", ReturnedFunction.of("add", "Adds.", SCHEMA).spec)
DOUBLE = Function("double", ReturnedFunction.of("double", "Doubles.", SCHEMA).spec)


def _user(text: str) -> Item:
    return Item(Message("user", (text,)))


def _said(text: str) -> Item:
    return Item(Message("assistant", (text,), channel=FINAL))


def _call(call_id: str, arguments: str) -> Item:
    message = Message("assistant", (arguments,), recipient="functions.add", channel=COMMENTARY)
    return Item(message, call_id=call_id)


def _result(call_id: str, text: str) -> Item:
    return Item(Message("tool", (text,)), call_id=call_id, where="input[2].call_id")


def _asked(*items: Item, **rest: Any) -> Asked:
    return Asked("responses", None, items, **rest)


def test_a_conversation_goes_on_by_the_id_of_a_response(tmp_path: Path) -> None:
    with serving(tmp_path, script.FINAL.format("Hello!"), script.FINAL.format("Bye.")) as served:
        begun, result = served.answer(_asked(_user("Hi")))
        assert (result.end, result.text) == ("answered", "Hello!")
        _, result = served.answer(_asked(_user("Go"), previous=begun.id))
        assert result.text == "Bye."
        hi, hello, go = (served.text().index(text) for text in ("Hi<|end|>", "Hello!<|end|>", "Go<|end|>"))
        assert hi < hello < go
        with pytest.raises(BadRequest, match="previous_response_id"):
            served.answer(_asked(_user("Go"), previous="resp_0"))


def test_a_call_of_the_clients_goes_on_with_its_reasoning(tmp_path: Path) -> None:
    """Although the client gives back neither the reasoning nor an id of the response."""
    call = script.CALL.format("They want a sum.", "functions.add", '{"a":1}')
    with serving(tmp_path, call, script.FINAL.format("It is 1.")) as served:
        begun, result = served.answer(_asked(_user("Add 1"), functions=(ADD,)))
        (called,) = result.calls
        assert (result.end, called.status, called.arguments) == ("called", "returned", {"a": 1})
        assert called.id == f"call_{begun.mark}_1"
        items = _user("Add 1"), _call(called.id, '{"a": 1}'), _result(called.id, "1")
        _, result = served.answer(_asked(*items, functions=(ADD,)))
        assert result.text == "It is 1."
        assert "They want a sum.<|end|>" in served.text()
        assert '<|message|>{"a":1}<|call|>' in served.text()  # as it was sampled


@pytest.mark.parametrize("choice", ["required", "functions.add"])
def test_a_call_that_is_required(choice: str, tmp_path: Path) -> None:
    """Étude would answer a greeting without one."""
    with serving(tmp_path, etude=True) as served:
        _, result = served.answer(_asked(_user("Hello!"), functions=(ADD, DOUBLE), tool_choice=choice, seed=1))
        assert result.end == "called"
        assert choice == "required" or result.calls[0].name == choice


def test_a_clients_regular_expressions_hold_nobody_up(tmp_path: Path) -> None:
    """Python would match this one for years, also from a place where no schema stands."""
    evil = {"type": "object", "properties": {"a": {"$ref": "#/default"}}, "default": {"pattern": "^(a+)+$"}}
    words = f'{{"a": "{"a" * 40}!"}}'
    function = Function("f", ReturnedFunction.of("f", "", evil).spec)
    call = script.CALL.format("Hm.", "functions.f", words)
    with serving(tmp_path, call, script.FINAL.format("No."), script.FINAL.format(words)) as served:
        _, result = served.answer(_asked(_user("Go"), functions=(function,)))
        assert [(one.status, "does not match" in one.output) for one in result.calls] == [("failed", True)]
        _, result = served.answer(_asked(_user("Go"), answer=ResponseFormat("a", evil)))
        assert result.text is None and result.error is not None and "does not match" in result.error
