"""A turn's events as other programs get them: in order, each call with one result, each question with its own id."""

from __future__ import annotations

import json
from pathlib import Path

from ossia.agent.events import Decision
from ossia.agent.sessions.session import Options
from ossia.agent.stream import events as stream
from ossia.harmony.messages import ResponseFormat
from ossia.tools.approval.rules import Rule
from tests.support.published import published

THOUGHT = "<|channel|>analysis<|message|>They want 42.<|end|><|start|>assistant"
PREAMBLE = "<|channel|>commentary<|message|>I double it.<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.double<|constrain|>json<|message|>{"n": 21}<|call|>'
DONE = "<|channel|>final<|message|>It is 42【9†L1】.<|return|>"


def without(events: list[stream.Event], *kinds: type) -> list[stream.Event]:
    return [event for event in events if not isinstance(event, (*kinds, stream.Usage, stream.Progress))]


def test_a_turn_with_a_call(tmp_path: Path) -> None:
    events = without(published(tmp_path, THOUGHT + PREAMBLE + CALL, DONE))
    texts = [(type(event), event.item) for event in events if isinstance(event, stream.Text | stream.Reasoning)]
    kinds = dict.fromkeys(texts)
    assert list(kinds) == [(stream.Reasoning, 0), (stream.Text, 1), (stream.Text, 3)]
    assert "".join(e.delta for e in events if isinstance(e, stream.Arguments)) == '{"n": 21}'
    said = [event for event in events if not isinstance(event, stream.Text | stream.Reasoning | stream.Arguments)]
    title = "double {'n': 21}"  # Double's own summary
    asked = said[1]
    assert isinstance(asked, stream.Approval)
    assert (asked.id, asked.call, asked.arguments, asked.title) == ("call_1/1", "call_1", {"n": 21}, title)
    assert said[0] == stream.ToolCall("functions.double", {"n": 21}, "call_1", title, "write")
    assert said[2] == stream.ApprovalDecided("call_1", True, "user", asked.reason, "call_1/1")
    assert said[3] == stream.ToolStarted("call_1", "functions.double", {"n": 21})
    assert said[4] == stream.ToolResult("call_1", "done", "42", title, ms=said[4].ms)  # type: ignore[union-attr]
    result = said[5]
    assert isinstance(result, stream.Result) and len(said) == 6
    streamed = "".join(event.delta for event in events if isinstance(event, stream.Text) and event.item == 3)
    assert result.text == streamed == "It is 42[1]."
    assert result.sources == (stream.Source(1, "", "", 1, 1, verified=False, places=((8, 11),)),)
    assert 0 < result.reasoning_tokens < result.usage.completion
    assert result.calls == (stream.Call("functions.double", {"n": 21}, "call_1", "done", "42"),)


def test_a_rule_decides_after_the_call_is_announced(tmp_path: Path) -> None:
    for action, status in (("allow", "done"), ("deny", "refused")):
        folder = tmp_path / action
        folder.mkdir()
        rule = Rule("functions.double", "allow" if action == "allow" else "deny")
        events = published(folder, CALL, DONE, rules=(rule,))
        kinds = [type(event) for event in without(events, stream.Text, stream.Arguments)]
        started = [stream.ToolStarted] if action == "allow" else []
        assert kinds == [stream.ToolCall, stream.ApprovalDecided, *started, stream.ToolResult, stream.Result]
        assert next(event.status for event in events if isinstance(event, stream.ToolResult)) == status


def test_each_question_has_an_id_of_its_own(tmp_path: Path) -> None:
    changes = iter(['{"n": 4}', None])

    def answer(call: str) -> Decision:
        return Decision(call, True, arguments=next(changes))

    events = published(tmp_path, CALL, CALL, DONE, answer=lambda call: Decision(call, False))
    assert [e.id for e in events if isinstance(e, stream.Approval)] == ["call_1/1"]  # the second isn't asked again
    assert [e.status for e in events if isinstance(e, stream.ToolResult)] == ["refused", "refused"]
    folder = tmp_path / "changed"
    folder.mkdir()
    events = published(folder, CALL, DONE, answer=answer)
    assert [e.id for e in events if isinstance(e, stream.Approval)] == ["call_1/1", "call_1/2"]
    assert [e.arguments for e in events if isinstance(e, stream.ToolCall | stream.ToolStarted)] == [{"n": 21}, {"n": 4}]


def test_an_answer_by_a_schema_is_data(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    options = Options(response_format=ResponseFormat("answer", schema))
    (*_, result) = published(tmp_path, '<|channel|>final<|message|>{"n": 42}<|return|>', options=options)
    assert isinstance(result, stream.Result) and (result.text, result.data) == ('{"n": 42}', {"n": 42})
    folder = tmp_path / "misfit"
    folder.mkdir()
    (*_, result) = published(folder, '<|channel|>final<|message|>{"m": 42}<|return|>', options=options)
    assert isinstance(result, stream.Result) and (result.text, result.data) == (None, None)
    assert result.error == "'n' is a required property (at $)"


def test_a_line_of_json_holds_all_fields() -> None:
    line = json.loads(json.dumps(stream.to_json(stream.ToolOutput("call_1", "816\n"), 2)))
    assert line == {"v": 1, "type": "tool_output", "turn": 2, "id": "call_1", "delta": "816\n", "stream": "stdout"}
    assert len(set(stream.TYPES.values())) == len(stream.TYPES)
