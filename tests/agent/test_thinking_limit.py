"""A limit on the thoughts of a step, after which the answer is opened."""

from __future__ import annotations

import pytest

from ossia.agent.events import Event, MessageAdded, Stats, ThinkingCut, TurnEnded
from ossia.agent.limits import Limits
from ossia.harmony.tokenizer import Tokenizer
from tests.support.turns import Stage

THOUGHT = "one two three four five six seven eight nine ten"
THINKS = f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
CALL = "<|channel|>analysis to=python code<|message|>print(1, 2, 3, 4, 5, 6, 7, 8, 9)<|call|>"
FINAL = "<|channel|>final<|message|>Done.<|return|>"


def said(events: list[Event]) -> list[str]:
    told = []
    for event in events:
        match event:
            case MessageAdded(message, cut):
                told.append(f"{message.role}/{message.channel}{' cut' if cut else ''}")
            case ThinkingCut(tokens):
                told.append(f"cut at {tokens}")
            case TurnEnded(end):
                told.append(f"end {end}")
    return told


def test_it_breaks_the_thought_off_and_opens_the_answer(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (THINKS, "Four.<|return|>"))
    events = stage.play(limits=Limits(max_thinking=4))
    assert said(events) == ["user/None", "assistant/analysis cut", "cut at 4", "assistant/final", "end answered"]
    thought = next(message for message in stage.session.messages if message.channel == "analysis")
    assert THOUGHT.startswith(thought.text) and len(etude_tokenizer.encode(thought.text)) == 5
    assert [event.step.end for event in events if isinstance(event, Stats)] == ["thinking", "stop"]
    assert stage.session.messages[-1].text == "Four."


@pytest.mark.parametrize("more", [0, 1])
def test_a_thought_as_long_as_the_limit_goes_on(more: int, etude_tokenizer: Tokenizer) -> None:
    limit = len(etude_tokenizer.encode(THOUGHT)) - 1 + more
    events = Stage(etude_tokenizer, (THINKS + FINAL, "Cut.<|return|>")).play(limits=Limits(max_thinking=limit))
    assert any(isinstance(event, ThinkingCut) for event in events) == (more == 0)


def test_each_step_has_it_anew_and_code_is_no_thought(etude_tokenizer: Tokenizer) -> None:
    """A task with many calls isn't cut for the sum of its thoughts."""
    limit = len(etude_tokenizer.encode(THOUGHT))
    steps = (THINKS + CALL, THINKS + CALL, THINKS + FINAL)
    stage = Stage(etude_tokenizer, steps)
    events = stage.play(limits=Limits(max_thinking=limit))
    assert said(events)[-2:] == ["assistant/final", "end answered"]
    assert not any(isinstance(event, ThinkingCut) for event in events) and len(stage.echo.ran) == 2


@pytest.mark.parametrize(
    "beginning",
    ["", "<|channel|>", "<|channel|>commentary<|message|>", "<|channel|>odd<|message|>", f"{THINKS}<|channel|>"],
)
def test_whatever_is_no_answer_and_no_call_counts(beginning: str, etude_tokenizer: Tokenizer) -> None:
    """Thoughts without a header, in an endless one, in a preamble."""
    endless = " ".join(f"{number} is even." for number in range(0, 200, 2))
    stage = Stage(etude_tokenizer, (f"{beginning}{endless}{FINAL}", "Four.<|return|>"))
    events = stage.play(limits=Limits(max_thinking=20))
    assert said(events)[-3:] == ["cut at 20", "assistant/final", "end answered"]
    assert stage.session.messages[-1].text == "Four." and "100 is even" not in str(stage.session.messages)


def test_without_a_limit_nothing_is_counted(etude_tokenizer: Tokenizer) -> None:
    events = Stage(etude_tokenizer, (THINKS + FINAL,)).play()
    assert said(events) == ["user/None", "assistant/analysis", "assistant/final", "end answered"]
