"""The toolbox and the policy, without a loop around them."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.control import Control
from tests.support.turns import Double, Echo
from tools.policy import Action, Policy, Rule
from tools.spec import (
    ApprovalAsked,
    ApprovalDecided,
    Decision,
    NoStop,
    Preview,
    ToolCall,
    ToolContext,
    ToolEvent,
    ToolFinished,
    ToolOutput,
    ToolResult,
    ToolSpec,
)
from tools.toolbox import Toolbox

CONTEXT = ToolContext(stop=NoStop(), workspace=None, data_dir=Path("nowhere"), count_tokens=len)


def _run(
    toolbox: Toolbox, call: ToolCall, control: Control | NoStop | None = None
) -> tuple[list[ToolEvent], ToolResult]:
    events: list[ToolEvent] = []
    running = toolbox.run(call, stop=control or NoStop())
    while True:
        try:
            events.append(next(running))
        except StopIteration as stop:
            return events, stop.value


def test_what_a_call_brings() -> None:
    echo = Echo()
    events, result = _run(
        Toolbox([echo], policy=Policy([Rule("*", "allow")]), context=CONTEXT), ToolCall("c", "python", "x")
    )
    assert [type(event).__name__ for event in events] == [
        "ApprovalDecided",
        "ToolStarted",
        "ToolOutput",
        "ToolOutput",
        "ToolFinished",
    ]
    assert result == ToolResult("ran x")


def test_a_tools_own_failure_is_a_result() -> None:
    toolbox = Toolbox([Echo()], policy=Policy([Rule("*", "allow")]), context=CONTEXT)
    events, result = _run(toolbox, ToolCall("c", "python", "raise"))
    assert result == ToolResult("Error: it failed: try another way", error=True)
    assert isinstance(events[-1], ToolFinished)


def test_a_bug_in_a_tool_is_not_hidden() -> None:
    @dataclass
    class Broken(Echo):
        spec: ToolSpec = field(default_factory=lambda: ToolSpec("python", "", input="text"))

        def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
            raise RuntimeError("a bug")

    toolbox = Toolbox([Broken()], policy=Policy([Rule("*", "allow")]), context=CONTEXT)
    with pytest.raises(RuntimeError, match="a bug"):
        _run(toolbox, ToolCall("c", "python", ""))


def test_a_stop_before_the_start_runs_nothing() -> None:
    echo, control = Echo(), Control()
    control.stop()
    toolbox = Toolbox([echo], policy=Policy([Rule("*", "allow")]), context=CONTEXT)
    _, result = _run(toolbox, ToolCall("c", "python", "x"), control)
    assert result.error and "interrupted" in result.text
    assert echo.ran == []


def test_a_stop_at_the_question_is_no_refusal() -> None:
    echo, control = Echo(), Control()
    running = Toolbox([echo], policy=Policy([Rule("*", "ask")]), context=CONTEXT).run(
        ToolCall("c", "python", "x"), stop=control
    )
    assert isinstance(next(running), ApprovalAsked)
    control.stop()
    *_, finished = running
    assert isinstance(finished, ToolFinished)
    assert finished.result == ToolResult("[interrupted by the user]", error=True)
    assert echo.ran == []


def test_the_time_of_a_call_is_the_tools_own() -> None:
    """What a person took to decide isn't in it."""
    running = Toolbox([Echo()], policy=Policy([Rule("*", "ask")]), context=CONTEXT).run(
        ToolCall("c", "python", "x"), stop=NoStop()
    )
    next(running)
    time.sleep(1.0)
    events: list[ToolEvent] = [running.send(Decision("c", allow=True)), *running]
    finished = events[-1]
    assert isinstance(finished, ToolFinished) and not finished.result.error
    assert finished.ms < 1000


