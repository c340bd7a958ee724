"""The words of approvals, the edit of a call, and a whole question in the chat."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.events import ApprovalAsked, Decision
from cli.runtime.approval_text import arguments_to_edit, decision_of, edited_arguments, explanation, question_of, unseen
from cli.terminal.question import QUIET_S
from tests.support.command import write_script
from tests.support.screen import ChatScreen, Clock
from tools.approval.policy import FROM_OUTSIDE
from tools.calls.arguments import ArgumentReader
from tools.spec import Preview, ToolCall, ToolSpec
from tools.toolbox import CHANGED

SHELL = ToolSpec("functions.shell", "", effects=frozenset({"run", "write"}), provenance="built-in")


def _asked(name: str, arguments: object, preview: Preview | None = None, **more: object) -> ApprovalAsked:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    given = {"reason": "it can run code", "rules": (), "arguments": arguments, **more}
    return ApprovalAsked(ToolCall("c", name, text), preview or Preview("do it"), **given)  # type: ignore[arg-type]


LS = _asked(
    "functions.shell",
    {"command": "ls -l", "timeout_s": 5},
    Preview("run ls -l", "ls -l", "sh", ("ls -l",), command=True),
    rules=("shell:ls -l",),
)


def test_a_question_as_the_screen_gets_it() -> None:
    question = question_of(LS, spec=SHELL)
    assert (question.title, question.reason) == ("functions.shell: run ls -l", "it can run code")
    assert not question.careful
    assert (question.detail, question.language) == ("ls -l", "sh")
    assert [key for key, _ in question.keys] == ["y", "n", "s", "a", "e"]
    assert question.note == '"a" will always allow `ls -l` here'
    anywhere = question_of(replace(LS, rules=("functions.send",)), workspace=False)
    assert anywhere.note == '"a" will always allow `functions.send` where there is no workspace'


def test_what_must_be_answered_each_time() -> None:
    hint = "start with --trust if the files of the workspace are your own"
    asked = _asked("functions.shell", {"command": "ls"}, LS.preview, reason=FROM_OUTSIDE, firm=True)
    question = question_of(asked, hint=hint)
    assert [key for key, _ in question.keys] == ["y", "n", "e"]
    assert question.careful and question.reason == f"asking because {FROM_OUTSIDE}; {hint}" and question.note == ""
    assert "a  always" not in question.explanation and "only a rule that you wrote" in question.explanation
    assert hint not in question_of(_asked("python", "x", reason="it runs unconfined", firm=True), hint=hint).reason


def test_what_it_explains() -> None:
    told = explanation(LS, spec=SHELL)
    assert told.splitlines()[:3] == [
        "functions.shell: run ls -l",
        "Asked because: it can run code.",
        "It may change files, run code.",
    ]
    assert "s  this session: it runs, and you aren't asked about exactly `ls -l` again" in told
    assert "shell:ls -l (`ossia trust --forget RULE` undoes that)" in told
    written = _asked("functions.write_file", {}, Preview("w", subjects=("a.md", "b.md"), effects=frozenset({"write"})))
    assert "It is about: a.md, b.md" in explanation(written)
    assert "aren't asked about functions.write_file on a.md, b.md again" in explanation(written)
    assert "Nothing confines it" in explanation(_asked("python", "x", Preview("r", unconfined=True)))


def test_what_a_terminal_does_not_show_is_counted() -> None:
    assert [unseen(text) for text in ("plain\r\n", "👨\u200d👩\u200d👧 ❤\ufe0f")] == [0, 0]
    assert [unseen(text) for text in ("漢\u200d字", "漢\ufe0f", "→\u200dx", "🎉\u200d", "👍🏽🇩🇪")] == [1, 1, 1, 1, 0]
    assert [unseen(text) for text in ("a\u202eb\u200b", "a\u200db", "\U000e0041")] == [2, 1, 1]
    question = question_of(_asked("functions.write_file", {}, Preview("w", "+a\u202eb\n", "diff")))
    assert question.careful and question.reason.endswith("it holds invisible characters (1)")


def test_a_fault_of_an_edit_is_told() -> None:
    assert question_of(_asked("f", {}, fault="Error: no")).fault == "Your change can't be used: Error: no"


@pytest.mark.parametrize(
    ("key", "decision", "stored"),
    [
        ("y", Decision("c", True), []),
        ("n", Decision("c", False), []),
        ("s", Decision("c", True, "session"), []),
        ("a", Decision("c", True, "session"), ["shell:ls -l"]),
    ],
)
def test_a_key_is_a_decision(key: str, decision: Decision, stored: list[str]) -> None:
    kept: list[str] = []
    store = lambda rules: kept.extend(rules)  # noqa: E731
    assert (decision_of(LS, key, store), kept) == (decision, stored)


PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
TEXT = ToolSpec("functions.apply_patch", "", {"type": "string"}, provenance="built-in")
COMMAND = ToolSpec(
    "functions.shell",
    "",
    {"type": "object", "properties": {"command": {"type": "string"}, "timeout_s": {}}},
    provenance="built-in",
)
STRINGS = {"path": {"type": "string"}, "content": {"type": "string"}}
WRITE = ToolSpec("functions.write_file", "", {"type": "object", "properties": STRINGS}, provenance="built-in")
OBJECT = ToolSpec("functions.f", "", {"type": "object", "properties": {"x": {}, "y": {}}}, provenance="built-in")
PYTHON = ToolSpec("python", "", input="text", provenance="built-in")


@pytest.mark.parametrize(
    ("spec", "arguments", "shown", "suffix", "written", "read"),
    [
        (PYTHON, "print(1)\n", "print(1)\n", ".py", "print(2)\n", "print(2)\n"),
        (COMMAND, {"command": "ls", "timeout_s": 5}, "ls", ".sh", "ls\n-l", {"command": "ls\n-l", "timeout_s": 5}),
        (TEXT, PATCH, PATCH, ".patch", PATCH.replace("+x", "+é"), PATCH.replace("+x", "+é")),
        (TEXT, PATCH, PATCH, ".patch", '{"patch": "y"}', '{"patch": "y"}'),  # the text itself, whatever it looks like
        (WRITE, {"path": "a.py", "content": "x\n"}, "x\n", ".py", "{\n", {"path": "a.py", "content": "{\n"}),
        (WRITE, {"path": "a/.b c", "content": "x"}, "x", ".txt", "y", {"path": "a/.b c", "content": "y"}),
        (OBJECT, {"x": 1, "y": "é"}, '{\n  "x": 1,\n  "y": "é"\n}', ".json", '{"x": 2}', {"x": 2}),
        (COMMAND, {"timeout_s": 5}, '{\n  "timeout_s": 5\n}', ".json", '{"timeout_s": 6}', {"timeout_s": 6}),
    ],
)
def test_an_edit_there_and_back(
    spec: ToolSpec, arguments: object, shown: str, suffix: str, written: str, read: object
) -> None:
    asked = _asked(spec.name, arguments)
    assert arguments_to_edit(asked) == (shown, suffix)
    assert edited_arguments(asked, shown) is edited_arguments(asked, " \n") is None
    text = edited_arguments(asked, written)
    if shown.endswith("\n"):
        assert edited_arguments(asked, written.removesuffix("\n")) == text
    assert text is not None and ArgumentReader(spec).read(text) == read
    again = _asked(spec.name, arguments, rejected=text, fault="Error: no")
    assert arguments_to_edit(again) == (written, suffix), "what had a fault isn't lost"


# -- in the chat -------------------------------------------------------------------------------------------------------


def _write(name: str, content: str) -> str:
    arguments = json.dumps({"path": name, "content": content})
    return f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{arguments}<|call|>"


FINAL = "<|channel|>final<|message|>Done.<|return|>"


def _editor(folder: Path, code: str) -> str:
    """An $EDITOR that changes the file it is given, `text`, with some Python."""
    script = folder / "editor.py"
    script.write_text(
        f"import pathlib, sys\np = pathlib.Path(sys.argv[1])\ntext = p.read_text()\n{code}\np.write_text(text)\n"
    )
    return shlex.join([sys.executable, str(script)])


async def _answer(stage: ChatScreen, clock: Clock, key: str) -> None:
    """Wait for the question, and let the time pass until it listens; press a key."""
    await stage.until(lambda: stage.face.question.open)
    await stage.until(lambda: "[y] yes" in "\n".join(stage.rows))
    clock.now += QUIET_S
    await stage.type(key)
    await stage.until(lambda: not stage.face.question.open)


def test_a_call_that_is_changed_in_the_editor_and_then_allowed_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", _editor(tmp_path, "text = text.replace('two', 'three')"))
    work = tmp_path / "work"
    work.mkdir()
    script = write_script(tmp_path, _write("a.md", "two\n"), _write("a.md", "four\n"), FINAL)

    clock = Clock()

    async def scene() -> None:
        async with ChatScreen(engine=script, workspace=str(work), trust=True, no_tools=None, clock=clock) as stage:
            await stage.type("yes, write it\r")  # typed ahead: no answer
            await _answer(stage, clock, "e")
            await stage.until(lambda: "+three" in "\n".join(stage.rows))
            assert not (work / "a.md").exists()
            await _answer(stage, clock, "a")
            await stage.settle()
            assert (work / "a.md").read_text() == "four\n", "the second call needed no answer"
            assert "Done." in stage.rows and "[y] yes" not in "\n".join(stage.rows)
            model, result = [entry.message.text for entry in stage.talk.session.entries[1:3]]
            assert json.loads(model)["content"] == "two\n", "what the model wrote stays as it was"
            assert result.startswith(f"{CHANGED} functions.write_file ") and "three" in result
            assert [str(rule) for rule in stage.talk.assembly.tools.grants.rules(work)] == ["write_file:a.md"]  # type: ignore[union-attr]

    asyncio.run(scene())
