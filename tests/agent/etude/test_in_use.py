"""Unseen questions put to the program with tools that can really be had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.report import Report
from tests.etude import in_use
from tests.etude.dialogues import Dialogue
from tests.etude.exam.worlds import Question, make_question, payload
from tests.etude.in_use import SKILLS, Both, Told, ask, count_up, make_questions
from tests.etude.prompts import Prefix
from tests.support.engines import ETUDE
from tests.support.folders import Folder

PROMPT = """\
// Gets it.
type f = (_: {
a: string,
}) => any;

// Two
// lines.
type g = () => any;

type h = (_: {
a: string,
// How.
b?: "x" | "y", // default: x
c?: number,
}) => any;"""
ASKED = "Why is the sky blue?"
PREFIX = Prefix(PROMPT, "2024-05-06")
THOUGHT = "<|channel|>analysis<|message|>Use it.<|end|><|start|>assistant"


def _dialogue(user: str, answer: str, *call: str, kind: str = "one") -> Dialogue:
    """`call`: the header's rest, the arguments, who answers, and with what."""
    segments = [(f"<|start|>user<|message|>{user}<|end|>", False), ("<|start|>assistant", False), (THOUGHT, True)]
    if call:
        to, arguments, name, result = call
        segments += [(f"<|channel|>{to}<|message|>{arguments}<|call|>", True)]
        segments += [(f"<|start|>{name} to=assistant<|channel|>analysis<|message|>{result}<|end|>", False)]
        segments += [("<|start|>assistant", False), (THOUGHT, True)]
    return Dialogue("skill", kind, (*segments, (f"<|channel|>final<|message|>{answer}<|return|>", True)))


def _call(function: str, arguments: str, result: str) -> tuple[str, str, str, str]:
    name = f"functions.{function}"
    return f"commentary to={name} <|constrain|>json", arguments, name, result


def _formed(output: str) -> str:
    return f"<returncode>0</returncode>\n<output>\n{output}\n</output>\ncwd: /work"


def _work(function: str, path: str, output: str, **more: str) -> Question:
    return Question("files", ASKED, ((f"repo_browser.{function}", {"path": path, **more}),), output, f"So:\n{output}")


def test_a_question_is_a_dialogue_s() -> None:
    assert make_question(PREFIX, _dialogue(ASKED, "It is 2024-05-06."), "2026-11-22") == Question(
        "skill", ASKED, (), "", "It is 2026-11-22."
    )
    python = _dialogue(
        ASKED, "It is 2.", "analysis to=python code", "print(1+1)", "python", "[WARN] this is a new kernel: x\n2"
    )
    assert make_question(PREFIX, python, "") == Question("skill", ASKED, (("python", "print(1+1)"),), "2", "It is 2.")
    two = _dialogue(ASKED, "It says: x", *_call("g", "{}", "x"))
    assert make_question(PREFIX, two, "") == Question(
        "skill", ASKED, (("functions.g", {}),), "x", "It says: x", "Two\nlines."
    )
    spare = make_question(PREFIX, _dialogue(ASKED, "It says: x", *_call("h", '{"a":"z"}', "x")), "")
    assert spare and spare.spare == {"b": 'Literal["x", "y"] = "x"', "c": "int = 0"}


@pytest.mark.parametrize(
    "dialogue",
    [
        _dialogue("/help", "Yes."),
        _dialogue("Mail me@x", "Yes."),
        _dialogue(ASKED, "My tools:\npython", kind="tools"),
        _dialogue(ASKED, "The tool failed.", *_call("f", "{}", "Error: no")),
        _dialogue(ASKED, "It says: x", *_call("class", "{}", "x")),
        _dialogue(ASKED, "It says: x", *_call("f", '{"a":{"b":1}}', "x")),
        _dialogue(ASKED, "So", "analysis to=repo_browser.open_file code", '{"path":"/etc/x"}', "x", _formed("x")),
        _dialogue(ASKED, "So", "analysis to=container.exec code", '{"command":["ls"]}', "x", _formed("x")),
        _dialogue(ASKED, "So", "analysis to=browser.search code", '{"query":"x"}', "x", "x"),
    ],
)
def test_some_worlds_cannot_be_made(dialogue: Dialogue) -> None:
    assert make_question(PREFIX, dialogue, "") is None


