"""The chat's first rows: there before the screen is loaded, and gone without a trace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.command import OSSIA, write_script
from tests.support.documents import answer
from tests.support.pty import PtyChat

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
INPUT = "›".encode()


@pytest.mark.parametrize(("columns", "rows"), [(50, 15), (80, 24), (120, 40)])
def test_the_input_line_comes_before_anything_heavy(columns: int, rows: int) -> None:
    told = [sys.executable, "-X", "importtime", str(OSSIA)]
    with PtyChat("--resume", "nothing", columns=columns, rows=rows, command=told) as chat:
        assert chat.wait() == 2
        first = chat.sent[: chat.sent.index(INPUT)]
        later = chat.sent[chat.sent.index(INPUT) :]
    assert b"ossia 0." in first[-40:]
    for heavy in (b"prompt_toolkit", b"rich.segment", b"ossia.agent", b"ossia.tools.toolbox", b"sqlite3", b"asyncio"):
        assert heavy not in first and heavy in later


def test_an_error_stands_alone() -> None:
    with PtyChat("--resume", "nothing", name="xterm") as chat:
        assert chat.wait() == 2
        (line,) = filter(None, " ".join(chat.rows).split("ossia: error: "))
        assert line.startswith("no session") and INPUT in chat.sent
        assert chat.cooked


def test_a_question_before_the_screen_stands_alone() -> None:
    with PtyChat("--engine", "http://gpu.test:99") as chat:
        chat.until("[y/N]")
        assert chat.rows[0].startswith("ossia: prompts, files and results will be sent to")
        chat.press("n\r")
        assert chat.wait() == 2 and chat.cooked


def test_the_screen_takes_the_place_of_the_first_rows(tmp_path: Path) -> None:
    with PtyChat("--engine", write_script(tmp_path, answer("Hello.")), "--no-tools") as chat:
        chat.press("hi")
        chat.until("loading")
        chat.press("\rmore")
        chat.until("Hello.")
        chat.idle()
        chat.until("› more")
        assert chat.rows[0].startswith("ossia 0.") and [row for row in chat.rows if "loading" in row] == []
        chat.press("\x15\x04")
        assert chat.wait() == 0 and chat.cooked