def test_closing_in_the_middle_closes_the_tool_generator() -> None:
    closed: list[bool] = []

    @dataclass
    class Slow(Echo):
        def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
            try:
                yield ToolOutput(call_id, "1")
                yield ToolOutput(call_id, "2")
            finally:
                closed.append(True)
            return ToolResult("")

    running = Toolbox([Slow()], policy=Policy([Rule("*", "allow")]), context=CONTEXT).run(
        ToolCall("c", "python", ""), stop=NoStop()
    )
    while not isinstance(next(running), ToolOutput):
        pass
    running.close()
    assert closed == [True]


def test_what_runs_is_what_was_previewed() -> None:
    seen: list[object] = []

    @dataclass
    class Careful(Double):
        def preview(self, args: object, *, context: ToolContext) -> Preview:
            seen.append(args)
            return Preview("")

        def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
            seen.append(args)
            yield from ()
            return ToolResult("")

    toolbox = Toolbox([Careful()], policy=Policy([Rule("*", "allow")]), context=CONTEXT)
    _run(toolbox, ToolCall("c", "functions.double", '{"n": 1}'))
    assert seen[0] is seen[1]


def test_the_bound_on_results() -> None:
    toolbox = Toolbox([Echo()], policy=Policy([Rule("*", "allow")]), context=CONTEXT, max_result_tokens=100)
    _, result = _run(toolbox, ToolCall("c", "python", "a" * 500 + "z"))
    assert result.text == "ran " + "a" * 71 + f"\n[... {505 - 75 - 25} characters omitted]\n" + "a" * 24 + "z"


def test_close_closes_the_tools() -> None:
    echo = Echo()
    Toolbox([echo], policy=Policy(), context=CONTEXT).close()
    assert echo.closed


READ = ToolSpec("functions.read_file", "", effects=frozenset({"read"}))
WRITE = ToolSpec("functions.write_file", "", effects=frozenset({"write"}))
SEND = ToolSpec("browser.open", "", effects=frozenset({"read", "send"}))


@pytest.mark.parametrize(
    ("rules", "spec", "action"),
    [
        ((), READ, "allow"),
        ((), WRITE, "ask"),
        ((), SEND, "allow"),
        ((Rule("functions.*", "allow"),), WRITE, "allow"),
        ((Rule("functions.*", "ask"),), READ, "ask"),
        ((Rule("functions.*", "allow"), Rule("functions.write_file", "ask")), WRITE, "ask"),
        ((Rule("functions.write_file", "allow"), Rule("*", "deny")), WRITE, "deny"),
        ((Rule("functions.write_file", "deny"), Rule("*", "ask"), Rule("*", "allow")), WRITE, "deny"),
        ((Rule("FUNCTIONS.*", "allow"),), WRITE, "ask"),
        ((Rule("browser.*", "allow"),), WRITE, "ask"),
    ],
)
def test_the_strictest_rule_holds(rules: tuple[Rule, ...], spec: ToolSpec, action: Action) -> None:
    assert Policy(rules).rule_on(spec, Preview("")).action == action


def test_what_is_remembered_is_this_call_and_never_beats_a_denial() -> None:
    for rules in ((), (Rule("*", "ask"),)):
        policy = Policy(rules)
        policy.remember(WRITE, Preview(""), {"path": "a"})
        assert policy.rule_on(WRITE, Preview(""), {"path": "a"}).action == "allow"
        assert policy.rule_on(WRITE, Preview(""), {"path": "b"}).action == "ask"
    policy = Policy([Rule("*", "deny")])
    policy.remember(WRITE, Preview(""), {})
    assert policy.rule_on(WRITE, Preview(""), {}).action == "deny"


def test_a_denied_call_says_why() -> None:
    toolbox = Toolbox([Echo()], policy=Policy([Rule("python", "deny")]), context=CONTEXT)
    events, result = _run(toolbox, ToolCall("c", "python", "x"))
    assert events[0] == ApprovalDecided("c", False, "policy", "the rule python")
    assert result.error and "python is not allowed here" in result.text
