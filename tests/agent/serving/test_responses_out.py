"""A turn as the Responses API gives it: by the schema, in order, with one end, whatever the model and the tools do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.agent.errors import ContextFull
from ossia.agent.limits import Limits
from ossia.agent.serving.asked import Asked, Function, Hosted
from ossia.agent.serving.failures import failure_of
from ossia.agent.serving.response_items import unsealed
from ossia.agent.serving.responses_in import asked_of
from ossia.agent.serving.responses_out import ResponsesWriter
from ossia.agent.stream import events as stream
from ossia.tools.functions.returned import ReturnedFunction
from tests.support.open_responses import follow, require
from tests.support.published import published
from tests.support.turns import Double, Echo

Json = dict[str, Any]

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = ReturnedFunction.of("get_weather", "The weather.", WEATHER)
CUSTOM = ReturnedFunction.of("patch", "Patches.", {"type": "object", "properties": {"input": {"type": "string"}}})
FUNCTIONS = (Function("get_weather", FUNCTION.spec, namespace="sky"), Function("apply-patch", CUSTOM.spec, text=True))

NEXT = "<|start|>assistant"
THOUGHT = f"<|channel|>analysis<|message|>They want weather.<|end|>{NEXT}"
PREAMBLE = f"<|channel|>commentary<|message|>I look.<|end|>{NEXT}"
FINAL = "<|channel|>final<|message|>It rains.<|return|>"


def call(name: str, arguments: str) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


def asked(**raw: object) -> Asked:
    hosted: frozenset[Hosted] = frozenset({"shell"})
    return Asked("responses", "etude", (), functions=FUNCTIONS, hosted=hosted, raw={"model": "etude", **raw})


def written(events: Sequence[stream.Event], request: Asked | None = None) -> list[Json]:
    """What a client gets, as JSON."""
    writer = ResponsesWriter(request or asked(), id="resp_1", mark="1", created_at=7, model="etude", now=lambda: 9)
    sent = [one for event in events for one in writer.see(event)]
    sent = [json.loads(json.dumps(one)) for one in sent]
    assert writer.response() == sent[-1]["response"]
    return sent


def answered(folder: Path, *steps: str, request: Asked | None = None, limits: Limits | None = None) -> Json:
    """The response to a turn of these steps, after its stream was followed."""
    events = published(folder, *steps, extra=(FUNCTION, CUSTOM, Echo(), Double()), limits=limits)
    return follow(written(events, request))


def shape(response: Json) -> list[str]:
    return [f"{item['type']} {item['status']}" for item in response["output"]]


def test_an_answer_with_its_reasoning(tmp_path: Path) -> None:
    events = published(tmp_path, THOUGHT + FINAL)
    sent = written(events)
    response = follow(sent)
    reasoning, message = response["output"]
    assert reasoning == {
        "type": "reasoning", "id": "rs_1_0", "status": "completed", "summary": [],
        "content": [{"type": "reasoning_text", "text": "They want weather."}],
    }  # fmt: skip
    assert message == {
        "type": "message", "id": "msg_1_1", "role": "assistant", "status": "completed", "phase": "final_answer",
        "content": [{"type": "output_text", "text": "It rains.", "annotations": [], "logprobs": []}],
    }  # fmt: skip
    used = response["usage"]
    assert 0 < used["output_tokens_details"]["reasoning_tokens"] < used["output_tokens"]
    assert used["total_tokens"] == used["input_tokens"] + used["output_tokens"]
    assert (response["status"], response["created_at"], response["completed_at"]) == ("completed", 7, 9)
    kinds = list(dict.fromkeys(event["type"].removeprefix("response.") for event in sent))
    assert kinds == [
        "created", "in_progress", "output_item.added", "content_part.added", "reasoning.delta",
        "reasoning.done", "content_part.done", "output_item.done", "output_text.delta", "output_text.done",
        "completed",
    ]  # fmt: skip


def test_reasoning_in_the_forms_that_a_client_asks_for(tmp_path: Path) -> None:
    request = asked(reasoning={"effort": "low", "summary": "auto"}, include=["reasoning.encrypted_content"])
    reasoning = answered(tmp_path, THOUGHT + FINAL, request=request)["output"][0]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "They want weather."}]
    assert unsealed(reasoning["encrypted_content"]) == "They want weather."
    assert unsealed("gAAAAABpM0Yj") is None


def test_the_call_of_a_function_is_the_clients(tmp_path: Path) -> None:
    step = THOUGHT + PREAMBLE + call("get_weather", '{"city": "Zürich"}')
    sent = written(published(tmp_path, step, extra=(FUNCTION,)))
    response = follow(sent)
    assert shape(response) == ["reasoning completed", "message completed", "function_call completed"]
    assert response["output"][1]["phase"] == "commentary"
    made = response["output"][2]
    assert made == {
        "type": "function_call", "id": "fc_1_2", "call_id": "call_1", "name": "get_weather", "namespace": "sky",
        "arguments": '{"city": "Zürich"}', "status": "completed",
    }  # fmt: skip
    kinds = [event["type"] for event in sent if event.get("output_index") == 2]
    assert kinds == [
        "response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done",
        "response.output_item.done",
    ]  # fmt: skip


def test_a_call_that_the_model_writes_again_is_one_item(tmp_path: Path) -> None:
    wrong = [call("get_weather", '{"town": "Oslo"}'), call("nothing", "{}"), call("get_weather", "[7]")]
    response = answered(tmp_path, *wrong, call("get_weather", '{"city": "Oslo", "days": "2"}'))
    assert shape(response) == ["function_call completed"]
    assert json.loads(response["output"][0]["arguments"]) == {"city": "Oslo", "days": 2}


def test_a_custom_tool_gets_a_bare_text(tmp_path: Path) -> None:
    response = answered(tmp_path, call("patch", json.dumps({"input": "*** Begin\n"})))
    (item,) = response["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply-patch", "*** Begin\n")


def test_code_that_runs_here(tmp_path: Path) -> None:
    steps = ("<|channel|>analysis to=python code<|message|>1 + 1<|call|>", FINAL)
    response = answered(tmp_path, *steps, request=asked(include=["code_interpreter_call.outputs"]))
    assert response["output"][0] == {
        "type": "code_interpreter_call", "id": "ci_1_0", "status": "completed", "container_id": "ossia",
        "code": "1 + 1", "outputs": [{"type": "logs", "logs": "ran 1 + 1"}],
    }  # fmt: skip
    (tmp_path / "2").mkdir()
    assert answered(tmp_path / "2", *steps)["output"][0]["outputs"] is None


@pytest.mark.parametrize("at", range(1, 40, 3))
def test_an_answer_that_is_cut(tmp_path: Path, at: int) -> None:
    steps = (THOUGHT + PREAMBLE + call("get_weather", '{"city": "Oslo"}'),)
    response = answered(tmp_path, *steps, limits=Limits(max_tokens=at))
    if response["status"] != "completed":
        assert response["status"] == "incomplete" and response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert not any(item["type"] == "function_call" for item in response["output"])
        assert response["usage"]["output_tokens"] == at


def test_only_what_was_being_written_is_incomplete() -> None:
    cut, said = stream.Result("tokens"), [stream.Reasoning("Hm."), stream.Text("I look.", 1, preamble=True)]
    assert shape(follow(written([*said, cut]))) == ["reasoning completed", "message incomplete"]
    writing = stream.Arguments("functions.get_weather", '{"ci', 2)
    assert shape(follow(written([*said, writing, cut]))) == ["reasoning completed", "message completed"]


SEARCH = stream.ToolCall("browser.search", {"query": "capybaras"}, "call_1")
RUN = stream.ToolCall("container.exec", {"command": ["bash", "-lc", "make"]}, "call_2")
DONE = stream.Result("answered", "Done.", usage=stream.Usage(5, 3, 2, 4))


def ran(made: stream.ToolCall, status: stream.CallStatus, output: str) -> list[stream.Event]:
    started = stream.ToolStarted(made.id, made.name, made.arguments)
    return [made, started, stream.ToolOutput(made.id, output), stream.ToolResult(made.id, status, output, ms=3)]


def test_tools_that_run_here_have_items_that_no_client_runs_again() -> None:
    page = "[2] Capy (rodent) (http://a.test/capy)\n**viewing lines [0 - 2] of 2**\n\nL0: Hi"
    opened = stream.ToolCall("browser.open", {"id": 3}, "call_3")
    built = "<returncode>2</returncode>\n<output>\nno rule\n</output>\ncwd: /w"
    other = stream.ToolCall("functions.files__read", {"path": "a"}, "call_4")
    patch = stream.ToolCall("repo_browser.apply_patch", "*** Begin", "call_5")
    events = [*ran(SEARCH, "done", "L0: …"), *ran(opened, "done", page), *ran(RUN, "failed", built)]
    response = follow(
        written([*events, *ran(other, "done", "text"), *ran(patch, "failed", "no"), stream.Text("Done."), DONE])
    )
    search, page_, command, output, read, patched, _ = response["output"]
    assert (patched["status"], patched["arguments"]) == ("failed", '{"input": "*** Begin"}')
    assert patched["error"]["content"][0]["text"] == "no"
    assert search["action"] == {"type": "search", "query": "capybaras", "queries": ["capybaras"]}
    assert page_["action"] == {"type": "open_page", "url": "http://a.test/capy"}
    assert (command["type"], command["action"]) == ("shell_call", {"commands": ["make"]})
    outcome = {"type": "exit", "exit_code": 2}
    assert output["output"] == [{"stdout": "no rule", "stderr": "", "outcome": outcome}]
    assert command["call_id"] == output["call_id"] == "call_2"
    assert (read["type"], read["name"], read["arguments"], read["output"]) == (
        "mcp_call", "files__read", '{"path": "a"}', "text")  # fmt: skip


def test_a_client_that_asked_for_no_shell_gets_no_item_of_one() -> None:
    unasked = replace(asked(), hosted=frozenset())
    (item, _) = follow(written([*ran(RUN, "done", "hi"), stream.Text("Done."), DONE], unasked))["output"]
    assert (item["type"], item["name"], item["output"]) == ("mcp_call", "container.exec", "hi")


def test_a_refused_call_says_which_rule_would_allow_it() -> None:
    def refused(made: stream.ToolCall, **fields: Any) -> Json:
        question = stream.Approval(
            f"{made.id}/1", made.id, made.name, made.arguments, "", "", "", "it runs a command", **fields
        )
        decided = stream.ApprovalDecided(made.id, False, "user", "", question.id)
        end = stream.ToolResult(made.id, "refused", "This call needs approval")
        output: list[Json] = follow(written([made, question, decided, end, DONE]))["output"]
        return output[-1]

    ran = refused(RUN, allow="--allow container.exec:make")["output"][0]
    assert ran["outcome"]["exit_code"] == 126
    assert ran["stderr"] == "refused: it runs a command. The server's owner can allow it: --allow container.exec:make"
    searched = refused(SEARCH, allow="--allow browser.search")
    assert searched["status"] == "failed" and searched["error"].endswith("--allow browser.search")
    code = refused(stream.ToolCall("python", "1", "call_1"), firm=True)
    assert code["outputs"][0]["logs"].endswith("No rule can allow it")
    again = stream.ToolCall("python", "1", "call_2")
    why, allow = "it can run code", "--allow python"
    question = stream.Approval("call_1/1", "call_1", "python", "1", "", "", "", why, allow=allow)
    unasked = [stream.ToolResult(name, "refused", "This call needs approval") for name in ("call_1", "call_2")]
    output = follow(written([replace(again, id="call_1"), question, unasked[0], again, unasked[1], DONE]))["output"]
    assert [item["outputs"][0]["logs"].endswith("--allow python") for item in output] == [True, True]
    denied = [SEARCH, stream.ToolResult("call_1", "refused", "Error: browser.search is not allowed here (…)"), DONE]
    assert "not allowed here" in follow(written(denied))["output"][0]["error"]


def test_citations_have_their_places(tmp_path: Path) -> None:
    sources = (
        stream.Source(1, "Capy", "http://a.test/capy", 9, 11, places=((9, 12), (21, 24))),
        stream.Source(2, "Notes", "doc:1", places=((15, 18),)),
        stream.Source(3, "", "", places=((18, 21),)),
    )
    text = "They swim[1] a [2][3][1]."
    response = follow(written([stream.Text(text), stream.Result("answered", text, sources=sources)]))
    notes = response["output"][0]["content"][0]["annotations"]
    assert [text[note["start_index"] : note["end_index"]] for note in notes] == ["[1]", "[2]", "[1]"]
    assert [note["url"] for note in notes] == ["http://a.test/capy", "doc:1", "http://a.test/capy"]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (stream.Result("error", error="the engine broke"), "server_error"),
        (stream.Result("context", error="the prompt has 9 tokens"), "context_length_exceeded"),
        (stream.Result("stopped"), "server_error"),
        (stream.Result("answered", None, error="the answer has no year"), "server_error"),
    ],
)
def test_a_failure_ends_the_stream_once(result: stream.Result, code: str) -> None:
    for events in ([], [stream.Text("It")], [RUN, stream.ToolStarted(RUN.id, RUN.name, RUN.arguments)],
                   [SEARCH, stream.ToolStarted(SEARCH.id, SEARCH.name, {})], [SEARCH]):  # fmt: skip
        sent = written([*events, result, stream.Text("more"), DONE])
        response = follow(sent)
        assert (response["status"], response["error"]["code"]) == ("failed", code)
        assert sent[-2]["error"]["code"] == code and sent[-2]["message"] == response["error"]["message"]


def test_a_client_is_advised_to_do_what_it_can_do_itself() -> None:
    """The flags are its owner's."""
    failure = failure_of(stream.Result("context", error=str(ContextFull(5000, 4096))))
    assert failure and str(failure) == (
        "the prompt has 5,000 tokens, the context holds 4,096: send less of the conversation, shorter instructions, or "
        "fewer tools"
    )


