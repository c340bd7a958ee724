"""Leaving a chat: it says how to come back, and a draft is never lost."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import pytest

from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from tests.support.command import write_script
from tests.support.documents import answer, counted, thought
from tests.support.pty import PtyChat
from tests.support.screen import ChatScreen, Clock, chatting

CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"
SIZES = [(50, 15), (120, 40)]
needs_pty = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


def latest_id() -> str:
    store = SessionStore(paths.sessions_file(), now=lambda: 0.0)
    try:
        info = store.latest()
        assert info is not None
        return info.id
    finally:
        store.close()


@needs_pty
@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_the_last_line_says_how_to_come_back(tmp_path: Path, columns: int, rows: int) -> None:
    script = write_script(tmp_path, answer("Llamas are kind."))
    with PtyChat("--engine", script, "--no-tools", columns=columns, rows=rows) as chat:
        chat.idle()
        chat.press("Are llamas kind?\r")
        chat.until("Llamas are kind.")
        chat.idle()
        chat.press(CTRL_D)
        assert chat.wait() == 0 and chat.cooked
    back = f"ossia --resume {latest_id()}"
    assert chat.rows[-3:] == ["Llamas are kind.", "", f"{back} continues this chat"]
    with PtyChat(*back.split()[1:], "--engine", script, "--no-tools", columns=columns, rows=rows) as chat:
        chat.until("Llamas are kind.")


@needs_pty
@pytest.mark.parametrize("flags", [("--private",), ()])
def test_nothing_is_said_where_there_is_nothing_to_come_back_to(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """A private chat isn't stored; one in which nothing was said neither."""
    with PtyChat("--engine", write_script(tmp_path, answer("Yes.")), "--no-tools", *flags) as chat:
        chat.idle()
        if flags:
            chat.press("Are llamas kind?\r")
            chat.until("Yes.")
            chat.idle()
        chat.press(CTRL_D)
        assert chat.wait() == 0
    assert "--resume" not in chat.text


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize("no_color", ["", "1"])  # with colours the terminal is asked for its name first
def test_lines_typed_before_the_first_frame_are_sent(tmp_path: Path, no_color: str) -> None:
    script = write_script(tmp_path, answer("One."), answer("Two."))
    with PtyChat("--engine", script, "--no-tools", environ={"NO_COLOR": no_color}) as chat:
        chat.press("What is this?\rAnd?\rhalf")
        chat.until(lambda: chat.rows.count("› And?") and "Two." in chat.rows and "› half" in chat.display)
        chat.idle()
        assert [row for row in chat.rows if row.startswith(("›", "One", "Two"))] == [
            *("› What is this?", "One.", "› And?", "Two.", "› half")
        ]
        chat.press("\x15a\nb\r")  # a newline typed now is one
        chat.until("  b")


@pytest.mark.parametrize("draft", ["half a line", " begins with a blank"])
def test_ctrl_c_puts_the_draft_aside_and_a_second_one_does_not_leave(draft: str) -> None:
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(clock=clock) as stage:
            await stage.type(draft)
            await stage.until(lambda: stage.face.editor.text == draft)
            await stage.type(CTRL_C)
            await stage.until(lambda: stage.face.editor.text == "")
            await stage.type(CTRL_C)
            await stage.until(lambda: "press Ctrl-C again to leave" in stage.rows)
            assert stage.face.screen.app.is_running
            await stage.type(UP)
            await stage.until(lambda: stage.face.editor.text == draft)
            await stage.type(CTRL_C)  # there is a draft again: it is put aside
            await stage.until(lambda: stage.face.editor.text == "")
            assert stage.face.screen.app.is_running
            clock.now += 2
            await stage.type(CTRL_C + CTRL_C)
            await stage.until(lambda: not stage.face.screen.app.is_running)

    chatting(case)
    kept = paths.history_file().read_text() if paths.history_file().exists() else ""
    assert (draft in kept) == (not draft.startswith(" "))


def test_a_turn_that_ends_after_the_chat_is_closed_does_nothing(tmp_path: Path) -> None:
    faults: list[dict[str, object]] = []

    async def case() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        slow = thought(counted("so it goes ", 300)) + answer("One.")
        async with ChatScreen(engine=write_script(tmp_path, slow, tokens_per_s=100)) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: stage.talk.control is not None)
        await stage.until(lambda: stage.talk.control is None)

    chatting(case)
    assert faults == []


def test_a_turn_is_stopped_first_and_what_was_typed_meanwhile_stays(tmp_path: Path) -> None:
    clock = Clock()

    async def case() -> None:
        slow = thought(counted("so it goes ", 300)) + answer("One.")
        async with ChatScreen(engine=write_script(tmp_path, slow, tokens_per_s=100), clock=clock) as stage:
            await stage.type("Why?\r")
            await stage.until(lambda: stage.talk.control is not None)
            await stage.type("a draft")
            await stage.type(CTRL_C)
            await stage.settle()
            assert stage.talk.session.ends == ("stopped",) and stage.face.editor.text == "a draft"
            await stage.type(CTRL_C)
            await stage.until(lambda: stage.face.editor.text == "")
            assert stage.face.screen.app.is_running

    chatting(case)


def test_a_line_sent_after_a_first_ctrl_c_makes_the_next_one_a_first(tmp_path: Path) -> None:
    clock = Clock()

    async def case() -> None:
        slow = thought(counted("so it goes ", 300)) + answer("One.")
        async with ChatScreen(engine=write_script(tmp_path, slow, tokens_per_s=100), clock=clock) as stage:
            await stage.type(CTRL_C)
            await stage.type("Why?\r")
            await stage.until(lambda: stage.talk.control is not None)
            await stage.type(CTRL_C)
            await stage.settle()
            assert stage.talk.session.ends == ("stopped",) and stage.face.screen.app.is_running

    chatting(case)


@needs_pty
@pytest.mark.parametrize("number", [signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_the_draft_of_a_chat_that_is_ended_is_in_the_history(tmp_path: Path, number: int) -> None:
    """With the line that waited for its turn before it."""
    slow = thought(counted("so it goes ", 2000))
    with PtyChat("--engine", write_script(tmp_path, slow, tokens_per_s=100), "--no-tools") as chat:
        chat.idle()
        chat.press("Why?\rqueued\r")
        chat.until("queued: queued")
        chat.press("half a line")
        chat.until("› half a line")
        chat.signal(number)
        assert chat.wait() == 130
        assert re.search(r"^ossia --resume \w{8} continues this chat$", chat.text, re.MULTILINE)
    with PtyChat("--engine", write_script(tmp_path, answer("Yes.")), "--no-tools") as chat:
        chat.idle()
        chat.press(UP)
        chat.until("› queued")
        chat.until("  half a line")


def test_a_private_draft_is_not_kept() -> None:
    async def case() -> None:
        async with ChatScreen(private=True) as stage:
            await stage.type("a secret" + CTRL_C)
            await stage.type("another")

    chatting(case)
    assert not paths.history_file().exists()
