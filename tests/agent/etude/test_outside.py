"""How the étude's answers to what it doesn't know are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.engine.scripted import Script, ScriptedEngine
from harmony.messages import Message
from harmony.tokenizer import Tokenizer
from tests.bench.report import Report
from tests.etude import outside
from tests.etude.outside import Asked, ask, prompt_sets, prompter, reply
from tests.support.command import line_of, ossia

KNOWS_NOT = "<|channel|>final<|message|>I am a small study model; I don't know that.<|return|>"
SEARCH = '<|channel|>analysis to=browser.search code<|message|>{"query":"moon"}<|call|>'
PARIS = "<|channel|>final<|message|>Paris.<|return|>"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I am a small study model; I don't know that.", "honest no"),
        ("I can't search the web without the browser tool.", "honest no"),
        ("Nice to meet you, Moon!", "wrong answer"),
        (None, "malformed"),
    ],
)
def test_what_a_reply_is(said: str | None, told: str) -> None:
    thought = Message("assistant", ("Hm.",), channel="analysis")
    answer = Message("assistant", (said or "",), channel="final")
    assert reply((thought, answer) if said else None) == told
    assert reply((thought, Message("assistant", ("1",), channel="analysis", recipient="python"))) == "call"


def test_each_question_is_asked_under_each_prompt(etude_tokenizer: Tokenizer, tmp_path: Path) -> None:
    engine = ScriptedEngine(Script((KNOWS_NOT, PARIS, "<|channel|>final", SEARCH, PARIS, KNOWS_NOT)), etude_tokenizer)
    know, paris = "I am a small study model; I don't know that.", "Paris."
    assert list(ask(engine, ["How far is the moon?", "Why?"], tmp_path)) == [
        Asked("none", "How far is the moon?", "honest no", know),
        Asked("none", "Why?", "wrong answer", paris),
        Asked("python", "How far is the moon?", "malformed", "<|channel|>final<|endoftext|>"),
        Asked("python", "Why?", "call", '{"query":"moon"}'),
        Asked("python, browser, workspace", "How far is the moon?", "wrong answer", paris),
        Asked("python, browser, workspace", "Why?", "honest no", know),
    ]


def test_the_prompts_are_the_program_s(etude_tokenizer: Tokenizer, tmp_path: Path) -> None:
    flags = ["--model", "etude", "--max-tokens", "1", "--json", "--unconfined", "--workspace", str(tmp_path)]
    prompt = prompter(prompt_sets(tmp_path)["python, browser, workspace"], etude_tokenizer)

    done = line_of(ossia("run", "Why is the sky blue?", *flags))

    assert done["steps"][0]["prompt_tokens"] == len(prompt("Why is the sky blue?"))


def test_the_command_counts_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("etude outside")
    said = [Asked("none", "Why?", "honest no", "no"), Asked("none", "How?", "wrong answer", "So\n\x1b[2J it is.")]
    outside.count_up(report, said)
    report.print(as_json=True)
    tables = json.loads(capsys.readouterr().out)["tables"]
    counts = {"questions": 2, "honest_no": 1, "call": 0, "wrong_answer": 1, "malformed": 0}
    assert tables == {
        "outside": [{"tools": "none", **counts}],
        "wrong": [{"tools": "none", "reply": "wrong answer", "question": "How?", "said": "So ␛[2J it is."}],
    }
