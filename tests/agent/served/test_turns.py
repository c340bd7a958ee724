"""Turns with servers that keep Harmony to themselves, over HTTP on loopback; see `tests.support.dialects`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Sampling
from ossia.agent.errors import ContextFull, EngineFailed
from ossia.agent.events import Delta, Event, MessageAdded, SampledAgain, Stats, ThinkingCut
from ossia.agent.limits import Limits
from ossia.agent.served.api import Kind
from ossia.agent.served.wire import ANSWER_NOW
from ossia.agent.sessions.session import Options, Session
from ossia.harmony.codec import Codec
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Message, ResponseFormat
from ossia.harmony.render import drop_nothing
from ossia.harmony.tokenizer import Tokenizer
from tests.support.dialects import (
    ANSWER,
    CODE,
    DIALECTS,
    DONE,
    call,
    chat,
    chunk,
    responses,
    sse,
    text,
    thoughts,
    tool_call,
)
from tests.support.served import PLAYED, ServedStage, Server
from tests.support.site import Reply
from tests.support.turns import GREEDY, NUMBER, end_of

PYTHON = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
FUNCTIONS = [
    {"name": "python", "description": "Echoes.", "parameters": PYTHON},
    {"name": "double", "description": "Doubles n.", "parameters": NUMBER},
]
FORM = ResponseFormat("answer", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})

Stage = Callable[..., ServedStage]


@pytest.fixture
def stage(etude_tokenizer: Tokenizer) -> Iterator[Stage]:
    """Makes a stage with a server that gives these answers."""
    with ExitStack() as servers:

        def make(kind: Kind, *answers: Any, **more: Any) -> ServedStage:
            server = servers.enter_context(Server(kind, answers))
            return ServedStage(etude_tokenizer, server, kind, **more)

        yield make


def errors(events: list[Event]) -> str:
    ended = end_of(events)
    assert ended.end == "error"
    assert isinstance(ended.error, EngineFailed) and "\n" not in str(ended.error)
    return str(ended.error)


# -- a turn ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIALECTS)
def test_thoughts_a_call_and_an_answer(name: str, stage: Stage) -> None:
    dialect = DIALECTS[name]
    played = stage(dialect.kind, *dialect.steps)
    events = played.play()
    assert played.session.messages == PLAYED
    assert end_of(events).end == "answered"
    assert played.echo.ran == ["print(2)"]
    assert all(entry.vocabulary is None and not entry.cut for entry in played.session.entries)
    steps = [event.step for event in events if isinstance(event, Stats)]
    held = dialect.cached or 0
    assert [(one.prompt_tokens, one.reused_tokens, one.evaluated_tokens, one.completion_tokens) for one in steps] == [
        (120, held, 120 - held, 9)
    ] * 2
    assert all(one.cache_reported == (dialect.cached is not None) for one in steps)


@pytest.mark.parametrize("name", DIALECTS)
def test_deltas_are_the_text_of_the_messages(name: str, stage: Stage) -> None:
    dialect = DIALECTS[name]
    events = stage(dialect.kind, *dialect.steps).play()
    told: list[Delta] = []
    for event in events:
        if isinstance(event, Delta):
            told.append(event)
        elif isinstance(event, MessageAdded) and event.message.role == "assistant":
            mine = [one for one in told if one.index == told[0].index]
            made = Message("assistant", ("".join(one.text for one in mine),), None, *_header(mine[-1]))
            assert made == event.message
            told = told[len(mine) :]
    assert not told
    assert isinstance(events[1], Progress)


def _header(delta: Delta) -> tuple[str | None, str | None, str | None]:
    return delta.recipient, delta.channel, delta.content_type


@pytest.mark.parametrize("name", [name for name, dialect in DIALECTS.items() if dialect.kind == "chat"])
def test_what_chat_completions_are_asked(name: str, stage: Stage) -> None:
    dialect = DIALECTS[name]
    played = stage("chat", *dialect.steps)
    played.play()
    first, second = played.server.asked
    assert first == {
        "model": "gpt-oss-20b",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [_instructions(first), {"role": "user", "content": "hi"}],
        "reasoning_effort": "high",
        "temperature": 0.0,
        "top_p": 1.0,
        "tools": [{"type": "function", "function": function} for function in FUNCTIONS],
        "parallel_tool_calls": False,
    }
    called = {"id": "call_1", "type": "function", "function": {"name": "python", "arguments": CODE}}
    assert second["messages"][2:] == [
        {"role": "assistant", "content": "", "tool_calls": [called], **dialect.thoughts_back},
        {"role": "tool", "tool_call_id": "call_1", "content": "ran print(2)"},
    ]


def _instructions(asked: dict[str, Any]) -> dict[str, str]:
    said: dict[str, str] = asked["messages"][0]
    assert said["role"] == "system" and "is data" in said["content"]
    return said


@pytest.mark.parametrize("name", [name for name, dialect in DIALECTS.items() if dialect.kind == "responses"])
def test_what_responses_are_asked(name: str, stage: Stage) -> None:
    dialect = DIALECTS[name]
    played = stage("responses", *dialect.steps)
    played.play()
    first, second = played.server.asked
    assert "is data" in first.pop("instructions")
    assert first == {
        "model": "gpt-oss-20b",
        "stream": True,
        "store": False,
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "reasoning": {"effort": "high"},
        "temperature": 0.0,
        "top_p": 1.0,
        "tools": [{"type": "function", "strict": False, **function} for function in FUNCTIONS],
        "parallel_tool_calls": False,
    }
    assert second["input"][1:] == [
        {"type": "reasoning", "id": "rs_1", **dialect.thoughts_back},
        {"type": "function_call", "call_id": "call_1", "name": "python", "arguments": CODE},
        {"type": "function_call_output", "call_id": "call_1", "output": "ran print(2)"},
    ]


def test_thoughts_of_past_turns_are_not_sent_back(stage: Stage) -> None:
    played = stage("chat", chat({"reasoning": "Hm."}, {"content": ANSWER}), chat({"content": "Fine."}))
    played.play()
    played.play("and you")
    assert played.server.asked[1]["messages"][1:] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "and you"},
    ]


def test_a_local_engine_can_go_on(stage: Stage, etude_tokenizer: Tokenizer) -> None:
    played = stage("responses", *DIALECTS["OpenAI"].steps)
    played.play()
    codec = Codec(etude_tokenizer, recipient_position="channel", replay=True)
    ids = codec.render(played.session.request(()).history, purpose="completion", drop=drop_nothing).ids
    assert etude_tokenizer.decode(ids) == (
        "<|start|>user<|message|>hi<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>Compute it.<|end|>"
        "<|start|>assistant<|channel|>analysis to=python code<|message|>print(2)<|call|>"
        "<|start|>python to=assistant<|channel|>analysis<|message|>ran print(2)<|end|>"
        "<|start|>assistant<|channel|>final<|message|>It is 2.<|end|>"
        "<|start|>assistant"
    )


# -- calls -------------------------------------------------------------------------------------------------------------


def _call_of(function: dict[str, Any]) -> dict[str, Any]:
    """A piece of a call without number and id."""
    return {"tool_calls": [{"function": function}]}


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("responses", responses(call(0, "double", '{"n": 2}'), call(1, "double", '{"n": 3}'))),
        ("chat", chat(tool_call("double", '{"n": 2}', id="a"), tool_call("double", '{"n": 3}', id="b", number=1))),
        ("chat", chat(tool_call("double", '{"n": 2}', id="a"), tool_call("double", '{"n": 3}', id="b"))),
        ("chat", chat(tool_call("double", '{"n": 2}', id="a"), tool_call("double", '{"n": 3}', id="a"))),
        ("chat", chat(tool_call("double", '{"n": 2}', id="a"), tool_call("python", CODE, id="a"))),
        ("chat", chat(*(tool_call("double", piece, id="a") for piece in ("", '{"n"', ": 2", "}", "")))),
        ("chat", chat(*(tool_call("double", piece, id=piece) for piece in ("", '{"n"', ": 2", "}")))),
        (
            "chat",
            chat(tool_call("double", "", id="a"), tool_call(None, '{"n": ', id="b", number=1), tool_call(None, "2}")),
        ),
        ("chat", chat(_call_of({"name": "double", "arguments": {"n": 2}}))),
        ("chat", chat(_call_of({"name": "double"}), _call_of({"arguments": '{"n"'}), _call_of({"arguments": ": 2}"}))),
        ("chat", chat(_call_of({"name": "double", "arguments": None}), tool_call(None, '{"n": 2}'))),
        (
            "chat",
            chat({"function_call": {"name": "double", "arguments": '{"n"'}}, {"function_call": {"arguments": ": 2}"}}),
        ),
        ("chat", sse(chunk(tool_call("double", '{"n": 2}', id="a"))) + DONE),
    ],
)
def test_only_the_first_of_several_calls_is_made(kind: Kind, answer: str, stage: Stage) -> None:
    final = responses(text(0, ANSWER)) if kind == "responses" else chat({"content": ANSWER})
    played = stage(kind, answer, final)
    assert end_of(played.play()).end == "answered"
    assert [(one.recipient, one.text) for one in played.session.messages[1:]] == [
        ("functions.double", '{"n": 2}'),
        ("assistant", "4"),
        (None, ANSWER),
    ]


@pytest.mark.parametrize("called", ["double", "functions.double", "double<|channel|>commentary"])
def test_names_that_a_server_did_not_clean(called: str, stage: Stage) -> None:
    played = stage("chat", chat(tool_call(called, '{"n": 2}', id="a")), chat({"content": ANSWER}))
    played.play()
    assert played.session.messages[1].recipient == "functions.double"


@pytest.mark.parametrize(
    ("called", "recipient"),
    [
        ("repo_browser__open_file", "repo_browser.open_file"),
        ("browser.search", "browser.search"),
        ("nonsense", "functions.nonsense"),
    ],
)
def test_a_tool_that_is_not_there_is_answered_as_with_any_engine(called: str, recipient: str, stage: Stage) -> None:
    played = stage("chat", chat(tool_call(called, "{}", id="a")), chat({"content": ANSWER}))
    assert end_of(played.play()).end == "answered"
    wished, refused = played.session.messages[1:3]
    assert wished.recipient == recipient and refused.text.startswith("Error: there is no tool")


def test_what_is_said_before_a_call_is_a_preamble(stage: Stage) -> None:
    first = chat({"reasoning": "Hm."}, {"content": "I look."}, tool_call("double", '{"n": 2}', id="a"))
    played = stage("chat", first, chat({"content": ANSWER}))
    played.play()
    assert [message.channel for message in played.session.messages] == [
        None,
        ANALYSIS,
        COMMENTARY,
        COMMENTARY,
        COMMENTARY,
        FINAL,
    ]
    sent = played.server.asked[1]["messages"][2]
    assert (sent["content"], sent["reasoning"]) == ("", "Hm.\n\nI look.")


def test_a_call_without_deltas(stage: Stage) -> None:
    whole = call(0, "double", '{"n": 2}')
    played = stage("responses", responses([whole[0], whole[-1]]), responses(text(0, ANSWER)))
    played.play()
    assert played.session.messages[1].text == '{"n": 2}'


# -- how an answer ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("chat", chat({"content": "It"}, finish="length")),
        ("chat", chat({"content": "It"}, written=20)),
        ("responses", responses(text(0, "It"), end="incomplete")),
        ("responses", responses(text(0, "It"), written=20)),
    ],
)
def test_a_limit_of_tokens(kind: Kind, answer: str, stage: Stage) -> None:
    played = stage(kind, answer)
    assert end_of(played.play(limits=Limits(max_tokens=20))).end == "tokens"
    assert played.server.asked[0]["max_tokens" if kind == "chat" else "max_output_tokens"] == 20
    assert played.session.entries[-1].cut


_FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        *(("chat", chat({"content": "It"}, finish=why), why) for why in ("content_filter", "error", "abort", "safety")),
        *(
            ("responses", sse(*text(0, "It"), {"type": f"response.{kind}", "response": response}, named=True), why)
            for kind, response, why in (
                ("incomplete", _FILTERED, "content_filter"),
                ("completed", _FILTERED, "content_filter"),
                ("completed", {"status": "failed"}, "failed"),
            )
        ),
    ],
)
def test_an_answer_that_ended_for_another_reason_is_not_whole(kind: Kind, answer: str, why: str, stage: Stage) -> None:
    played = stage(kind, answer)
    assert errors(played.play()) == f"team gave up: it ended the answer by {why}"
    assert played.session.entries[-1].message.text == "It"
    assert played.session.entries[-1].cut


@pytest.mark.parametrize("finish", ["EOS_TOKEN", "stop_sequence", "tool_calls", "function_call", "eos"])
def test_other_words_for_the_end_of_an_answer(finish: str, stage: Stage) -> None:
    assert end_of(stage("chat", chat({"content": "It"}, finish=finish)).play()).end == "answered"


def test_a_full_context(stage: Stage) -> None:
    played = stage("chat", chat({"content": "It"}, finish="length", prompt=4000, written=96))
    assert end_of(played.play()).end == "context"


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("chat", chat({"content": "It"}, finish="length")), ("responses", responses(text(0, "It"), end="incomplete"))],
)
def test_a_limit_that_nobody_asked_for_is_the_servers_own(kind: Kind, answer: str, stage: Stage) -> None:
    assert end_of(stage(kind, answer).play()).end == "tokens"


def test_a_prompt_that_is_too_long_is_not_sent(stage: Stage) -> None:
    played = stage("chat", context_tokens=40)
    assert isinstance(end_of(played.play()).error, ContextFull)
    assert played.server.asked == []


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_stop_closes_the_stream(kind: Kind, stage: Stage) -> None:
    begun = sse(chunk({"content": "It"})) if kind == "chat" else sse(*text(0, "It")[:2], named=True)

    def endless() -> Iterator[bytes]:
        yield begun.encode()
        while True:
            yield b": still there\n\n"

    played = stage(kind, lambda _: Reply(endless(), headers={"Content-Type": "text/event-stream"}))
    control: Control = played.control
    events = played.play(decide=lambda event: control.stop() if isinstance(event, Delta) else None)
    assert end_of(events).end == "stopped"
    assert [(entry.message.text, entry.cut) for entry in played.session.entries] == [("hi", False), ("It", True)]


def test_answer_now(stage: Stage) -> None:
    thinking = sse(chunk({"reasoning": "Hm."}), chunk({"reasoning": " And"}))
    played = stage("chat", thinking, chat({"content": ANSWER}))
    events = played.play(decide=lambda event: played.control.answer_now() if isinstance(event, Delta) else None)
    assert end_of(events).end == "answered"
    last = played.server.asked[-1]
    assert last["messages"][-1] == {"role": "user", "content": ANSWER_NOW}
    assert last["reasoning_effort"] == "low" and "tools" not in last
    assert [message.text for message in played.session.messages] == ["hi", "Hm.", ANSWER]


def test_the_limit_of_thinking(stage: Stage) -> None:
    played = stage("responses", responses(thoughts(0, *["and so on "] * 20)), responses(text(0, ANSWER)))
    events = played.play(limits=Limits(max_thinking=10))
    assert end_of(events).end == "answered" and ThinkingCut(10) in events
    assert played.session.messages[-1].text == ANSWER


def test_an_answer_that_repeats_itself_is_broken_off(stage: Stage) -> None:
    played = stage("chat", chat(*[{"content": "again and again "}] * 400))
    assert end_of(played.play()).end == "loop"


def test_a_call_that_repeats_itself_is_broken_off(stage: Stage) -> None:
    zeros = (tool_call(arguments="0, ") for _ in range(2_000))
    played = stage("chat", chat(tool_call("python", '{"code": "', id="a"), *zeros))
    assert end_of(played.play()).end == "loop"
    assert played.echo.ran == []


def test_a_call_without_an_end_is_broken_off(stage: Stage) -> None:
    numbers = (tool_call(arguments=f"{number} ") for number in range(20_000))
    played = stage("chat", chat(tool_call("python", '{"code": "', id="a"), *numbers), context_tokens=500)
    assert end_of(played.play()).end == "context"
    assert played.echo.ran == []


def test_a_name_without_an_end_is_broken_off(stage: Stage) -> None:
    played = stage("chat", chat(*[tool_call("x" * 100, id="a")], *(tool_call(f"{n}x" * 50) for n in range(100))))
    assert errors(played.play()) == "team calls a tool by a name that never ends: ask again"
    assert len(played.session.messages[-1].recipient or "") < 300


@pytest.mark.parametrize("wrong", [10**400, -1, True, 2.5], ids=["huge", "negative", "true", "half"])
def test_figures_that_can_not_be_are_none(wrong: Any, stage: Stage) -> None:
    played = stage("chat", chat({"content": ANSWER}, prompt=5, cached=500, written=wrong))
    step = next(event.step for event in played.play() if isinstance(event, Stats))
    assert (step.prompt_tokens, step.reused_tokens, step.evaluated_tokens, step.completion_tokens) == (5, 5, 0, 0)


def test_an_empty_answer_is_drawn_again(stage: Stage) -> None:
    session = Session(Options(sampling=Sampling(seed=7)))
    played = stage("chat", chat({"content": " "}), chat({"content": ANSWER}), session=session)
    events = played.play()
    assert SampledAgain("its answer was empty") in events
    first, again = (asked["seed"] for asked in played.server.asked)
    assert first != again and 0 <= first < 1 << 31 and 0 <= again < 1 << 31


# -- a form for the answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_an_answer_by_a_schema(kind: Kind, stage: Stage) -> None:
    session = Session(Options(response_format=FORM, sampling=GREEDY))
    answer = chat({"content": '{"n": 2}'}) if kind == "chat" else responses(text(0, '{"n": 2}'))
    played = stage(kind, answer, session=session)
    played.play()
    asked = played.server.asked[0]
    form = {"name": "answer", "schema": FORM.schema, "strict": True}
    if kind == "chat":
        assert asked["response_format"] == {"type": "json_schema", "json_schema": form}
        told = asked["messages"][0]["content"]
    else:
        assert asked["text"] == {"format": {"type": "json_schema", **form}}
        told = asked["instructions"]
    assert "# Response Formats\n\n## answer\n\n" in told


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def _half(kind: Kind) -> str:
    return sse(chunk({"content": "It"})) if kind == "chat" else sse(*text(0, "It")[:2], named=True)


_FAILED = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "out of\nmemory"}}}


@pytest.mark.parametrize(
    ("kind", "after", "said"),
    [
        ("chat", "", "team broke off in mid-answer: ask again"),
        ("responses", "", "team broke off in mid-answer: ask again"),
        ("chat", sse({"error": {"message": "out of\nmemory"}}), "out of memory"),
        ("responses", sse(_FAILED), "out of memory"),
        ("responses", sse({"type": "error", "message": "out of\x1b[2Jmemory: sesame"}), "out of [2Jmemory: …"),
        ("responses", sse({"type": "error", "error": {"message": "out of\nmemory"}}), "out of memory"),
        ("chat", sse({"error": "out of\nmemory: sesame"}), "out of memory: …"),
        ("chat", "data: {nonsense\n\n", "expected a JSON object"),
    ],
)
def test_half_an_answer_stays(kind: Kind, after: str, said: str, stage: Stage) -> None:
    played = stage(kind, _half(kind) + after, key="sesame")
    told = errors(played.play())
    assert said in told and told.startswith("team") and "sesame" not in told
    assert [(entry.message.text, entry.cut) for entry in played.session.entries] == [("hi", False), ("It", True)]


_PLAIN = Reply(
    json.dumps({"choices": [{"message": {"content": ANSWER}, "finish_reason": "stop"}]}).encode(),
    headers={"Content-Type": "application/json"},
)


@pytest.mark.parametrize(
    "answer",
    [
        sse(chunk({"content": "It is"}), chunk({"content": " 2."})) + DONE,
        ": a comment\r\n\r\nevent: message\r\n"
        + sse(chunk({"content": ANSWER})).replace("\n", "\r\n")
        + "data:[DONE]\r\n\r\n",
        _PLAIN,
    ],
)
def test_ends_that_servers_write(answer: Any, stage: Stage) -> None:
    """`[DONE]` alone, with other line ends; and an answer that isn't streamed at all."""
    played = stage("chat", (lambda _: answer) if isinstance(answer, Reply) else answer)
    assert end_of(played.play()).end == "answered"
    assert played.session.messages[-1].text == ANSWER


