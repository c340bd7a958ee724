"""The chat in this process: keys in, a terminal emulator out. Signals and real terminals: test_cli_chat_terminal.py."""

from __future__ import annotations

import contextlib
import re
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ossia.agent.errors import VocabularyMissing
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.runtime.session import Resume
from tests.support.command import write_script
from tests.support.documents import counted
from tests.support.screen import ChatScreen, chatting

THOUGHT = "<|channel|>analysis<|message|>Let me think about llamas.<|end|><|start|>assistant"
ANSWER = "<|channel|>final<|message|>Llamas are **kind**.<|return|>"
LONG = "<|channel|>analysis<|message|>" + counted("so it goes on and on, ", 100) + "<|end|><|start|>assistant" + ANSWER


def thinks(stage: ChatScreen) -> bool:
    return any(re.search(r"thinking · \d+ s", row) for row in stage.terminal.display)


def test_the_etude_answers_with_its_tools() -> None:
    async def case() -> None:
        async with ChatScreen(no_tools=None, seed=1) as stage:
            await stage.type("What is 48*17?\r")
            await stage.until(lambda: "The result is 816." in stage.rows)
            await stage.settle()
            text = "\n".join(stage.rows)
            assert "› What is 48*17?" in stage.rows
            assert "▸ ran Python: print(48*17) · 816" in text
            assert "thought" not in text  # of a few tokens, before the call and behind it
            assert "<|" not in text
            assert stage.terminal.title == "ossia: idle"

    chatting(case)


def test_thinking_is_hidden_shown_and_hidden_again_while_it_comes(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, LONG, tokens_per_s=300)) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: thinks(stage))
            assert "so it goes on" not in "\n".join(stage.rows)
            await stage.type("\x14")
            await stage.until(lambda: "so it goes on" in "\n".join(stage.terminal.display))
            await stage.type("\x14")
            await stage.until(lambda: "so it goes on" not in "\n".join(stage.terminal.display))
            await stage.type("\x07")  # answer now: the script's next step is not there, so the turn ends with its error
            await stage.settle()
            assert "so it goes on" not in "\n".join(stage.rows)

    chatting(case)


def test_thinking_that_is_shown_when_it_ends_stays(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, THOUGHT + ANSWER, ANSWER), think="on") as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)
            await stage.settle()
            assert "Let me think about llamas." in stage.rows

    chatting(case)


@pytest.mark.parametrize("how", ["\x07", "/answer\r"])
def test_answer_now_ends_the_thinking(how: str, tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, LONG, "In short: yes.<|return|>", tokens_per_s=200)
        async with ChatScreen(engine=script) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: thinks(stage))
            await stage.type(how)
            await stage.until(lambda: "In short: yes." in stage.rows)
            await stage.settle()
            assert stage.talk.session.ends == ("answered",)

    chatting(case)


def test_ctrl_c_stops_the_turn_and_gives_the_queued_lines_back(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, LONG, ANSWER, tokens_per_s=100)) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: thinks(stage))
            await stage.type("second\rthird\r")
            await stage.until(lambda: "queued: third" in stage.terminal.display)
            await stage.type("\x03")
            await stage.settle()
            assert stage.talk.session.ends == ("stopped",)
            assert stage.face.editor.text == "second\nthird"
            assert "stopped" in stage.rows
            stage.face.editor.clear()
            await stage.type("again\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)

    chatting(case)


def test_a_line_typed_ahead_is_said_after_the_turn(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, THOUGHT + ANSWER, "<|channel|>final<|message|>Two.<|return|>", tokens_per_s=60)
        async with ChatScreen(engine=script) as stage:
            await stage.type("one\rtwo\r")
            await stage.until(lambda: "Two." in stage.rows)
            await stage.settle()
            assert [row for row in stage.rows if row.startswith("› ")][:2] == ["› one", "› two"]

    chatting(case)


def test_a_turn_without_an_answer_is_said_and_asked_again(tmp_path: Path) -> None:
    """After `/retry` as after another message."""

    async def case() -> None:
        thoughts, empty = "<|channel|>analysis<|message|>Hm.<|return|>", "<|channel|>final<|message|><|return|>"
        script = write_script(tmp_path, thoughts, "<|return|>", "<|return|>", empty, empty, ANSWER)
        async with ChatScreen(engine=script) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: "no answer came; /retry asks again" in stage.rows)
            await stage.type("And so?\r")
            await stage.until(lambda: stage.rows.count("no answer came; /retry asks again") == 2)
            assert stage.talk.session.ends == ("silent", "silent")
            await stage.type("/retry\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)
            await stage.settle()
            assert stage.talk.session.ends == ("silent", "answered")

    chatting(case)


def test_two_ctrl_c_leave() -> None:
    async def case() -> None:
        async with ChatScreen() as stage:
            await stage.type("\x03")
            await stage.until(lambda: "press Ctrl-C again to leave" in stage.rows)
            await stage.type("\x03")
            await stage.until(lambda: not stage.face.screen.app.is_running)

    chatting(case)


def test_a_chat_is_stored_and_goes_on(tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, THOUGHT + ANSWER, "<|channel|>final<|message|>Still.<|return|>")
        async with ChatScreen(engine=script) as stage:
            await stage.type("Are they kind?\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)
            await stage.settle()
        again = write_script(tmp_path, "<|channel|>final<|message|>Still.<|return|>")
        async with ChatScreen(engine=again, resume=Resume(latest=True)) as stage:
            assert "› Are they kind?" in stage.rows
            assert "Llamas are kind." in stage.rows
            assert "Let me think" not in "\n".join(stage.rows)
            await stage.type("And now?\r")
            await stage.until(lambda: "Still." in stage.rows)
            await stage.settle()
        store = SessionStore(paths.sessions_file(), now=lambda: 0.0)
        (info,) = store.list()
        assert (info.title, info.turns) == ("Are they kind?", 2)
        store.close()

    chatting(case)


def test_a_private_chat_leaves_no_file(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, ANSWER), private=True) as stage:
            await stage.type("Psst\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)
            await stage.settle()

    chatting(case)
    assert not paths.data_dir().exists()


def test_a_store_that_is_torn_is_said_and_left_alone(tmp_path: Path) -> None:
    file = paths.sessions_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not a database" * 100)

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, ANSWER)) as stage:
            assert "the session is not stored" in "\n".join(stage.rows)
            await stage.type("Psst\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)
            await stage.settle()

    chatting(case)
    assert file.read_bytes() == b"not a database" * 100


def test_older_turns_become_a_summary_that_is_said_and_shown(tmp_path: Path) -> None:
    """The script's third step is the summary."""
    long = "<|channel|>final<|message|>" + counted("The llama hums all day. ", 38) + "<|return|>"
    script = write_script(tmp_path, long, long, "They spoke of llamas.<|return|>", ANSWER)

    async def case() -> None:
        async with ChatScreen(engine=script, context=1400, rows=40) as stage:
            for question in ("one", "two", "three"):
                await stage.type(f"{question}\r")
                await stage.settle()
            await stage.type("/context\r")
            await stage.settle()
            text = " ".join(" ".join(stage.rows).split())
            assert "the first 2 turns replaced by a summary (the model's own" in text
            assert "a summary replaces the first 2 turns: They spoke of llamas." in text
            assert stage.talk.session.ends == ("answered",) * 3 and "Llamas are kind." in stage.rows
            asked = [item.text for item in stage.talk.transcript.items if item.kind == "user"]
            assert asked == ["one", "two", "three"], "the session has all of it"

    chatting(case)


def test_a_context_that_no_question_fits_into_is_said_once_at_the_start(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, ANSWER), context=40, columns=300) as stage:
            said = "there is no room for a question: the prompt has "
            await stage.until(lambda: said in "\n".join(stage.rows))
            await stage.type("hello\r")
            await stage.settle()
            text = "\n".join(stage.rows)
            assert text.count(said) == 1 and text.count("shorten the prompt or the instructions (AGENTS.md too)") == 2

    chatting(case)


