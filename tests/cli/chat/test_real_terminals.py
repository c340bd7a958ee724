"""The chat in real terminals: signals, job control, a terminal that goes away, what tmux keeps."""

from __future__ import annotations

import itertools
import random
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.oracle.scrollback import squashed, stream
from tests.support.command import OSSIA, write_script
from tests.support.documents import answer, counted, thought
from tests.support.pty import IDLE, PtyChat
from tests.support.tmux import Tmux, needs_tmux

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

WORDS = counted("word ", 450)
THOUGHT = counted("so it goes ", 1500)  # it doesn't end by itself while a test looks
SLOW = 100.0


@pytest.fixture
def script(tmp_path: Path) -> Iterator[str]:
    yield write_script(tmp_path, answer(WORDS), answer("Done."), tokens_per_s=SLOW)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def until_gone(*pids: int) -> None:
    give_up_at = time.monotonic() + 30
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < give_up_at, f"still there: {[pid for pid in pids if not gone(pid)]}"
        time.sleep(0.02)


def test_ctrl_c_keeps_what_was_said_and_twice_leaves(script: str) -> None:
    with PtyChat("--engine", script, "--no-tools") as chat:
        chat.idle()
        assert not chat.cooked
        chat.press("hi\r")
        chat.until("word 1 word 2")
        chat.press("\x03")
        chat.idle()
        assert "word 1 word 2" in chat.text and "stopped" in chat.text
        chat.press("go on\r")
        chat.until("Done.")
        chat.idle()
        chat.press("\x03\x03")
        assert chat.wait() == 0
        assert chat.cooked and "word 1 word 2" in chat.text and "Done." in chat.text
        assert "Traceback" not in chat.text


def test_a_signal_ends_it_with_the_terminal_as_it_was(script: str) -> None:
    with PtyChat("--engine", script, "--no-tools") as chat:
        chat.idle()
        chat.press("hi\r")
        chat.until("word 1 word 2")
        chat.signal(signal.SIGTERM)
        assert chat.wait() == 130
        assert chat.cooked and "word 1 word 2" in chat.text and "Traceback" not in chat.text


def test_ctrl_z_and_back(script: str, tmp_path: Path) -> None:
    command = shlex.join([str(OSSIA), "--engine", script, "--no-tools"])
    with PtyChat(command=["bash", "--norc", "--noprofile", "--noediting", "-i"], environ={"PS1": "shell> "}) as shell:
        shell.until("shell>")
        shell.press(f"{command}\r")
        shell.idle()
        shell.press("half a li")
        shell.until("half a li")
        shell.press("\x1a")
        shell.until(lambda: shell.display[_last(shell.display)].startswith("shell>"))
        assert "Stopped" in shell.text and shell.cooked
        shell.press("echo $((6*7))\r")
        shell.until(lambda: "42" in shell.display)
        shell.press("fg\r")
        shell.until("› half a li")
        shell.press("ne\r")
        shell.until("word 1 word 2")
        shell.press("\x1a")  # in the middle of a turn
        shell.until(lambda: shell.display[_last(shell.display)].startswith("shell>"))
        shell.press("fg\r")
        shell.until("writing · ")
        shell.press("\x03")
        shell.idle()
        shell.press("\x04")
        shell.until(lambda: shell.display[_last(shell.display)].startswith("shell>"))
        assert shell.cooked and "› half a line" in shell.text


def _last(rows: list[str]) -> int:
    return max((number for number, row in enumerate(rows) if row), default=0)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_is_closed_ends_it(ignored: bool, script: str) -> None:
    """Also where SIGHUP is ignored, as `nohup` has it."""
    command = ["sh", "-c", f"""trap "" HUP; exec '{OSSIA}' "$@" """, "sh"] if ignored else None
    with PtyChat("--engine", script, "--no-tools", command=command) as chat:
        chat.idle()
        chat.press("hi\r")
        chat.until("word 1 word 2")
        chat.hang_up()
        until_gone(chat.pid)


def test_kill_9_leaves_nothing_running() -> None:
    with PtyChat("--seed", "1") as chat:
        chat.idle()
        chat.press("What is 48*17?\r")
        chat.until("The result is 816.")
        children = [child.pid for child in psutil.Process(chat.pid).children(recursive=True)]
        assert children, "expected the python tool's kernel"
        chat.signal(signal.SIGKILL)
        until_gone(chat.pid, *children)


def test_thinking_comes_and_goes_while_it_streams(tmp_path: Path) -> None:
    """Without colours, too: nothing of 30 to 107 is sent."""
    end = "The end is near.\n\n```python\nprint(1)\n```<|return|>"
    script = write_script(tmp_path, thought(THOUGHT), end, tokens_per_s=200)
    with PtyChat("--engine", script, "--no-tools", environ={"NO_COLOR": "1"}) as chat:
        chat.idle()
        chat.press("hi\r")
        chat.until(lambda: re.search(r"thinking · \d", "\n".join(chat.display)))  # the greeting says the word, too
        assert "so it goes" not in chat.text
        for _ in range(2):
            chat.press("\x14")
            chat.until("so it goes")
            chat.press("\x14")
            chat.until(lambda: "so it goes" not in chat.text)
        chat.press("\x07")  # answer now
        chat.until("The end is near.")
        chat.idle()
        assert "so it goes" not in chat.text and chat.text.count("The end is near.") == 1
        codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", chat.sent) for code in found.split(b";") if code}
        assert not [code for code in codes if 30 <= int(code) <= 107]