@pytest.mark.parametrize(
    "question",
    [
        _work("open_file", "./src/a.txt", "one\ntwo"),
        _work("list_dir", "src/deep", "a.txt\nb/"),
        _work("list_dir", ".", "a.txt"),
        _work("print_tree", "src", "a/\n  b/\n    c.txt\n  d.txt\ne/\n  f.txt"),
        _work("search", ".", "a.txt:2:blue harbor\nsrc/b.md:1:a harbor\nsrc/b.md:3:harbors", query="harbor"),
        _work("search", "src", "src/b.md:1:a harbor", query="harbor"),
    ],
)
def test_a_folder_has_what_is_asked_about(question: Question, tmp_path: Path) -> None:
    (name, arguments), flags = question.calls[0], question.prepare(tmp_path)
    folder = Folder(tmp_path / "work")
    assert flags == ["--workspace", str(folder.root), "--allow", "repo_browser.apply_patch"]
    assert isinstance(arguments, dict)
    given = arguments | ({"depth": 9} if name.endswith("tree") else {})

    result = folder.call(name.removeprefix("repo_browser."), **given)

    assert payload(result.text) == question.result
    assert question.right_answer(result.text) == question.answer


def test_a_function_gives_what_it_should(tmp_path: Path) -> None:
    call = ("functions.f", {"a": "x", "b": 1, "c": True, "d": 0.5, "e": ["y"]})
    question = Question(
        "functions", ASKED, (call,), 'a "word"', 'It says: a "word"', 'Gets "it".', {"f": 'Literal["x"] = "x"'}
    )

    tools, path = question.prepare(tmp_path)

    code = "import sys, functions; print(functions.f('x', 1, True, 0.5, ['y'], 'x'), functions.f.__doc__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert (tools, path) == ("--tools", str(tmp_path / "functions.py"))
    assert done.stdout == 'a "word" Gets "it".\n'


def test_the_answer_follows_from_what_the_tool_really_said() -> None:
    question = Question("arithmetic", ASKED, (("python", "print(1+1)"),), "3", "The result is 3.")
    assert question.right_answer("[WARN] this is a new kernel: variables lost\n2") == "The result is 2."


def test_questions_of_each_skill() -> None:
    for skill in SKILLS:
        questions = list(make_questions(skill, 3, "values", 1))
        assert [one.skill for one in questions] == 3 * [questions[0].skill]
        assert questions == list(make_questions(skill, 3, "values", 1))


@pytest.mark.needs_bwrap
def test_run_and_the_chat_tell_the_same() -> None:
    question = Question("arithmetic", "What is 48*17?", (("python", "print(48*17)"),), "1", "The result is 1.")

    both = ask(ETUDE, question)

    assert (both.run.calls, both.run.answer) == (question.calls, "The result is 816.")
    assert both.run.is_right(question) and both.chat.is_right(question) and not both.differ


def test_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    question = Question("chat", "Why is\nthe sky blue?", (), "", "hi")
    right, wrong = Told((), "", "hi"), Told((("functions.f", {"a": 1}),), "", "h\x1bo")
    report = Report("etude in use")
    count_up(report, [Both(question, right, right), Both(question, right, wrong)])
    report.print(as_json=True)
    tables = json.loads(capsys.readouterr().out)["tables"]
    counts = {"questions": 2, "run_right": 2, "chat_right": 1, "differ": 1}
    told = {"wanted": "hi", "told": 'functions.f {"a": 1} → h␛o'}
    assert tables == {
        "in use": [{"skill": skill, **counts} for skill in ("chat", "all")],
        "wrong": [{"skill": "chat", "way": "chat", "question": ASKED, **told}],
    }


@pytest.mark.needs_bwrap
def test_the_first_command_of_the_readme() -> None:
    assert in_use.first_command(ETUDE, 1) == 1
