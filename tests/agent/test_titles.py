"""The model's title: asked beside the conversation, and judged before anybody sees it."""

from __future__ import annotations

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.titles import as_title, written_title
from ossia.harmony.tokenizer import Tokenizer
from tests.support.turns import Stage

THINK = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>Done.<|return|>"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Multiplying 48 by 17", "Multiplying 48 by 17"),
        ('**"Multiplying 48 by 17"**\n', "Multiplying 48 by 17"),
        ("# Llamas  and\tAlpacas", "Llamas and Alpacas"),
        ("`parse_header` crashes on empty input", "parse_header crashes on empty input"),
        ("C++, Rust & Go: build times", "C++, Rust & Go: build times"),
        ("ラマとアルパカの違い", "ラマとアルパカの違い"),
        ("Größe der Tabelle ändern", "Größe der Tabelle ändern"),
        ("", ""),
        ("Llamas", ""),
        ("ラマ", ""),
        ("48 17", ""),
        ("one two three four five six seven eight nine", ""),
        ("a " + "x" * 80, ""),
        ("I can't help with that.", ""),
        ("What can I do for you?", ""),
        ("Here is a title:\nLlamas in Peru", ""),
        ("See [the llamas](http://evil.example)", ""),
        ("Llamas: see http://evil.example now", ""),
        ("<b>Llamas in Peru</b>", ""),
        ('{"title": "Llamas in Peru"}', ""),
        ("Llamas \x1b[31min Peru", ""),
        ("Llamas \u202ein Peru", ""),
        ("Llamas\u2028in Peru", ""),
        *((" ".join(["\u3164\u115f"] * words), "") for words in (1, 2, 8)),
        ("\u115f" * 8, ""),
        ("Llamas\u3164in Peru\u2800", "Llamas in Peru"),
    ],
)
def test_what_can_be_a_title(said: str, title: str) -> None:
    assert as_title(said) == title


@pytest.mark.parametrize(
    ("said", "title"),
    [("Llamas in Peru<|return|>", "Llamas in Peru"), ("Llamas in Peru " * 20, ""), ("Llamas<|return|>", "")],
)
def test_it_is_asked_where_the_next_turn_will_begin(said: str, title: str, etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (THINK + ANSWER, said, ANSWER))
    stage.play("hi")
    prompts: list[Prompt] = []
    generate = stage.engine.generate

    def note(asked: Task | Prompt, *, control: Control, **_: object) -> object:
        prompts.append(asked.prompt if isinstance(asked, Task) else asked)
        return generate(asked, control=control) if isinstance(asked, Task) else None

    stage.engine.generate = stage.engine.prefill = note  # type: ignore[method-assign, assignment]
    before, request = stage.session.messages, stage.session.request_ahead(stage.toolbox.specs)
    assert written_title(request, stage.responder, control=Control()) == title
    assert stage.session.messages == before
    stage.responder.prefill(request, control=Control())
    stage.play("more")
    asked, ahead, real = prompts
    assert asked.side_question == len(ahead.ids) == asked.marks[-1]
    assert asked.ids[: asked.side_question] == ahead.ids == real.ids[: asked.side_question]
    assert (asked.marks[:-1], asked.static) == (ahead.marks, ahead.static)
    rest = etude_tokenizer.decode(asked.ids[asked.side_question :])
    assert rest.endswith("the title alone.<|end|><|start|>assistant<|channel|>final<|message|>")


def test_a_stop_leaves_none(etude_tokenizer: Tokenizer) -> None:
    stage = Stage(etude_tokenizer, (ANSWER, "Llamas in Peru<|return|>"))
    stage.play("hi")
    control = Control()
    control.stop()
    assert written_title(stage.session.request_ahead(()), stage.responder, control=control) == ""