def test_items_can_be_sent_back(tmp_path: Path) -> None:
    """Also by a client that keeps of the reasoning only what it can't read."""
    request = asked(include=["reasoning.encrypted_content"])
    own = answered(tmp_path, THOUGHT + PREAMBLE + call("get_weather", '{"city": "Oslo"}'), request=request)["output"]
    result = {"type": "function_call_output", "call_id": own[-1]["call_id"], "output": "Rain."}
    del own[0]["content"]
    events = [*ran(SEARCH, "done", "L0: …"), *ran(RUN, "failed", ""), stream.Text("Done."), DONE]
    hosted = follow(written(events))["output"]
    back = asked_of({"input": [{"role": "user", "content": "Hi"}, *own, result, *hosted]}).items
    said = [(item.message.channel, item.message.text, item.call_id) for item in back if item.message]
    assert said[1:] == [
        ("analysis", "They want weather.", None), ("commentary", "I look.", None),
        ("commentary", '{"city": "Oslo"}', "call_1"), (None, "Rain.", "call_1"), ("final", "Done.", None),
    ]  # fmt: skip
    assert [item.id for item in back if item.message is None] == ["ws_1_0", "sh_1_1", "sho_1_2"]


def test_a_response_repeats_the_request() -> None:
    tools = [{"type": "function", "name": "get_weather", "parameters": WEATHER}, {"type": "web_search"}]
    form = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
    request = Asked(
        "responses", "etude", (), previous="resp_0", max_tokens=50, max_calls=3, store=False, effort="low",
        raw={"tools": tools, "text": {"format": form, "verbosity": None}, "metadata": {"a": "b"}, "top_p": 0.5,
             "instructions": "Be brief.", "tool_choice": {"type": "function", "name": "f"}, "prompt_cache_key": "k"},
    )  # fmt: skip
    response = follow(written([DONE], request))
    assert response["tools"] == [{"description": None, "strict": None, **tools[0]}, tools[1]]
    assert response["text"] == {"format": {"description": None, "strict": False, **form}}
    same = ("previous_response_id", "max_output_tokens", "max_tool_calls", "store", "metadata", "top_p", "temperature")
    assert [response[name] for name in same] == ["resp_0", 50, 3, False, {"a": "b"}, 0.5, 1.0]
    assert (response["instructions"], response["prompt_cache_key"], response["reasoning"]["effort"]) == (
        "Be brief.", "k", "low")  # fmt: skip


