"""Going on with a session: what it had that it no longer has is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ossia.cli.runtime.session import ELSEWHERE, Resume
from tests.support.command import ossia, start, write_script
from tests.support.documents import answer
from tests.support.pty import PtyChat
from tests.support.screen import ChatScreen, chatting


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a stored session."""
    folder = tmp_path / "my work"
    folder.mkdir()
    script = write_script(tmp_path, answer("One."))
    assert ossia("run", "Are llamas kind?", "--engine", script, "--workspace", str(folder), "--save").returncode == 0
    return folder


@pytest.mark.parametrize("flags", [["--continue"], ["--resume", "llamas"]])
def test_a_run_without_the_workspace_of_its_session_says_so(work: Path, tmp_path: Path, flags: list[str]) -> None:
    run = ["run", "And?", *flags, "--engine", write_script(tmp_path, answer("Two."))]
    done = ossia(*run)
    said = f"this session worked in {work} and has no workspace now: --workspace '{work}' opens it"
    assert (done.stdout, done.stderr.decode()) == (b"Two.\n", f"ossia: warning: {said}\n")
    other = tmp_path / "other"
    other.mkdir()
    assert f"worked in {work} and works in {other} now".encode() in ossia(*run, "--workspace", str(other)).stderr
    assert ossia(*run, "--workspace", str(work)).stderr == ossia(*run, "--no-tools").stderr == b""
    work.rmdir()
    assert ossia(*run).stderr.endswith(b"has no workspace now: it is gone\n")


def test_a_chat_says_how_to_open_it_again(work: Path) -> None:
    async def case() -> None:
        said = f"this session worked in {work} and has no workspace now: /tools workspace {work} opens it"
        async with ChatScreen(resume=Resume(latest=True), no_tools=None, columns=400) as stage:
            await stage.until(lambda: said in stage.rows)
            await stage.type(f"/tools workspace {work}\r")
            await stage.until(lambda: stage.talk.folder is not None)
            await stage.until(lambda: stage.talk.loaded is not None)
            await stage.type("/new\r/resume llamas\r")
            await stage.until(lambda: stage.talk.opened.resumed)
            assert stage.rows.count(said) == 1
            await stage.type("/tools workspace off\r")
            await stage.until(lambda: stage.talk.folder is None and stage.talk.loaded is not None)
            await stage.type("/new\r/resume llamas\r")
            await stage.until(lambda: stage.rows.count(said) == 2)

    chatting(case)


def test_a_chat_that_continues_the_last_of_all_says_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def case() -> None:
        for folder, noted in ((Path.cwd(), False), (work, False), (work.parent, True)):
            monkeypatch.chdir(folder)
            async with ChatScreen(resume=Resume(latest=True), columns=120) as stage:
                await stage.until(lambda: "One." in stage.rows)
                assert 'resumed "Are llamas kind?" (1 turn)' in stage.rows
                assert (ELSEWHERE in stage.rows) == noted

    chatting(case)


def test_the_way_back_is_not_told_before_the_error_of_a_model_that_is_not_there(work: Path) -> None:
    with PtyChat("--continue", "--model", "nothing", columns=100) as chat:
        assert chat.wait() == 3
    assert "no model" in chat.text and "continues this chat" not in chat.text


def _titles() -> list[str]:
    return sorted(one["title"] for one in json.loads(ossia("sessions", "list", "--json").stdout)["sessions"])


def test_runs_are_stored_by_the_setting_unless_private(tmp_path: Path) -> None:
    engine, always = write_script(tmp_path, answer("Yes.")), {"OSSIA_STORE": "always"}
    for question, flags, env in (
        ("no setting?", ("run",), {}),
        ("by the variable?", (), always),
        ("by the flag?", ("run", "--store", "always"), {}),
        ("chats only?", ("run", "--store", "chats"), always),
        ("private?", ("run", "--private"), always),
        ("private by a variable?", ("run",), always | {"OSSIA_PRIVATE": "1"}),
    ):
        done = ossia(*flags, question, "--engine", engine, env=env)
        assert (done.stdout, done.stderr) == (b"Yes.\n", b"")
    assert _titles() == ["by the flag?", "by the variable?"]
    done = ossia("run", "more?", "--continue", "--engine", engine, env=always)
    assert (done.returncode, len(_titles())) == (0, 2)
    for flags, is_said in ((("--save",), True), ((), False)):
        with PtyChat("run", "And now?", "--engine", engine, *flags, environ=always, columns=200) as terminal:
            assert terminal.wait() == 0
            assert ("stored; continue it with" in terminal.plain()) is is_said


def test_eight_runs_at_once_store_all_their_turns(tmp_path: Path) -> None:
    engine = write_script(tmp_path, answer("Yes."))
    runs = [start("run", f"Number {n}?", "--store", "always", "--engine", engine, "--no-tools") for n in range(8)]
    assert [run.communicate() for run in runs] == [(b"Yes.\n", b"")] * 8
    assert _titles() == [f"Number {n}?" for n in range(8)]