def test_a_storm_of_sizes_neither_breaks_nor_loses_anything(tmp_path: Path) -> None:
    numbers = " ".join(f"n{number}" for number in range(150))
    chance = random.Random(1)
    with PtyChat("--engine", write_script(tmp_path, answer(f"- {numbers}"), tokens_per_s=800), "--no-tools") as chat:
        chat.idle()
        chat.press("hi\r")
        chat.until(lambda: chat.title != IDLE)
        while chat.title != IDLE:
            chat.resize(chance.choice((1, 5, 20, 40, 80, 200)), chance.choice((1, 2, 5, 24, 60)))
            chat.read(0.01)
        chat.resize(80, 24)
        chat.press("\x04")
        assert chat.wait() == 0 and "Traceback" not in chat.text
        assert squashed([numbers]) in squashed([chat.plain()])  # printed as one block at its end, however narrow


@needs_tmux
def test_what_tmux_holds_is_the_one_shot_render(home: Path) -> None:
    held = stream(600, seed=1, rate=1500, resize=False, home=home)
    assert held.answer == held.expected
    assert held.kept == held.typed > 0


@needs_tmux
def test_a_resize_in_tmux_loses_nothing(home: Path) -> None:
    held = stream(300, seed=2, rate=400, resize=True, home=home)
    assert held.resizes > 0 and held.kept == held.typed
    assert [row for row in held.expected if squashed([row]) not in squashed(held.answer)] == []


@needs_tmux
def test_a_tall_paragraph_stands_once_in_tmux_whatever_its_sizes(tmp_path: Path, home: Path) -> None:
    numbers = [f"n{number:03}" for number in range(150)]
    sizes = itertools.cycle(((60, 24), (100, 20), (72, 28), (90, 18), (80, 24)))
    script = write_script(tmp_path, answer(" ".join(numbers)), tokens_per_s=150)
    with Tmux([str(OSSIA), "--engine", script, "--no-tools"]) as tmux:
        tmux.until(lambda: tmux.title == IDLE)
        tmux.type("hi")
        tmux.keys("Enter")
        tmux.until(lambda: tmux.title != IDLE)
        while tmux.title != IDLE:
            tmux.resize(*next(sizes))
            time.sleep(0.2)
        assert re.findall(r"n\d{3}", "\n".join(tmux.lines)) == numbers


@needs_tmux
def test_ctrl_t_in_tmux_leaves_no_trace_of_the_thinking(tmp_path: Path, home: Path) -> None:
    script = write_script(tmp_path, thought(THOUGHT), "The end.<|return|>", tokens_per_s=200)
    with Tmux([str(OSSIA), "--engine", script, "--no-tools"], rows=12) as tmux:
        tmux.until(lambda: tmux.title == IDLE)
        tmux.type("hi")
        tmux.keys("Enter")
        tmux.until(lambda: any(re.search(r"thinking · \d", row) for row in tmux.display))
        tmux.keys("C-t")
        tmux.until(lambda: any("so it goes" in row for row in tmux.display))
        tmux.keys("C-t")
        tmux.until(lambda: not any("so it goes" in row for row in tmux.display))
        tmux.keys("C-g")
        tmux.until(lambda: "The end." in tmux.display)
        tmux.until(lambda: tmux.title == IDLE)
        assert not [line for line in tmux.lines if "so it goes" in line]
        assert tmux.lines.count("The end.") == 1


@needs_tmux
def test_the_main_keys_in_tmux(tmp_path: Path, home: Path) -> None:
    thinking = thought(counted("so it goes ", 240))
    script = write_script(tmp_path, thinking + answer("One."), answer("Two."), tokens_per_s=200)
    with Tmux([str(OSSIA), "--engine", script, "--no-tools"], rows=20) as tmux:
        tmux.until(lambda: tmux.title == IDLE)
        tmux.type("first")
        tmux.keys("M-Enter")
        tmux.type("of two lines")
        tmux.keys("Enter")
        tmux.until(lambda: any(re.search(r"thinking · \d", row) for row in tmux.display))
        tmux.type("second")
        tmux.keys("Enter")
        tmux.until(lambda: "queued: second" in tmux.display)
        tmux.keys("C-o")
        tmux.until(lambda: any("so it goes" in row for row in tmux.display) and "queued: second" not in tmux.display)
        tmux.keys("q")
        tmux.until(lambda: "queued: second" in tmux.display)
        tmux.keys("C-c")
        tmux.until(lambda: "› second" in tmux.display and "stopped" in tmux.lines)
        tmux.keys("Enter")
        tmux.until(lambda: "Two." in tmux.lines and tmux.title == IDLE)
        tmux.keys("C-d")
        tmux.until(lambda: "exit 0" in tmux.lines)
        lines = [line for line in tmux.lines if line]
        assert not [line for line in lines if "so it goes" in line or "queued" in line]
        said = lines[lines.index("› first") :]
        assert re.fullmatch(r"ossia --resume \w{8} continues this chat", said.pop(-2))
        assert [line for line in said if not line.startswith("thought for")] == [
            *("› first", "  of two lines", "stopped", "› second", "Two.", "exit 0")
        ]
