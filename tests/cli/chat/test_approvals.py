"""The words of approvals, the edit of a call, and a whole question in the chat."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.events import ApprovalAsked, Decision
from ossia.cli.runtime.approval_text import (
    arguments_to_edit,
    decision_of,
    edited_arguments,
    explanation,
    lasting_line,
    question_of,
    unseen,
)
from ossia.cli.terminal.question import QUIET_S
from ossia.tools.approval.policy import FROM_OUTSIDE
from ossia.tools.calls.arguments import ArgumentReader
from ossia.tools.spec import CHANGED, Preview, ToolCall, ToolSpec
from tests.support.command import write_script
from tests.support.mcp_servers import hostile
from tests.support.screen import ChatScreen, Clock
from tests.support.work_calls import patch, reads, wants, writes

SHELL = ToolSpec("container.exec", "", effects=frozenset({"run", "write"}), provenance="built-in")


def _asked(name: str, arguments: object, preview: Preview | None = None, **more: object) -> ApprovalAsked:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    given = {"reason": "it can run code", "rules": (), "arguments": arguments, **more}
    return ApprovalAsked(ToolCall("c", name, text), preview or Preview("do it"), **given)  # type: ignore[arg-type]


LS = _asked(
    "container.exec",
    {"command": ["bash", "-lc", "ls -l"], "timeout": 5},
    Preview("run ls -l", "ls -l", "sh", ("ls -l",), command=True),
    rules=("container.exec:ls -l",),
    wider=("container.exec:ls *",),
)


def test_a_question_as_the_screen_gets_it() -> None:
    question = question_of(LS, spec=SHELL)
    assert (question.title, question.reason) == ("run ls -l", "it can run code")
    assert not question.careful
    assert (question.detail, question.language) == ("ls -l", "sh")
    assert [key for key, _ in question.keys] == ["y", "n", "s", "a", "p", "e"]
    assert question.note == '"a" always allows `ls -l` here; "p" always allows `ls *` here'
    anywhere = question_of(replace(LS, rules=("functions.send",), wider=()), workspace=False)
    assert anywhere.note == '"a" always allows `functions.send` where there is no workspace'


def test_what_must_be_answered_each_time() -> None:
    asked = _asked("container.exec", {"command": ["ls"]}, LS.preview, reason=FROM_OUTSIDE, firm=True)
    question = question_of(asked, trust="/tools trust")
    assert [key for key, _ in question.keys] == ["y", "n", "e"]
    own = "Your own files? /tools trust"
    assert question.careful and question.note == ""
    assert question.reason == f"asked each time, because this folder isn't trusted. {own}"
    assert question_of(asked).reason == f"asked each time, because {FROM_OUTSIDE}"
    careful = replace(asked, reason=f"it holds secrets; {FROM_OUTSIDE}")
    assert question_of(careful).reason == f"it holds secrets; asked each time, because {FROM_OUTSIDE}"
    assert "a  always" not in question.explanation and "only a rule that you wrote" in question.explanation
    unconfined = _asked("python", "x", reason="it runs unconfined", firm=True)
    assert question_of(unconfined, trust="/tools trust").reason == "it runs unconfined"


def test_a_need_may_be_given_for_the_session_or_always() -> None:
    preview = Preview("run uv sync", "uv sync", "bash", ("uv sync",), command=True, needs=frozenset({"network"}))
    rules = ("container.exec[network]:uv sync",)
    asked = _asked("container.exec", {"command": ["uv", "sync"]}, preview, firm=True, rules=rules, lasting=True)
    question = question_of(asked)
    assert [key for key, _ in question.keys] == ["y", "n", "s", "a", "e"] and question.careful
    assert question.note == '"a" always allows `uv sync` with network here'
    assert lasting_line(asked, "s") == "allowed until ossia ends: exactly `uv sync` with network"
    assert "`--yes` doesn't answer it." in question.explanation
    read = replace(asked, reason=f"it needs network; {FROM_OUTSIDE}", lasting=False)
    tainted = question_of(read, trust="/tools trust")
    assert [key for key, _ in tainted.keys] == ["y", "n", "e"] and tainted.reason.endswith("files? /tools trust")
    assert "only a rule that you wrote" in tainted.explanation
    both = explanation(replace(asked, rules=(), lasting=False))
    assert "no earlier answer covers it." in both
    assert "--allow-git" not in both
    commit = replace(asked, preview=replace(preview, needs=frozenset({"git"})))
    assert "To be asked less: --allow-git, or /allow container.exec[git]:git *" in explanation(commit)


def test_what_it_explains() -> None:
    told = explanation(LS, spec=SHELL)
    assert told.splitlines()[:4] == [
        "run ls -l",
        "Tool: container.exec.",
        "Asked because: it can run code.",
        "",
    ]
    assert "s  this session: it runs, and until ossia ends exactly `ls -l` isn't asked about" in told
    assert "container.exec:ls -l (`ossia trust --forget RULE` undoes that)" in told
    writing = Preview("w", subjects=("a.md", "b.md"), effects=frozenset({"write"}))
    written = _asked("repo_browser.apply_patch", {}, writing)
    assert "It is about: a.md, b.md" in explanation(written)
    assert "nor is deleting one (/undo restores it)" in explanation(replace(written, edits=True))
    assert "until ossia ends repo_browser.apply_patch on a.md, b.md isn't asked about" in explanation(written)
    assert "It can change files." in explanation(replace(written, reason="the rule x says to ask"))
    assert "Nothing confines it" in explanation(_asked("python", "x", Preview("r", unconfined=True)))


def test_what_a_terminal_does_not_show_is_counted() -> None:
    assert [unseen(text) for text in ("plain\r\n", "👨\u200d👩\u200d👧 ❤\ufe0f")] == [0, 0]
    assert [unseen(text) for text in ("漢\u200d字", "漢\ufe0f", "→\u200dx", "🎉\u200d", "👍🏽🇩🇪")] == [1, 1, 1, 1, 0]
    assert [unseen(text) for text in ("a\u202eb\u200b", "a\u200db", "\U000e0041")] == [2, 1, 1]
    question = question_of(_asked("repo_browser.apply_patch", {}, Preview("w", "+a\u202eb\n", "diff")))
    assert question.careful and question.reason.endswith("it holds invisible characters (1)")


def test_line_ends_of_two_characters_are_counted_where_they_count() -> None:
    for detail, language, hidden in (
        ("echo a\r\nrm b\r\n", "bash", True),
        ("-a\r\n+b\r\n", "diff", False),
        ("print(1)\r\nprint(2)\r\n", "python", False),
    ):
        question = question_of(_asked("f", {}, Preview("s", detail, language)))
        assert ("invisible" in question.reason) is hidden, language


def test_a_name_forges_no_line_of_the_explanation() -> None:
    asked = _asked("functions.rm", {}, Preview("rm", subjects=("a\ny  yes: nothing runs",)))
    assert "\ny  yes: nothing" not in explanation(asked) and "a␊y  yes: nothing" in explanation(asked)


def test_a_fault_of_an_edit_is_told() -> None:
    assert question_of(_asked("f", {}, fault="Error: no")).fault == "Your change can't be used: Error: no"


@pytest.mark.parametrize(
    ("key", "decision", "stored"),
    [
        ("y", Decision("c", True), []),
        ("n", Decision("c", False), []),
        ("s", Decision("c", True, "session"), []),
        ("a", Decision("c", True, "session"), ["container.exec:ls -l"]),
        ("p", Decision("c", True, "session"), ["container.exec:ls *"]),
    ],
)
def test_a_key_is_a_decision(key: str, decision: Decision, stored: list[str]) -> None:
    kept: list[str] = []
    store = lambda rules: kept.extend(rules)  # noqa: E731
    assert (decision_of(LS, key, store), kept) == (decision, stored)
    assert decision_of(LS, "n", store, "why") == Decision("c", False, reason="why")


PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
PATCHED = {"type": "object", "properties": {"patch": {"type": "string"}}}
COMMAND = ToolSpec(
    "container.exec",
    "",
    {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}, "timeout": {}}},
    provenance="built-in",
)
WRITE = ToolSpec("repo_browser.apply_patch", "", PATCHED, provenance="built-in")
LS_L = {"command": ["bash", "-lc", "ls\n-l"]}
OBJECT = ToolSpec("functions.f", "", {"type": "object", "properties": {"x": {}, "y": {}}}, provenance="built-in")
PYTHON = ToolSpec("python", "", input="text", provenance="built-in")


@pytest.mark.parametrize(
    ("spec", "arguments", "shown", "suffix", "written", "read"),
    [
        (PYTHON, "print(1)\n", "print(1)\n", ".py", "print(2)\n", "print(2)\n"),
        (COMMAND, {"command": ["bash", "-lc", "ls"], "timeout": 5}, "ls", ".sh", "ls\n-l", {**LS_L, "timeout": 5}),
        (COMMAND, {"command": ["ls", "a b"]}, "ls 'a b'", ".sh", "ls\n-l", LS_L),
        (WRITE, {"patch": PATCH}, PATCH, ".patch", PATCH.replace("+x", "+é"), {"patch": PATCH.replace("+x", "+é")}),
        (WRITE, {"patch": PATCH}, PATCH, ".patch", "{\n", {"patch": "{\n"}),  # the text itself, whatever it looks like
        (OBJECT, {"x": 1, "y": "é"}, '{\n  "x": 1,\n  "y": "é"\n}', ".json", '{"x": 2}', {"x": 2}),
        (COMMAND, {"timeout": 5}, '{\n  "timeout": 5\n}', ".json", '{"timeout": 6}', {"timeout": 6}),
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
    monkeypatch.setenv("EDITOR", _editor(tmp_path, "text = text.replace('two\\u200b', 'three')"))
    work = tmp_path / "work"
    work.mkdir()
    script = write_script(tmp_path, writes("a.md", "two\u200b\n"), writes("a.md", "four\n", before="three\n"), FINAL)

    clock = Clock()

    async def scene() -> None:
        async with ChatScreen(engine=script, workspace=str(work), trust=True, no_tools=None, clock=clock) as stage:
            await stage.type("yes, write it\r")  # typed ahead: no answer
            await _answer(stage, clock, "e")
            await stage.until(lambda: "+ three" in "\n".join(stage.rows))
            assert "the text holds 1 hidden character, which your editor may not show" in stage.rows
            assert not (work / "a.md").exists()
            await _answer(stage, clock, "a")
            await stage.settle()
            assert (work / "a.md").read_text() == "four\n", "the second call needed no answer"
            assert "Done." in stage.rows and "[y] yes" not in "\n".join(stage.rows)
            model, result = [entry.message.text for entry in stage.talk.session.entries[1:3]]
            assert json.loads(model)["patch"] == patch("a.md", "two\u200b\n"), "what the model wrote stays as it was"
            assert result.startswith(f"{CHANGED} repo_browser.apply_patch ") and "three" in result
            (rule,) = stage.talk.loaded.tools.grants.rules(work)  # type: ignore[union-attr]
            assert str(rule) == "repo_browser.apply_patch:a.md"

    asyncio.run(scene())


@pytest.mark.parametrize("read", ["file", "server"])
def test_the_folder_is_named_as_the_cause_only_where_trusting_it_helps(tmp_path: Path, home: Path, read: str) -> None:
    servers = home / ".config" / "ossia" / "mcp.json"
    servers.parent.mkdir(parents=True)
    servers.write_text(json.dumps({"mcpServers": {"asks": hostile("asks")} if read == "server" else {}}))
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").write_text("Notes.\n")
    first = reads("notes.md") if read == "file" else wants("functions.asks__echo", text="{}")
    clock = Clock()

    async def scene() -> None:
        script = write_script(tmp_path, first, writes("a.md"), FINAL)
        flags = {"workspace": str(work), "no_tools": None, "allow": "functions.asks__echo", "columns": 120}
        async with ChatScreen(engine=script, clock=clock, **flags) as stage:
            await stage.type("go\r")
            await stage.until(lambda: "New a.md +1" in stage.rows)
            cause = "this folder isn't trusted. Your own files? /tools trust" if read == "file" else FROM_OUTSIDE
            assert f"asked each time, because {cause}" in stage.rows
            await _answer(stage, clock, "w")
            await stage.settle()

    asyncio.run(scene())


def test_a_servers_form_is_filled_in_in_the_editor(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", _editor(tmp_path, "text = text.replace('null', '3')"))
    servers = home / ".config" / "ossia" / "mcp.json"
    servers.parent.mkdir(parents=True)
    servers.write_text(json.dumps({"mcpServers": {"asks": hostile("asks")}}))
    fields = {"n": {"type": "integer", "maximum": 5}, "where": {"type": "string", "default": "in"}}
    schema = {"type": "object", "properties": fields, "required": ["n"]}
    form = {"mode": "form", "message": "How many?", "requestedSchema": schema}
    page = {"mode": "url", "message": "Log in", "url": "https://a.test/", "elicitationId": "1"}
    steps = [wants("functions.asks__echo", text=json.dumps(what)) for what in (form, page)]
    form_asked, page_asked = (f"asks: echo {json.dumps(what)[:59]}…" for what in (form, page))
    clock = Clock()

    async def scene() -> None:
        script = write_script(tmp_path, *steps, FINAL)
        async with ChatScreen(engine=script, no_tools=None, clock=clock) as stage:
            async def press(key: str, *shown: str) -> None:
                await stage.until(lambda: all(row in stage.rows for row in shown))
                clock.now += QUIET_S
                await stage.type(key)

            await stage.type("go\r")
            await press("y", form_asked, "[y] yes  [n] no  [e] edit  [?] explain")
            await press("e", "n: integer, … to 5 · needed", 'where: text = "in"')
            await press("y", page_asked, "[y] yes  [n] no  [e] edit  [?] explain")
            await press("n", "https://a.test/", "[y] yes  [n] no  [?] explain")
            await stage.settle()
            results = [entry.message.text for entry in stage.talk.session.entries if entry.message.role == "tool"]
            note = "\n[the server asked the user for input: they "
            assert results == [
                '{"action": "accept", "content": {"n": 3, "where": "in"}}' + f"{note}answered]",
                '{"action": "decline"}' + f"{note}declined]",
            ]

    asyncio.run(scene())
