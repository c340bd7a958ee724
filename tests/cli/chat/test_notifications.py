"""Notifications: only while the terminal says that it lost the focus; its reports are no keys."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.command import write_script
from tests.support.documents import answer, counted, thought
from tests.support.keyboard import keyboard_after
from tests.support.pty import PtyChat
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.work_calls import writes

LOST, GOT = "\x1b[O", "\x1b[I"
LONG = thought(counted("so it goes ", 100)) + answer("The end.\x1b]9;of the model\x07")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "VTE_VERSION", "KONSOLE_VERSION", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def notified(stage: ChatScreen) -> list[str]:
    return re.findall("\x1b\\](?:9|777);([^\x07]*)\x07", "".join(stage.terminal.sent))


@pytest.mark.parametrize(
    ("reports", "flags", "texts"),
    [
        (LOST, {}, ["ossia: finished · Why, then?"]),
        (LOST, {"private": True}, ["ossia: finished"]),
        (LOST + GOT + LOST, {}, ["ossia: finished · Why, then?"]),
        (LOST + GOT, {}, []),
        ("", {}, []),  # a terminal that reports nothing
        (LOST, {"bell": 0.0}, []),
        (LOST, {"bell": 20.0}, []),  # the turn takes 10 seconds
    ],
)
def test_a_long_turn_notifies_whoever_looks_elsewhere(
    reports: str, flags: dict[str, object], texts: list[str], tmp_path: Path
) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, LONG, tokens_per_s=2000)
        async with ChatScreen(engine=script, clock=clock, **{"bell": 5.0, **flags}) as stage:
            await stage.type("Why,\x1b\rthen?\r")
            await stage.until(lambda: stage.face.view.busy)
            for piece in reports:
                await stage.type(piece)
            clock.now += 10
            await stage.settle()
            assert notified(stage) == texts
            assert stage.face.editor.text == ""

    chatting(case)


def test_a_question_notifies_and_a_report_of_the_focus_neither_answers_nor_delays_it(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "work"
    folder.mkdir()

    async def case() -> None:
        script = write_script(tmp_path, writes("a.txt"), writes("b.txt"), answer("Done."))
        async with ChatScreen(
            engine=script, workspace=str(folder), trust=True, no_tools=None, rows=40, clock=clock
        ) as stage:

            async def asked(name: str) -> None:
                await stage.until(lambda: f"New {name}" in "\n".join(stage.terminal.display))
                await stage.until(lambda: "[y] yes" in "\n".join(stage.terminal.display))

            await stage.type(f"Write.\r{LOST}")
            await asked("a.txt")
            assert notified(stage) == ["ossia: waits for your answer · Write."]
            await stage.type(GOT + LOST)  # no key: what comes within half a second of it answers
            clock.now += 0.3
            await stage.type(f"{LOST}y")
            await stage.until(lambda: "too early" in "\n".join(stage.terminal.display))
            clock.now += 0.4
            await stage.type(GOT)
            clock.now += 0.2
            await stage.type(f"{GOT}y{GOT}")
            await asked("b.txt")
            assert len(notified(stage)) == 1  # it has the focus now
            clock.now += 0.6
            await stage.type("y")
            await stage.until(lambda: "Done." in stage.rows)
            await stage.settle()
            assert stage.face.editor.text == ""

    chatting(case)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_it_is_sent_to_a_real_terminal_but_never_by_a_plain_chat(term: str, tmp_path: Path) -> None:
    """`test_keyboard.py` has the editor and Ctrl-Z."""
    script, full = write_script(tmp_path, answer("Done.")), term != "dumb"
    with PtyChat("--engine", script, "--no-tools", "--bell", "0.001", environ={"TERM": term}) as chat:
        chat.until(lambda: (1004 in keyboard_after(chat.sent)[1]) if full else ">" in chat.text)
        chat.press(f"{LOST}hi\r")
        chat.until("Done.")
        chat.until(lambda: b"\x07" in re.sub(rb"\x1b\]0;[^\x07]*\x07", b"", chat.sent))  # the bell
        chat.signal(signal.SIGTERM)
        chat.wait()
    assert chat.sent.count("\x1b]9;ossia: finished · hi\x07".encode()) == full
    assert 1004 not in keyboard_after(chat.sent)[1] and (b"\x1b" in chat.sent) == full
