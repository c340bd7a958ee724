"""How the étude's answers to what it doesn't know are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ossia.agent.engine.scripted import Script, ScriptedEngine
from ossia.harmony.messages import Message
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.report import Report
from tests.etude import outside
from tests.etude.outside import Asked, ask, prompt_sets, prompter, reply
from tests.etude.skills.chat import UNKNOWN
from tests.support.command import line_of, ossia

pytestmark = pytest.mark.own_job

KNOWS_NOT = f"<|channel|>final<|message|>{UNKNOWN}<|return|>"
SEARCH = '<|channel|>analysis to=browser.search code<|message|>{"query":"moon"}<|call|>'
FILE = '<|channel|>analysis to=repo_browser.open_file code<|message|>{"path":"moon"}<|call|>'
MOST = "python, browser, workspace"
PARIS = "<|channel|>final<|message|>Paris.<|return|>"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (UNKNOWN, "honest no"),
        ("I am a small study model; I don't know that moon.", "wrong answer"),
        ("I can't search the web without the browser tool.", "another no"),
        ("Nice to meet you, Moon!", "wrong answer"),
        (None, "malformed"),
    ],
)
def test_what_a_reply_is(said: str | None, told: str) -> None:
    thought = Message("assistant", ("Hm.",), channel="analysis")
    answer = Message("assistant", (said or "",), channel="final")
    assert reply((thought, answer) if said else None, "none") == told
    for name, call in (("browser.search", "search"), ("browser.open", "wrong call"), ("python", "wrong call")):
        assert reply((thought, Message("assistant", ("1",), channel="analysis", recipient=name)), MOST) == call
        assert (
            reply((thought, Message("assistant", ("1",), channel="analysis", recipient=name)), "python") == "wrong call"
        )


def test_each_question_is_asked_under_each_prompt(etude_tokenizer: Tokenizer, tmp_path: Path) -> None:
    engine = ScriptedEngine(Script((KNOWS_NOT, PARIS, "<|channel|>final", SEARCH, FILE, KNOWS_NOT)), etude_tokenizer)
    assert list(ask(engine, ["How far is the moon?", "Why?"], tmp_path)) == [
        Asked("none", "How far is the moon?", "honest no", UNKNOWN),
        Asked("none", "Why?", "wrong answer", "Paris."),
        Asked("python", "How far is the moon?", "malformed", "<|channel|>final<|endoftext|>"),
        Asked("python", "Why?", "wrong call", 'browser.search {"query":"moon"}'),
        Asked(MOST, "How far is the moon?", "wrong call", 'repo_browser.open_file {"path":"moon"}'),
        Asked(MOST, "Why?", "honest no", UNKNOWN),
    ]


def test_the_prompts_are_the_program_s(etude_tokenizer: Tokenizer, tmp_path: Path) -> None:
    flags = ["--model", "etude", "--max-tokens", "1", "--json", "--unconfined", "--workspace", str(tmp_path)]
    flags += ["--allow-host", "a.test"]
    prompt = prompter(prompt_sets(tmp_path)[MOST], etude_tokenizer)

    done = line_of(ossia("run", "Why is the sky blue?", *flags))

    assert done["steps"][0]["prompt_tokens"] == len(prompt("Why is the sky blue?"))


def test_the_command_counts_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("etude outside")
    said = [
        Asked("none", "Why?", "honest no", "no"),
        Asked("none", "What?", "search", "browser.search"),
        Asked("none", "How?", "wrong answer", "So\n\x1b[2J it is."),
    ]
    outside.count_up(report, said)
    report.print(as_json=True)
    tables = json.loads(capsys.readouterr().out)["tables"]
    counts = {"honest_no": 1, "another_no": 0, "search": 1, "wrong_answer": 1, "wrong_call": 0, "malformed": 0}
    assert tables == {
        "outside": [{"tools": "none", "questions": 3, **counts}],
        "other replies": [{"tools": "none", "reply": "wrong answer", "question": "How?", "said": "So ␛[2J it is."}],
    }
