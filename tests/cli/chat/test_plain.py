"""The chat where the terminal can only print lines: a real pty with TERM=dumb."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.command import write_script
from tests.support.documents import answer, thought
from tests.support.pty import PtyChat
from tests.support.work_calls import reads, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

def chatting(*flags: str) -> PtyChat:
    return PtyChat(*flags, environ={"TERM": "dumb"})


def ready(chat: PtyChat) -> bool:
    rows = [row for row in chat.display if row]
    return bool(rows) and rows[-1] == ">"


def test_a_conversation_in_plain_lines(tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        thought("Let me think of llamas, and of what they are.") + answer("Llamas are **kind**.\n\n- one\n- two"),
        answer("# Words\n\n" + "word " * 400),
        answer("Yes."),
        tokens_per_s=300,
    )
    with chatting("--engine", script, "--no-tools") as chat:
        chat.until(lambda: ready(chat))
        chat.press("What are llamas?\r")
        chat.until("two")
        chat.until(lambda: ready(chat))
        assert chat.text.count("What are llamas?") == 1  # as the terminal echoed it, not once more
        assert "Let me think" not in chat.text and "thought for" in chat.text
        chat.press("/effort high\r")
        chat.until(lambda: "effort high" in chat.display)
        chat.press("go on\r")
        chat.until("Words")
        chat.press("\x03")
        chat.until("stopped")
        chat.until(lambda: ready(chat))
        chat.press('"""\r/effort low\rtwo lines"""\r')
        chat.until("Yes.")
        chat.until(lambda: ready(chat))
        chat.press("\x04")
        assert chat.wait() == 0
        assert re.fullmatch(r"ossia --resume \w{8} continues this chat", chat.rows[-1])
        assert "effort low" not in [row.strip("> ") for row in chat.rows if row.startswith("effort")]
        assert b"\x1b" not in chat.sent and chat.cooked


def test_a_question_is_answered_by_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    script = write_script(
        tmp_path, writes("a.txt", "new\n"), answer("Refused."), writes("a.txt", "new\n"), answer("Written."),
        tokens_per_s=300,
    )  # fmt: skip
    with chatting("--engine", script, "--workspace", str(folder)) as chat:
        chat.until(lambda: ready(chat))
        chat.press("write\r")
        chat.until("[n] no")
        assert "New a.txt +1" in chat.text and "+new" in chat.text
        chat.press("perhaps\r")
        chat.until("answer y, ")
        chat.press("no, use b.txt\r")
        chat.until("refused: use b.txt")
        chat.until("Refused.")
        assert not (folder / "a.txt").exists()
        chat.until(lambda: ready(chat))
        chat.press("write\r")
        chat.until(lambda: chat.rows[-1].endswith("xplain:"))  # eighty columns wrap it
        chat.press("yes\r")
        chat.until("Written.")
        assert (folder / "a.txt").read_text() == "new\n"
        chat.signal(signal.SIGTERM)
        assert chat.wait() == 130
        assert b"\x1b" not in chat.sent and "Traceback" not in chat.text


def test_edits_are_accepted_by_the_same_letter(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    script = write_script(tmp_path, writes("a.txt"), writes("b.txt"), answer("Both."), tokens_per_s=300)
    with chatting("--engine", script, "--workspace", str(folder)) as chat:
        chat.until(lambda: ready(chat))
        chat.press("write\r")
        chat.until("[w] all ed")
        chat.until(lambda: chat.rows[-1].endswith("xplain:"))  # eighty columns wrap it
        chat.press("w\r")
        chat.until("Both.")
        assert chat.text.count("[w] all ed") == 1 and (folder / "b.txt").read_text() == "new\n"
        chat.until(lambda: ready(chat))
        chat.press("/allow\r")
        chat.until("auto   edits")
        chat.press("/allow remove edits\r")
        chat.until("will ask again: edits")


def test_commands_need_neither_keys_nor_another_screen(tmp_path: Path) -> None:
    script = write_script(tmp_path, thought("Let me think.") + answer("Llamas are kind."))
    with chatting("--engine", script, "--no-tools") as chat:
        chat.until(lambda: ready(chat))
        chat.press("What are llamas?\r")
        chat.until("kind")
        chat.until(lambda: ready(chat))
        for command, told in (
            ("/copy", "can't copy the answer, this terminal has no clipboard: /export writes a file"),
            ("/raw", "What the model wrote"),
            ("/help", "starts and ends a text of several lines"),
        ):
            chat.press(f"{command}\r")
            chat.until(told)
            chat.until(lambda: ready(chat))
        assert not [key for key in ("Ctrl-T", "Ctrl-O", "Alt-Enter") if key in chat.text]
        assert b"\x1b" not in chat.sent and "Traceback" not in chat.text


def test_what_is_typed_into_an_editor_is_the_editors(tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\necho the editor asks\nread line\nread more\necho "$line $more" >"$1"\n')
    editor.chmod(0o700)
    script = write_script(tmp_path, answer("Yes."))
    environ = {"TERM": "dumb", "EDITOR": str(editor)}
    with PtyChat("--engine", script, "--no-tools", environ=environ) as chat:
        chat.until(lambda: ready(chat))
        chat.press("/system edit\r")
        chat.until("the editor asks")
        chat.press("Be\r")
        chat.press("kind.\r")
        chat.until("your instructions are set")
        chat.press("/system\r")
        chat.until(lambda: "Be kind." in chat.rows)
        assert "Yes." not in chat.text


def test_a_line_that_can_not_be_sent_is_told(tmp_path: Path) -> None:
    script = write_script(tmp_path, answer("Yes."))
    with chatting("--engine", script, "--no-tools") as chat:
        chat.until(lambda: ready(chat))
        chat.press("@missing.md what is this?\r")
        chat.until("not sent: @missing.md what is this?")
        assert "@missing.md: not attached: there is no such file" in chat.text
        chat.until(lambda: ready(chat))
        chat.press("@missing.md what is this?\r")
        chat.until("Yes.")


def test_what_calls_brought_is_printed_as_they_end(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    steps = (writes("a.md", "\n".join(map(str, range(20)))), reads("a.md"), reads("b.md"), answer("Done."))
    flags = ("--workspace", str(work), "--trust", "--allow", "repo_browser.apply_patch")
    with chatting("--engine", write_script(tmp_path, *steps), *flags) as chat:
        chat.until(lambda: ready(chat))
        chat.press("Go.\r")
        chat.until("Done.")
        chat.until(lambda: ready(chat))
        at = chat.rows.index("▸ New a.md +20")
        assert chat.rows[at + 1 : at + 16] == [
            *(f"   {number + 1:>2} + {number}" for number in range(12)),
            "   … 8 more lines",
            "▸ Read a.md · 20 lines",
            "✗ Read b.md · there is no file 'b.md'",
        ]