def test_the_context_bar_says_full_of_a_prompt_that_is_longer(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, ANSWER), context=1400, columns=300) as stage:
            await stage.type(f"{'word ' * 2000}\r")
            await stage.settle()
            await stage.until(lambda: "▏ 1.4k of 1.4k" in "\n".join(stage.terminal.display))

    chatting(case)


def test_what_is_said_of_a_vocabulary_is_said_in_the_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script of ids wants gpt-oss's own vocabulary; a model that can't be read is skipped."""
    broken = paths.data_dir() / "models" / "gpt-oss-20b-mxfp4.gguf"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no GGUF")
    script = tmp_path / "ids.json"
    script.write_text('{"version": 1, "steps": [[1, 2]]}')

    async def case() -> None:
        async with ChatScreen(engine=f"script:{script}", model=None, loaded=False) as stage:
            await stage.until(lambda: "skipped: " in "\n".join(stage.rows))

    with contextlib.suppress(VocabularyMissing):  # or the vocabulary of tiktoken is on this machine
        chatting(case)
    assert capsys.readouterr().err == ""


def test_what_is_edited_stays_until_its_new_text_is_said(tmp_path: Path) -> None:
    """The page that goes along never comes: after Ctrl-C the old turns are there, and the text is in the input."""

    async def case() -> None:
        script = write_script(tmp_path, ANSWER, "<|channel|>final<|message|>Again.<|return|>")
        async with ChatScreen(engine=script, allow_host=[f"127.0.0.1:{port}"]) as stage:
            await stage.type("Are they kind?\r")
            await stage.until(lambda: "Llamas are kind." in stage.rows)
            await stage.settle()
            await stage.type("/edit 1\r")
            await stage.until(lambda: stage.face.editor.text == "Are they kind?")
            await stage.type(f" @http://127.0.0.1:{port}/page \r")
            await stage.until(is_asked)
            await stage.type("\x03")
            await stage.settle()
            assert stage.talk.session.ends == ("answered",)
            assert stage.face.editor.text.startswith("Are they kind? @http://127.0.0.1:"), "\n".join(stage.rows)
            stage.face.editor.set("Are they still?")
            await stage.type("\r")
            await stage.until(lambda: "Again." in stage.rows)
            await stage.settle()
            users = [message.text for message in stage.talk.session.messages if message.role == "user"]
            assert users == ["Are they still?"]

    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as open_connections:

        def is_asked() -> bool:
            with suppress(BlockingIOError):
                open_connections.enter_context(server.accept()[0])
                return True
            return False

        server.setblocking(False)
        port = server.getsockname()[1]
        chatting(case)


def test_the_context_bar_follows_each_step_of_a_turn(tmp_path: Path) -> None:
    call = '<|channel|>commentary to=functions.none<|message|>{"n": 1}<|call|>'

    def used(stage: ChatScreen) -> int:
        found = re.search(r"▏ (\d+) of ", "\n".join(stage.terminal.display))
        return int(found[1]) if found else 0

    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, call, LONG, tokens_per_s=200)) as stage:
            await stage.until(lambda: used(stage) > 0)
            before = used(stage)
            await stage.type("Go\r")
            await stage.until(lambda: thinks(stage))  # the second step: the turn isn't over
            assert used(stage) > before
            await stage.type("\x03")
            await stage.settle()

    chatting(case)
