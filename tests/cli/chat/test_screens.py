"""The first half hour in the chat, as whole screens of three sizes, each in a real pty."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ossia.cli.terminal.question import QUIET_S
from tests.support.command import write_script
from tests.support.documents import answer, thought
from tests.support.looks import Looks
from tests.support.pty import PtyChat
from tests.support.work_calls import reads, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

CLEAR, CTRL_C, CTRL_D, CTRL_O, CTRL_T = "\x0c", "\x03", "\x04", "\x0f", "\x14"
UP, END, ESCAPE = "\x1b[A", "\x1b[F", "\x1b"
SIZES = [(50, 15), (80, 24), (120, 40)]
LOG = "\n".join(f"row {number} of the log, with a few words" for number in range(213))
PYTHON = "if x:\n    return [\n        1,\n    ]"
PASTED = "    if x:\n        return [\n            1,\n        ]\n"
FAMILY, THUMB, FLAG = "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪"
SHORT = "It is a greeting."
LONG = "They want to know what llamas weigh. I weigh the facts: an adult llama weighs more than a person. " * 3
BEFORE = [f"line {number}" for number in range(60)]
AFTER = [f"line {number}{' changed' if number % 2 else ''}" for number in range(60)]

CHAT = (
    answer("Hello."),
    answer("Twenty years, or more."),
    *(answer(f"A log, as I {how}.") for how in ("see", "said")),
    answer(f"{FAMILY}{THUMB} {FLAG}: yes."),
    answer("A list of one."),
    thought(SHORT) + answer("Good evening, too."),
    thought(LONG) + answer("About 150 kg."),
    answer(f"[The page about lists](https://a.test/lists) says:\n```python\n{PYTHON}\n```\nThat is all."),
)


WORK = (
    *(thought("Read it.") + reads(f"{number}.md") for number in range(4)),
    answer("Four parts."),
    writes("a.py", "\n".join(AFTER), before="\n".join(BEFORE)),
    answer("Changed."),
)


def say(chat: PtyChat, line: str, until: str) -> None:
    """Send a line on an empty screen, and wait for the end of its turn."""
    chat.press(CLEAR + line + "\r")
    chat.until(until)
    chat.idle()


def pasted(text: str) -> str:
    return f"\x1b[200~{text}\x1b[201~"


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_chat(tmp_path: Path, columns: int, rows: int, request: pytest.FixtureRequest) -> None:
    looks = Looks(f"chat-{columns}x{rows}", write=request.config.getoption("--write-screens"))
    engine: tuple[str, ...] = ("--engine", write_script(tmp_path, *CHAT), "--no-tools")
    with PtyChat(*engine, columns=columns, rows=rows, name="tmux 3.3a") as chat:
        chat.idle()
        say(chat, "Hello there!", "Hello.")
        say(chat, "How old does a llama get?", "Twenty years")
        say(chat, "/new", "new conversation")
        chat.press(f"{CLEAR}What went wrong here? {pasted(LOG)}")
        looks.at("4 a long paste, in the input", chat)
        chat.press("\r")
        chat.until("as I see.")
        chat.press("/retry\r")
        chat.until("as I said.")
        looks.at("4 asked again", chat)
        chat.press(f"{CLEAR}/fork 1\r")
        looks.at("4 forked", chat)
        chat.press(f"{CLEAR}/edit\r")
        looks.at("4 edited", chat)
        chat.press(ESCAPE)
        say(chat, "/new", "new conversation")
        chat.press(f"{CLEAR}Is {FAMILY}{THUMB} or {FLAG} one sign?")
        looks.at("5 emoji, in the input", chat)
        chat.press("\r")
        looks.at("5 emoji, said", chat)
        say(chat, pasted(PASTED), "A list of one.")
        looks.at("9 pasted code, sent", chat)
        chat.press(CTRL_T)
        say(chat, "Good evening, machine.", "Good evening, too.")
        looks.at("7 a short thought, shown", chat)
        chat.press(CTRL_T)
        say(chat, "How heavy is a grown llama?", "150 kg")
        looks.at("7 a thought", chat)
        say(chat, "Where do I read about lists?", "That is all.")
        looks.at("1 a link, in a terminal that can't", chat)
        chat.press(CTRL_O)
        looks.at("10 the pager", chat)
        chat.press("t/weigh\r")
        looks.at("10 a search for what is hidden", chat)
        chat.press(f"q{CLEAR}/sessions\r")
        looks.at("8 titles", chat)
        chat.press(f"{CLEAR}half a thou{CTRL_C}")
        looks.at("3 a draft put aside", chat)
        chat.press(CTRL_C)
        looks.at("3 a second Ctrl-C", chat)
        chat.press(UP)
        looks.at("3 the draft again", chat)
        chat.press(CTRL_C + CTRL_D)
        assert chat.wait() == 0
        looks.at("3 left", chat)
    engine = ("--continue", *engine)
    kitty = {"VTE_VERSION": "7600"}  # as a busy machine may not wait for its answer
    with PtyChat(*engine, columns=columns, rows=rows, name="kitty(0.35.2)", environ=kitty) as chat:
        chat.idle()
        looks.at("1 a link, in a terminal that can", chat)
        assert b"\x1b]8;;https://a.test/lists" in chat.sent
    with PtyChat(*engine, columns=columns, rows=rows, environ={"NO_COLOR": "1"}) as chat:
        chat.idle()
        looks.at("6 code, without colours", chat)
    looks.done()


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_work_in_a_folder(tmp_path: Path, columns: int, rows: int, request: pytest.FixtureRequest) -> None:
    looks = Looks(f"work-{columns}x{rows}", write=request.config.getoption("--write-screens"))
    work = tmp_path / "work"
    work.mkdir()
    for number in range(4):
        (work / f"{number}.md").write_text("ok\n")
    (work / "a.py").write_text("\n".join(BEFORE) + "\n")
    flags = ("--engine", write_script(tmp_path, *WORK), "--workspace", str(work), "--trust")
    with PtyChat(*flags, columns=columns, rows=rows) as chat:
        chat.idle()
        say(chat, "How many parts are there?", "Four parts.")
        looks.at("7 calls in a row", chat)
        chat.press(f"{CLEAR}Change every second line.\r")
        looks.at("2 a question", chat)
        chat.press(CTRL_O)
        looks.at("2 its whole diff", chat)
        chat.press(END)
        looks.at("2 the end of the diff", chat)
        chat.press("/line 31 ch\r")
        looks.at("2 a search in the diff", chat)
        chat.press("q")
        chat.until("[y] yes")
        time.sleep(1.2 * QUIET_S)  # a question listens only then
        chat.press("y")
        looks.at("2 the diffstat that stays", chat)
        chat.press(CTRL_O)
        looks.at("2 and the diff, folded", chat)
    looks.done()
    assert (work / "a.py").read_text().split("\n")[:-1] == AFTER
