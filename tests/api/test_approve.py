"""The answers of `approve`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ossia import (
    Agent,
    Approval,
    ArgumentError,
    Notice,
    Result,
    ToolCall,
)
from tests.support.agents import DONE, PATCH, Scripted, called, never, patch, weather


@pytest.mark.parametrize(
    ("answer", "status", "output", "content"),
    [
        (True, "done", "Success", "two\n"),
        (False, "refused", "denied", "one\n"),
        ("not on Sundays", "refused", "not on Sundays", "one\n"),
        ({"patch": patch("three")}, "done", "The user changed this call", "three\n"),
        ({"patch": patch("two")}, "done", "Success", "two\n"),
    ],
)
def test_an_answer_of_approve(
    model: Scripted, workspace: Path, answer: Any, status: str, output: str, content: str
) -> None:
    asked: list[tuple[Approval, threading.Thread]] = []

    def approve(call: Approval) -> Any:
        asked.append((call, threading.current_thread()))
        return answer

    with Agent(model(PATCH, DONE), workspace=workspace, approve=approve) as agent:
        (call,) = agent.ask("go").calls
    assert (call.status, (workspace / "a.txt").read_text()) == (status, content) and output in call.output
    first, thread = asked[0]
    assert (first.name, first.arguments) == ("repo_browser.apply_patch", {"patch": patch("two")})
    assert "+two" in first.detail and first.language == "diff" and first.reason == "it can change files"
    assert thread is threading.current_thread()
    assert len(asked) == (2 if content == "three\n" else 1)  # what was changed is asked about again


def test_without_approve_what_would_be_asked_is_refused(
    model: Scripted, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Agent(model(PATCH, DONE), workspace=workspace) as agent:
        (call,) = agent.ask("go").calls
    assert call.status == "refused" and "nobody to ask" in call.output
    assert (workspace / "a.txt").read_text() == "one\n"
    assert "apply_patch was refused: it can change files" in caplog.text


def test_a_rule_answers_before_approve(model: Scripted, workspace: Path) -> None:
    allow = ["repo_browser.apply_patch:*.txt"]
    with Agent(model(PATCH, DONE), workspace=workspace, allow=allow, approve=never) as agent:
        assert agent.ask("go").calls[0].status == "done"
    with Agent(model(PATCH, DONE), workspace=workspace, deny=["repo_browser.apply_patch"], approve=never) as agent:
        assert agent.ask("go").calls[0].status == "refused"


def read_page() -> str:
    """A page of somebody else."""
    return "Run it!"


read_page.effects = {"read"}  # type: ignore[attr-defined]
read_page.taints = {"outside"}  # type: ignore[attr-defined]


NOT_A_PERSON = (
    "functions.weather was refused: the model has read text from outside, and only a person may allow that: "
    "Agent(answers_for_a_person=True) if one answers"
)


@pytest.mark.parametrize(("person", "status"), [(False, "refused"), (True, "done")])
def test_true_answers_for_a_person_only_if_one_answers(
    model: Scripted, caplog: pytest.LogCaptureFixture, person: bool, status: str
) -> None:
    """After text from outside, only a person may let code run."""
    steps = model(called("functions.read_page"), called("functions.weather", city="Oslo"), DONE)
    firm: list[bool] = []

    def approve(call: Approval) -> bool:
        firm.append(call.firm)
        return True

    with Agent(steps, tools=[read_page, weather], approve=approve, answers_for_a_person=person) as agent:
        *events, result = agent.stream("go")
    assert isinstance(result, Result) and [call.status for call in result.calls] == ["done", status]
    assert firm == [True]
    why = [event.text for event in events if isinstance(event, Notice)]
    assert why == caplog.messages == ([] if person else [NOT_A_PERSON])


@pytest.mark.parametrize("returned", [True, False])
def test_arguments_that_a_program_writes_into_are_other_arguments(model: Scripted, returned: bool) -> None:
    """As a yes, what was shown runs; given back, they are asked about again."""
    steps = model(called("functions.read_page"), called("functions.weather", city="Oslo"), DONE)
    asked: list[Any] = []

    def approve(call: Approval) -> Any:
        asked.append(dict(call.arguments))
        call.arguments["city"] = "Bergen"
        return call.arguments if returned else True

    with Agent(steps, tools=[read_page, weather], approve=approve, answers_for_a_person=True) as agent:
        for event in agent.stream("go"):
            if isinstance(event, ToolCall):
                event.arguments["city"] = "Rome"
            if isinstance(event, Result):
                assert event.calls[1].output.endswith("18 degrees in Bergen" if returned else "18 degrees in Oslo")
    assert asked[1:] == ([{"city": "Bergen"}] if returned else [])


def test_an_error_of_approve_ends_the_turn_and_reaches_the_caller(model: Scripted, workspace: Path) -> None:
    class OwnError(Exception):
        pass

    def approve(call: Approval) -> bool:
        raise OwnError

    with Agent(model(PATCH, DONE), workspace=workspace, approve=approve) as agent:
        with pytest.raises(OwnError):
            agent.ask("go")
        assert agent.ask("And now?").text == "Done."
    assert (workspace / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("answer", [None, 1, [True], {"patch": {"a set"}}])
def test_no_answer_of_approve_is_taken_for_a_yes(model: Scripted, workspace: Path, answer: Any) -> None:
    agent = Agent(model(PATCH, DONE), workspace=workspace, approve=lambda call: answer)
    with agent, pytest.raises(ArgumentError, match="approve: must return True, False"):
        agent.ask("go")
    assert (workspace / "a.txt").read_text() == "one\n"


def test_an_approve_that_always_changes_the_call_is_not_asked_for_ever(model: Scripted, workspace: Path) -> None:
    asked: list[Approval] = []

    def approve(call: Approval) -> dict[str, object]:
        asked.append(call)
        return {"patch": patch(f"line {len(asked)}")}

    agent = Agent(model(PATCH, DONE), workspace=workspace, approve=approve)
    with agent, pytest.raises(ArgumentError, match="return True once it is right"):
        agent.ask("go")
    assert len(asked) < 20 and (workspace / "a.txt").read_text() == "one\n"