def test_fields_of_a_wrong_kind_leave_the_response_sound() -> None:
    names = ("temperature", "metadata", "tools", "text", "reasoning", "include", "tool_choice", "truncation", "store")
    for nonsense in (3, "x", [7], True, None, {"format": 3}):
        require(written([DONE], asked(**dict.fromkeys(names, nonsense)))[-1]["response"], "response")


_IDS = st.sampled_from(("call_1", "call_2", ""))
_NAMES = st.sampled_from(("functions.get_weather", "python", "browser.open", "container.exec", "browser.find", "odd"))
_ARGUMENTS = st.sampled_from(({"city": "\ud800"}, {"command": [1]}, {"pattern": 3}, [], "", None, {"query": ["a"]}))
_TEXTS = st.sampled_from(("", " ", "a", "\ud800", "【1†L1】"))
any_events = st.lists(st.one_of(
    st.builds(stream.Text, _TEXTS, st.integers(0, 2), st.booleans()),
    st.builds(stream.Reasoning, _TEXTS, st.integers(0, 2)),
    st.builds(stream.Arguments, _NAMES, _TEXTS, st.integers(0, 2)),
    st.builds(stream.ToolCall, st.just("functions.get_weather"), _ARGUMENTS, st.just("call_0")),
    st.builds(stream.ToolCall, _NAMES, _ARGUMENTS, _IDS),
    st.builds(stream.ToolStarted, _IDS, _NAMES, _ARGUMENTS),
    st.builds(stream.ToolOutput, _IDS, _TEXTS),
    st.builds(stream.ToolResult, _IDS, st.sampled_from(("done", "failed", "refused", "stopped", "shown")), _TEXTS),
    st.builds(stream.ToolResult, st.just("call_0"), st.just("returned"), _TEXTS),
    st.builds(stream.Progress, st.integers(0, 9), st.integers(0, 9)),
    st.builds(stream.Notice, st.just("sampled-again"), _TEXTS),
    st.builds(stream.Steered, _TEXTS),
), max_size=12)  # fmt: skip
any_result = st.builds(
    stream.Result, st.sampled_from(("answered", "silent", "called", "stopped", "tokens", "time", "context", "error")),
    st.none() | _TEXTS, error=st.none() | st.just("broke"),
)  # fmt: skip


@given(any_events, any_result)
def test_events_in_any_order_make_a_sound_stream(events: list[stream.Event], result: stream.Result) -> None:
    request = asked(reasoning={"summary": "auto"}, include=["code_interpreter_call.outputs"])
    follow(written([*events, result], request))
