"""What a wrong completion of the étude is counted as."""

from __future__ import annotations

import json

import pytest

from ossia.harmony.messages import Message
from tests.etude.exam.failures import FAILURES, failure

pytestmark = pytest.mark.own_job

PROMPT = (
    "namespace functions {\n\n// Gets it.\ntype f = (_: {\na: string,\n}) => any;\n\ntype g = (_: {\n}) => any;\n\n}"
)


def _call(arguments: object, name: str = "functions.f") -> Message:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Message("assistant", (text,), channel="commentary", recipient=name)


def _final(text: str) -> Message:
    return Message("assistant", (text,), channel="final")


def _code(text: str) -> Message:
    return _call(text, "python")


def _runs(command: str) -> Message:
    return _call({"command": ["bash", "-lc", command]}, "container.exec")


@pytest.mark.parametrize(
    ("wanted", "got", "told"),
    [
        (_final("Yes."), None, "malformed"),
        (_final("Yes."), _final("Yes."), ""),
        (_call({"a": 1}), _final("I can't."), "answers instead of calling"),
        (_final("I can't."), _call({"a": 1}), "calls instead of answering"),
        (_call({"a": 1}), _code("print(1)"), "another tool"),
        (_call({"query": "x"}, "browser.search"), _call({"query": "x"}, "browser.find"), "another tool"),
        (_call({"a": 1}), _call({"a": 1}, "functions.g"), "another function"),
        (_call({"a": 1}), _call({"a": 1}, "functions.ff"), "no such function"),
        (_call({"a": 1}), _call({"b": 1}), "argument names"),
        (_call({"a": 1}), _call({"a": 1, "b": 2}), "argument names"),
        (_call({"a": 1, "b": 2}), _call({"b": 2, "a": 1}), ""),
        (_call({"a": "York"}), _call({"a": "New York"}), "argument begins too early"),
        (_call({"a": "New York"}), _call({"a": "York"}), "argument begins too late"),
        (_call({"b": 1, "a": "New York"}), _call({"b": 1, "a": "New"}), "argument ends too early"),
        (_call({"a": "New York"}), _call({"a": ""}), "argument ends too early"),
        (_call({"a": 48}), _call({"a": 481}), "argument ends too late"),
        (_call({"a": 48}), _call({"a": "48"}), "argument is another"),
        (_call({"a": True}), _call({"a": 1}), "argument is another"),
        (_call({"a": [0]}), _call({"a": [False]}), "argument is another"),
        (_call({"a": 2}), _call({"a": 2.0}), "argument ends too late"),
        (_call({"a": 2}), _call('{"a":1,"a":2}'), "argument is another"),
        (_call({"a": "Rome"}), _call({"a": "Oslo"}), "argument is another"),
        (_call({"a": ["x", "yz"]}), _call({"a": ["x", "y"]}), "argument ends too early"),
        (_call({"a": ["x"]}), _call({"a": ["x", "y"]}), "argument is another"),
        (_runs("make test"), _runs("make"), "argument ends too early"),
        (_code("print(48*17)"), _code("print(48*1)"), "argument ends too early"),
        (_code("print(round(1 / 8, 4))"), _code("print(round(1 / 83, 4))"), "argument ends too late"),
        (_code("print(48*17)"), _code("print(49*17)"), "argument is another"),
        (_final("The result is 81."), _final("The result is 8."), "answer ends too early"),
        (_final("The result is 81."), _final("The result is 816."), "answer ends too late"),
        (_final("blue harbor"), _final("say blue harbor"), "answer begins too early"),
        (_final("blue harbor"), _final("harbor"), "answer begins too late"),
        (_final("blue harbor."), _final("blue harbor!"), "answer is another"),
        (_final('{"name":"Ada"}'), _final('{"name":"Adam"}'), "answer ends too late"),
        (_final('{"name":"Ada"}'), _final('{"who":"Ada"}'), "answer's keys"),
        (_final('{"name":"Ada"}'), _final('{"name": "Ada"}'), ""),
        (_final('{"name":"Ada"}'), _final("Ada"), "answer is another"),
        (_final('{"name":"Ada"}'), _final('{"name":"Ada","name":"Ada"}'), "answer is another"),
    ],
)
def test_what_it_is(wanted: Message, got: Message | None, told: str) -> None:
    thought = Message("assistant", ("Use it.",), channel="analysis")
    assert failure(PROMPT, (thought, wanted), (got,) if got else None) == told
    assert told in ("", *FAILURES)