def test_responses_that_end_with_done_alone(stage: Stage) -> None:
    played = stage("responses", sse(*text(0, ANSWER), named=True) + DONE)
    assert end_of(played.play()).end == "answered"
    assert played.session.messages[-1].text == ANSWER


_MISCALLED = {"code": "tool_use_failed", "message": "did not match schema"}


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    "failed", ['{"name": "double", "arguments": {\n "m": 2\n}}', '[{"name": "double", "parameters": {"m": 2}}]']
)
def test_a_call_that_the_server_refused_is_answered_by_the_tool(failed: str, status: int, stage: Stage) -> None:
    error = {"error": _MISCALLED | {"failed_generation": failed}}
    refused = Reply(json.dumps(error).encode(), 400)
    first: Any = (lambda _: refused) if status == 400 else sse(chunk({"reasoning": "Hm."}), error, named=False)
    played = stage("chat", first, chat({"content": ANSWER}))
    assert end_of(played.play()).end == "answered"
    wished, told, answered = played.session.messages[-3:]
    assert (wished.recipient, json.loads(wished.text), answered.text) == ("functions.double", {"m": 2}, ANSWER)
    assert told.text.startswith("Error: ") and "'m'" in told.text


@pytest.mark.parametrize(
    "error",
    [
        {"error": _MISCALLED | {"failed_generation": "<|channel|>nonsense"}},
        {"error": {"message": "error parsing tool call: raw='ls -R', err=did not match schema", "type": "api_error"}},
    ],
)
def test_a_refused_call_that_can_not_be_read_is_drawn_again(error: Any, stage: Stage) -> None:
    refused = sse(chunk({"content": "Let me see."}), error)
    session = Session(Options(sampling=Sampling(seed=7)))
    played = stage("chat", refused, chat({"content": ANSWER}), refused, refused, session=session)
    assert SampledAgain("its message could not be read") in played.play()
    assert played.session.messages[-1].text == ANSWER
    assert "did not match schema" in errors(played.play("again"))


