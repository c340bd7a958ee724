"""A turn on the worker's thread, followed, answered, steered and stopped from another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from ossia.agent.events import ApprovalAsked, Decision, Event, MessageAdded, ToolFinished, TurnEnded
from ossia.agent.turn import Tapped, Turn
from ossia.agent.worker import Worker
from ossia.harmony.messages import Message
from ossia.harmony.render import DropPolicy, drop_past_analysis, drop_reference
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.rules import Rule
from tests.support.site import wait_until
from tests.support.turns import Stage

CALL = (
    "<|channel|>analysis<|message|>Hm.<|end|>"
    "<|start|>assistant<|channel|>analysis to=python code<|message|>x=1<|call|>"
)
FINAL = "<|channel|>final<|message|>Done.<|return|>"
ASK = (Rule("*", "ask"),)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close(timeout_s=5)


def _begin(worker: Worker, stage: Stage) -> Turn:
    return Turn(worker, stage.turn(), stage.control)


def _read(turn: Turn, until: type[Event]) -> list[Event | Tapped]:
    events: list[Event | Tapped] = []
    while not events or not isinstance(events[-1], until):
        event = turn.next(timeout_s=10)
        assert event is not None
        events.append(event)
    return events


def test_it_runs_on_the_workers_thread(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    turn = _begin(worker, stage)
    events = list(turn)
    alone = Stage(etude_tokenizer, (CALL, FINAL)).play()
    assert [type(event) for event in events] == [type(event) for event in alone]
    assert stage.session.messages[-1].text == "Done."
    assert turn.over and turn.result() == TurnEnded("answered") and not worker.busy


@pytest.mark.parametrize("allow", [True, False])
def test_a_question_is_answered_from_the_other_thread(allow: bool, worker: Worker, etude_tokenizer: Tokenizer) -> None:
    turn = _begin(worker, Stage(etude_tokenizer, (CALL, FINAL), rules=ASK))
    asked = _read(turn, ApprovalAsked)[-1]
    assert isinstance(asked, ApprovalAsked)
    turn.answer(Decision("call_77", allow=True))  # a stale one: dropped
    turn.answer(Decision(asked.call.id, allow=allow))
    finished = _read(turn, ToolFinished)[-1]
    assert isinstance(finished, ToolFinished)
    assert finished.result.error is not allow


def test_what_was_answered_before_the_question_is_not_its_answer(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL), rules=ASK)
    answered = threading.Event()
    worker.submit(lambda: answered.wait(10))
    turn = _begin(worker, stage)
    turn.answer(None)
    answered.set()
    asked = _read(turn, ApprovalAsked)[-1]
    assert isinstance(asked, ApprovalAsked)
    turn.answer(Decision(asked.call.id, allow=True))
    list(turn)
    assert stage.echo.ran == ["x=1"]


def test_a_stop_answers_an_open_question(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL), rules=ASK)
    turn = _begin(worker, stage)
    _read(turn, ApprovalAsked)
    stage.control.stop()
    turn.done.result(timeout=10)
    assert stage.session.ends == ("stopped",)
    assert stage.echo.ran == []


def test_a_stop_ends_a_turn_that_nobody_reads(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, ("<|channel|>final<|message|>" + "word " * 300,))
    seen: list[None] = []
    turn = Turn(worker, stage.turn(), stage.control, capacity=2, on_event=lambda: seen.append(None))
    wait_until(lambda: len(seen) == 2)
    turn.stop()
    turn.done.result(timeout=10)
    assert stage.session.ends == ("stopped",)


def test_the_tap_is_in_order_with_the_events(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    stage.responder._tap = lambda ids: turn.tap(ids)
    turn = _begin(worker, stage)
    order = [type(item).__name__ for item in turn]
    assert order.index("Tapped") < order.index("ToolStarted") < order.index("ToolFinished")
    assert "Tapped" in order[order.index("ToolFinished") :]


def test_what_breaks_by_our_fault_is_raised_by_its_result(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    stage.responder._tap = lambda ids: 1 / 0
    turn = _begin(worker, stage)
    list(turn)
    with pytest.raises(ZeroDivisionError):
        turn.result()


# -- steering ----------------------------------------------------------------------------------------------------------


def test_a_word_in_the_middle_stands_behind_the_next_result(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (CALL, CALL, FINAL), rules=ASK)
    turn = _begin(worker, stage)
    for text in ("Use y.", "And be quick."):
        turn.steer(text)
    added: list[Message] = []
    for event in turn:
        if isinstance(event, ApprovalAsked):
            turn.answer(Decision(event.call.id, allow=True))
        elif isinstance(event, MessageAdded) and event.steers:
            added.append(event.message)
    assert [message.text for message in added] == ["Use y.", "And be quick."]
    roles = [message.role for message in stage.session.messages]
    step = ["assistant", "assistant", "tool"]
    assert roles == ["user", *step, "user", "user", *step, "assistant"]
    assert stage.session.ends == ("answered",) and turn.control.unsaid() == ()
    assert stage.session.said == "hi\nUse y.\nAnd be quick."


def test_what_comes_too_late_is_given_back(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    turn = _begin(worker, stage)
    turn.steer("Wait!")
    list(turn)
    assert turn.control.unsaid() == ("Wait!",) and turn.control.unsaid() == ()
    assert len(stage.session.messages) == 2


def test_what_was_reasoned_stays_until_the_answer(worker: Worker, etude_tokenizer: Tokenizer) -> None:
    """The reference library's rule renders the same: a user's message within a chain ends nothing, a `final` all."""
    stage = Stage(etude_tokenizer, (CALL, FINAL))
    turn = _begin(worker, stage)
    turn.steer("Use y.")
    list(turn)
    codec, *chain = stage.responder.codec, *stage.session.messages[:-1]

    def rendered(messages: Sequence[Message], drop: DropPolicy) -> str:
        return etude_tokenizer.decode(codec.render(messages, purpose="completion", drop=drop).ids)

    ours = rendered(chain, drop_past_analysis)
    assert ours == rendered(chain, drop_reference)
    assert ours.index("Hm.") < ours.index("x=1") < ours.index("ran x=1") < ours.index("Use y.")
    stage.session.open_turn("Next?")
    history = stage.session.request(()).history
    whole = [*chain, stage.session.messages[-2]]
    assert rendered(history[:-1], drop_past_analysis) == rendered(whole, drop_reference)
    assert [message.text for message in history] == ["hi", "Use y.", "Done.", "Next?"]
