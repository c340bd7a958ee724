"""What is read ahead is the beginning of the prompt that comes next, whatever the turn before it came to."""

from __future__ import annotations

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Static, Task
from ossia.agent.limits import Limits
from ossia.agent.request import Request
from ossia.agent.sessions.session import Options, Session, Summary
from ossia.harmony.messages import Message, ResponseFormat
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.spec import ToolSpec
from tests.support.turns import Stage

THINK = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"
CALL = "<|channel|>analysis to=python code<|message|>x=1<|call|>"
FINAL = "<|channel|>final<|message|>Done.<|return|>"
SECOND = "<|channel|>final<|message|>Two.<|return|>"
TURNS: dict[str, tuple[str, ...]] = {
    "an answer": (THINK + FINAL,),
    "a call": (THINK + CALL, THINK + FINAL),
    "a call that was cut": (THINK + "<|channel|>commentary to=functions.double json<|message|>{",),
    "thoughts that were cut": ("<|channel|>analysis<|message|>Let me",),
    "an answer that was cut": ("<|channel|>final<|message|>Well, ",),
    "an empty answer": ("<|channel|>final<|message|><|return|>",),
    "nothing": ("<|return|>",),
}


def _watched(stage: Stage) -> list[Prompt]:
    """The prompts that the engine gets from now on, to generate and ahead."""
    prompts: list[Prompt] = []
    generate = stage.engine.generate

    def note(asked: Task | Prompt, *, control: Control, **_: object) -> object:
        prompts.append(asked.prompt if isinstance(asked, Task) else asked)
        return generate(asked, control=control) if isinstance(asked, Task) else None

    stage.engine.generate = stage.engine.prefill = note  # type: ignore[method-assign, assignment]
    return prompts


@pytest.mark.parametrize("steps", TURNS.values(), ids=TURNS.keys())
@pytest.mark.parametrize("stops", [False, True])
def test_it_is_the_beginning_of_the_next_prompt(
    steps: tuple[str, ...], stops: bool, etude_tokenizer: Tokenizer
) -> None:
    stage = Stage(etude_tokenizer, (THINK + FINAL, *steps, SECOND, SECOND))
    stage.play("hi")
    limits = Limits(max_tokens=6) if stops else None  # in the middle of whatever it was about to say
    stage.play("and then?", limits=limits)
    prompts = _watched(stage)
    before = stage.session.messages
    stage.responder.prefill(stage.session.request_ahead(stage.toolbox.specs), control=Control())
    assert stage.session.messages == before
    stage.play("more")
    ahead, real = prompts[:2]
    assert ahead.ids == real.ids[: len(ahead.ids)]
    rest = etude_tokenizer.decode(real.ids[len(ahead.ids) :])
    assert rest == "more<|end|><|start|>assistant"
    assert (ahead.marks, ahead.static) == (real.marks[: len(ahead.marks)], real.static)
    assert ahead.marks == real.marks[:-2]  # and none of its own: it costs no checkpoint


def test_a_new_conversation_begins_with_its_static_part(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL,))
    prompts = _watched(stage)
    stage.responder.prefill(stage.session.request_ahead(stage.toolbox.specs), control=Control())
    stage.play("hi")
    ahead, real = prompts
    assert etude_tokenizer.decode(real.ids[len(ahead.ids) :]) == "hi<|end|><|start|>assistant"
    assert etude_tokenizer.decode(ahead.ids[ahead.static[-1].length :]) == "<|start|>user<|message|>"


def test_a_summary_stands_where_it_will(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (FINAL, SECOND, SECOND))
    stage.play("hi")
    stage.play("more")
    stage.session.summarise(Summary("They greeted.", 1))
    prompts = _watched(stage)
    stage.responder.prefill(stage.session.request_ahead(stage.toolbox.specs), control=Control())
    stage.play("again")
    assert prompts[0].ids == prompts[1].ids[: len(prompts[0].ids)]


def test_what_does_not_fit_is_not_read(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (), context_tokens=64)
    prompts = _watched(stage)
    stage.responder.prefill(stage.session.request_ahead(stage.toolbox.specs), control=Control())
    assert prompts == []


OWN = ToolSpec("functions.mine", "Mine.", provenance="user", origin="file tools.py")
OURS = ToolSpec("repo_browser.open_file", "Reads.", trained=True, section="Files.", provenance="built-in")


@pytest.mark.parametrize(
    ("options", "tools", "personal"),
    [
        (Options(), (OURS,), [False, False]),
        (Options(), (OWN,), [False, True]),
        (Options(instructions="Be kind."), (OURS,), [False, True]),
        (Options(response_format=ResponseFormat("answer", {"type": "object"})), (OURS,), [False, True]),
    ],
)
def test_a_static_part_says_whether_texts_of_the_users_are_in_it(
    options: Options, tools: tuple[ToolSpec, ...], personal: list[bool], etude_tokenizer: Tokenizer
) -> None:
    stage = Stage(etude_tokenizer, ())
    prompts = _watched(stage)
    session = Session(options)
    stage.responder.prefill(session.request_ahead(tools), control=Control())
    assert [part.personal for part in prompts[0].static] == personal
    system = stage.responder.codec.render([Message("system", ("",))])
    assert prompts[0].static[0] != Static(len(system.ids))


def test_a_request_ahead_has_the_options_of_the_session() -> None:
    session = Session(Options(effort="high", date="2025-06-28"))
    assert session.request_ahead((OURS,)) == Request((), (OURS,), effort="high", date="2025-06-28")