def _broken_off(stage: Stage, kind: Kind, answer: str, last: str) -> ServedStage:
    """A turn whose connection ends after the last event that has `last` in it."""
    events = answer.split("\n\n")
    count = 1 + max(n for n, event in enumerate(events) if last in event)
    played = stage(kind, "\n\n".join([*events[:count], ""]))
    assert errors(played.play()) == "team broke off in mid-answer: ask again"
    return played


@pytest.mark.parametrize("name", DIALECTS)
def test_a_connection_that_ends_before_the_answer_does(name: str, stage: Stage) -> None:
    dialect = DIALECTS[name]
    said = _broken_off(stage, dialect.kind, dialect.steps[1], "It is").session.entries[-1]
    assert said.message.text in ("It is", ANSWER) and said.message.channel == FINAL and said.cut


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_is_not_made_before_the_answer_ends(name: str, stage: Stage) -> None:
    dialect = DIALECTS[name]
    played = _broken_off(stage, dialect.kind, dialect.steps[0], "print(2)")
    assert played.echo.ran == [] and played.session.entries[-1].cut


def test_a_refused_key_names_its_variable(stage: Stage) -> None:
    refused = Reply(b'{"error": {"message": "Incorrect API key provided: sesame"}}', 401)
    told = errors(stage("chat", lambda _: refused, key="sesame").play())
    assert "401" in told and "TEAM_KEY" in told and "sesame" not in told


