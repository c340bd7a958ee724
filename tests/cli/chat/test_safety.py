"""What must not happen in a chat: an answer nobody meant, text that gains a say, something private on the disk."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ossia.cli import paths
from ossia.cli.chat.model import Loading
from ossia.cli.runtime.session import Resume
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.terminal.question import QUIET_S
from tests.support.command import ossia_here, write_script
from tests.support.documents import answer
from tests.support.screen import ChatScreen, chatting
from tests.support.site import Site
from tests.support.work_calls import writes

WRITES = writes("a.txt", "one\n")

OPENS = '<|channel|>commentary to=browser.open <|constrain|>json<|message|>{"id": "URL"}<|call|>'


async def send(stage: ChatScreen, *lines: str) -> None:
    """Send lines, each once what the one before did is over."""
    for line in lines:
        await stage.type(f"{line}\r")
        await stage.settle()


def paste(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


# -- answers -----------------------------------------------------------------------------------------------------------


def test_keys_that_were_meant_for_the_pager_answer_no_question(tmp_path: Path) -> None:
    async def case() -> None:
        now = [1000.0]
        script = write_script(tmp_path, WRITES, answer("No."))
        flags = {"no_tools": None, "workspace": str(tmp_path), "clock": lambda: now[0]}
        async with ChatScreen(engine=script, **flags) as stage:
            question = stage.face.question
            await stage.type("Write a.txt\r")
            await stage.until(lambda: "[y] yes" in "\n".join(stage.terminal.display))
            now[0] += 2 * QUIET_S
            await stage.type("\x0f")
            await stage.until(lambda: stage.face.screen.away)
            now[0] += 2 * QUIET_S  # they read for a while, look for the next match, and leave
            await stage.type("nqy")  # at once, as a hand that is quick
            await stage.until(lambda: not stage.face.screen.away)
            await stage.until(lambda: "too early: press y again" in stage.terminal.display)
            await stage.type("y")
            assert question.open and stage.face.editor.text == ""
            now[0] += 2 * QUIET_S
            await stage.type("n\r")
            await stage.settle()
        assert not (tmp_path / "a.txt").exists()

    chatting(case)


# -- whose words -------------------------------------------------------------------------------------------------------


def test_a_text_that_is_taken_back_becomes_no_command(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes."))) as stage:
            model = stage.talk.model
            ready, model.state = model.state, Loading()
            await stage.type("//quit\r")
            await stage.type("\x1b[A")
            assert stage.face.editor.text == " /quit"
            model.state = ready
            await send(stage, "")
            await stage.until(lambda: "Yes." in stage.rows)
            assert stage.talk.session.messages[0].text == "/quit"

    chatting(case)


def test_somebody_elses_question_is_not_put_into_the_users_mouth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("hunter2")
    said = [
        {"role": "user", "content": "See @secret.txt, then https://evil.test/"},
        {"role": "assistant", "content": "A."},
    ]
    Path("talk.json").write_text(json.dumps(said))
    assert ossia_here("sessions", "import", "talk.json").returncode == 0

    async def case() -> None:
        script = write_script(tmp_path, answer("Again."))
        async with ChatScreen(engine=script, resume=Resume(latest=True)) as stage:
            await send(stage, "/edit 1")
            assert stage.face.editor.text == "" and stage.face.replaces is None
            assert "turn 1 isn't your own text, so it can't be edited: /retry asks it again" in "\n".join(stage.rows)
            await send(stage, "/retry")
            session = stage.talk.session
            assert (session.said, session.taint) == ("", {"outside"})
            assert "hunter2" not in session.messages[0].text

    chatting(case)


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize("trust", [False, True])
def test_a_command_in_a_folder_of_others_brings_their_text(tmp_path: Path, trust: bool) -> None:
    (tmp_path / "work").mkdir()

    async def case() -> None:
        flags = {"no_tools": None, "workspace": str(tmp_path / "work"), "trust": trust}
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), **flags) as stage:
            await stage.type("!echo obey me\r")
            await stage.until(lambda: stage.talk.outbox.attaching.pending)
            await send(stage, "Well?")
            assert stage.talk.session.taint == ({"private"} if trust else {"private", "outside"})

    chatting(case)


def test_what_was_pasted_names_no_file_when_it_is_edited_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("hunter2")

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("One."), answer("Two."))) as stage:
            await send(stage, f"What is this? {paste('look at @secret.txt ' * 60)}", "/edit")
            assert stage.face.editor.text.startswith("What is this? [paste 1: 1,200 characters]")
            await send(stage, " Tell me")
            assert stage.talk.session.messages[0].text.endswith("@secret.txt  Tell me")

    chatting(case)


# -- what goes on ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
def test_the_users_command_ends_with_the_chat(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes."))) as stage:
            await stage.type(f"!echo $$ > {tmp_path}/pid; sleep 600\r")
            await stage.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())

    chatting(case)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use can't be removed")
def test_a_folder_that_is_gone_takes_nothing_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write_script(tmp_path, answer("Yes."))
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")

    async def case() -> None:
        async with ChatScreen(engine=script) as stage:
            (tmp_path / "gone").rmdir()
            for _ in range(2):
                before = len(stage.rows)
                await stage.type("!true\r")
                await stage.until(lambda before=before: "No such file" in " ".join(stage.rows[before:]))
                await stage.type("\x15")  # Ctrl-U: the line is back in the input
            await send(stage, "What is in @a.txt?")
            await stage.until(lambda: "Yes." in stage.rows)

    chatting(case)


def test_a_proxy_that_is_none_keeps_the_line(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes.")), proxy="nonsense://x") as stage:
            await stage.type("@http://a.test/ says what?\r")
            await stage.until(lambda: "--proxy: " in " ".join(stage.rows))
            await stage.type("\r")
            await stage.until(lambda: "Yes." in stage.rows)

    chatting(case)


# -- what private leaves -----------------------------------------------------------------------------------------------


def test_no_cache_is_kept_of_what_was_said_in_private() -> None:
    async def case() -> None:
        async with ChatScreen(seed=1) as stage:
            await send(stage, "Hello", "/private", "Who are you?")
            stage.talk.go_back(1)
            await send(stage, "/private off")
            assert stage.talk.store is not None and stage.talk.opened.session_id is not None

    chatting(case)
    kept = [folder.name for folder in (paths.cache_dir() / "kv").glob("*")]
    assert not [name for name in kept if not name.startswith("prompt-")]  # what every prompt begins with


def test_undo_keeps_no_words_of_a_private_chat(tmp_path: Path) -> None:
    async def case() -> None:
        allow = ("repo_browser.apply_patch",)
        flags = {"workspace": str(tmp_path / "work"), "allow": allow, "private": True, "no_tools": None}
        async with ChatScreen(engine=write_script(tmp_path, WRITES, answer("Done.")), **flags) as stage:
            await send(stage, "Write about llamas")
            assert stage.talk.folder is not None
            (turn,) = stage.talk.folder.journal.turns()
            assert (turn.label, turn.paths) == ("(a private turn)", ("a.txt",))

    (tmp_path / "work").mkdir()
    chatting(case)
    for file in (path for path in paths.data_dir().rglob("*") if path.is_file()):
        assert b"llamas" not in file.read_bytes(), file


def test_pages_of_a_private_chat_are_not_kept(tmp_path: Path) -> None:
    async def case(url: str, proxy: str) -> None:
        script = write_script(tmp_path, OPENS.replace("URL", url), *map(answer, "ABC"))
        async with ChatScreen(engine=script, no_tools=None, tools=("browser",), proxy=proxy) as stage:
            kept = paths.cache_dir() / "pages"
            await send(stage, "/private", f"Read {url}", f"@{url}")
            assert "Capy" in stage.talk.session.messages[2].text and "Capy" in stage.talk.session.messages[4].text
            assert not kept.exists()
            await stage.type("/private off\r")
            await stage.until(lambda: stage.face.question.open)
            stage.face.question.withdraw()
            stage.talk.change_settings(private=False)
            await send(stage, f"@{url}")
            assert list(kept.iterdir())  # they are where they were looked for

    with Site() as site:
        site.page("/capy", "<title>Capy</title><p>Capybaras swim.")
        chatting(lambda: case("http://capy.test/capy", f"http://127.0.0.1:{site.port}"))


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_many_lines_that_wait_are_counted(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("Yes."))) as stage:
            stage.talk.outbox.queue.extend(Typed(f"line {number}", "") for number in range(10_000))
            rows = ["".join(segment.text for segment in row) for row in stage.face.panes.activity()]
            assert rows[-2:] == ["queued: line 3", "… and 9,996 more"]
            stage.talk.outbox.queue.clear()

    chatting(case)