def test_an_unknown_model(stage: Stage) -> None:
    refused = Reply(b'{"error": {"message": "model \\"gpt-oss-21b\\" not found"}}', 404)
    played = stage("responses", lambda _: refused, model="gpt-oss-21b")
    played.server.list_models("gpt-oss:20b", "gemma4")
    told = errors(played.play())
    assert told.endswith("; it has gpt-oss:20b, gemma4: name one with --model")


def test_what_a_server_does_not_take_is_left_out(stage: Stage) -> None:
    """As `transformers serve` refused it before 5.23.0, which ignores them: `UNUSED_CHAT_COMPLETION_FIELDS` there."""
    fields = "{'stream_options', 'reasoning_effort', 'parallel_tool_calls'}"
    refused = Reply(json.dumps({"detail": f"Unsupported fields in the request: {fields}"}).encode(), 422)
    notices: list[str] = []
    answer = chat({"content": ANSWER})
    played = stage("chat", lambda _: refused, answer, answer, notice=notices.append)
    played.play()
    played.play("and you")
    assert notices == ["team takes no stream_options, reasoning_effort, parallel_tool_calls: left out"]
    left = {"model", "stream", "messages", "temperature", "top_p", "tools"}
    assert [set(asked) == left for asked in played.server.asked] == [False, True, True]


def test_a_refusal_that_names_no_field_is_an_error(stage: Stage) -> None:
    refused = Reply(b'{"error": "unsupported content: reasoning is high"}', 400)
    assert "unsupported content" in errors(stage("chat", lambda _: refused).play())


@pytest.mark.parametrize(
    "strange",
    [
        {"choices": [{"delta": {"content": 5, "tool_calls": ["x", {"function": 3}]}}]},
        {"choices": "none", "usage": [1]},
        {"choices": [None], "usage": {"prompt_tokens": "many"}},
        {"choices": [{"delta": None}]},
    ],
)
def test_strange_events_do_no_harm(strange: dict[str, Any], stage: Stage) -> None:
    played = stage("chat", sse(strange) + chat({"content": ANSWER}))
    played.play()
    assert played.session.messages[-1].channel in (FINAL, COMMENTARY)


@pytest.mark.parametrize("between", [(), ({"role": "assistant"},)])
def test_a_pair_of_surrogates_in_two_pieces(between: tuple[dict[str, Any], ...], stage: Stage) -> None:
    def split(name: str) -> list[dict[str, Any]]:
        return [{name: "a\ud83d"}, *between, {name: "\ude00b"}]

    called = [tool_call("double", '{"n": "\ud83d', id="a"), *between, tool_call(None, '\ude00"}')]
    played = stage("chat", chat(*split("reasoning"), *called), chat(*split("content")))
    played.play()
    texts = [message.text for message in played.session.messages]
    assert (texts[1:3], texts[-1]) == (["a😀b", '{"n": "😀"}'], "a😀b")


def test_half_a_pair_of_surrogates(stage: Stage) -> None:
    played = stage("chat", chat({"content": "a\ud83db"}))
    played.play()
    assert played.session.messages[-1].text == "a?b"
