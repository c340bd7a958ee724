"""Keys while a command works or asks: a real shell on a real pty, whose terminal has kitty's protocol on before."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import OSSIA, write_script
from tests.support.documents import answer, counted
from tests.support.keyboard import keyboard_after
from tests.support.pty import PtyChat
from tests.support.work_calls import writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")

ENTER, CTRL_C, CTRL_D, CTRL_Z = "\x1b[13u", "\x1b[99;5u", "\x1b[100;5u", "\x1b[122;5u"
SENT_BY_ITSELF = (
    "\x1b[I\x1b[O\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?62;22c\x1bP>|kitty(0.35)\x1b\\\x1b[24;80R\x1b[?0u\x1b[<35;1;1M"
)
PASTED = "\x1b[200~y\ry\r\x1b[201~"
KITTY_STACK = ([1], set())


class Shell(PtyChat):
    """bash on a pty whose terminal has kitty's protocol on; at its prompt it has only what it was left."""

    def __init__(self) -> None:
        super().__init__("--norc", "--noprofile", "--noediting", command=["bash"], environ={"PS1": "shell$ "})
        self.until("shell$")
        self.run(f"printf '\\33[>1u'; ossia() {{ {shlex.quote(str(OSSIA))} \"$@\"; }}")
        self.until(lambda: self.modes == KITTY_STACK)

    def run(self, line: str) -> None:
        self.press(f"{line}\r")

    @property
    def modes(self) -> tuple[list[int], set[int]]:
        return keyboard_after(self.sent)

    def ready(self) -> None:
        """Wait for the prompt: everything is as it was found, and nothing stands behind it."""
        self.until(lambda: self.rows[-1] == "shell$")
        assert self.modes == KITTY_STACK and self.cooked

    def ended(self, code: int) -> None:
        """Wait for the prompt; what is typed there is all that the shell reads."""
        self.ready()
        self.run("echo code=$?.")
        self.until(f"\ncode={code}.\nshell$")


@pytest.fixture
def shell() -> Iterator[Shell]:
    with Shell() as shell:
        yield shell


def test_a_run_is_stopped_and_suspended_by_plain_keys(shell: Shell, tmp_path: Path) -> None:
    script = write_script(tmp_path, answer(counted("word ", 450)), tokens_per_s=100)
    shell.run(f"ossia run hi --engine {script}")
    shell.until("word 9")
    assert shell.modes == ([1, 0], set())
    shell.press("\x1a")
    shell.until("Stopped")
    shell.ready()
    shell.run("fg")
    shell.until("word 29")
    assert shell.modes == ([1, 0], set())
    shell.press("\x03")
    shell.ended(130)


def test_the_modes_are_back_after_a_signal_and_after_a_crash(tmp_path: Path) -> None:
    script = write_script(tmp_path, writes("a.txt"), answer("Done."))
    with PtyChat("run", "hi", "--engine", script, "--workspace", str(tmp_path)) as run:
        run.until("Allow?")
        assert keyboard_after(run.sent, pushed=1) == ([1, 0], {2004})
        run.signal(signal.SIGTERM)
        assert run.wait() == 130 and run.cooked
        assert keyboard_after(run.sent, pushed=1) == KITTY_STACK
    crash = "from ossia.cli.terminal.keyboard import plain_keys\n@plain_keys()\ndef crash(): 1 / 0\ncrash()"
    with PtyChat("-c", crash, command=[sys.executable]) as python:
        assert python.wait() == 1
        assert "ZeroDivisionError" in python.text and keyboard_after(python.sent, pushed=1) == KITTY_STACK


def test_plain_questions_are_answered_by_keys_alone(shell: Shell, tmp_path: Path) -> None:
    """Enter and Ctrl-C in kitty's form, too; what the terminal sends of itself and what is pasted is no answer."""
    script = write_script(tmp_path, writes("a.txt"), answer("Done."))
    commands = {
        f"trust {tmp_path}": ("y", 0),
        f"run hi --engine {script} --workspace {tmp_path} --trust": ("y", 0),
        "run hi --engine http://nowhere.invalid:1": ("n", 2),
    }
    asked = 0
    for command, (letter, code) in commands.items():
        for keys, ends in ((CTRL_C, 130), (f"x\x7f{letter}{ENTER}", code)):
            shell.run(f"ossia {command}")
            asked += 1
            shell.until(lambda: len(re.findall(r"\[y/N\]|Allow\?", shell.text)) == asked)  # noqa: B023
            shell.press(SENT_BY_ITSELF + PASTED + keys)
            shell.ended(ends)


def test_the_chats_modes_around_ctrl_z_and_an_editor(shell: Shell, tmp_path: Path) -> None:
    script = write_script(tmp_path, answer("Done."))
    shell.run(f"EDITOR='bash -c \"echo $((6*7)); read line\"' ossia --engine {script} --no-tools --private")
    shell.idle()
    assert shell.modes == ([1, 0], {1004, 2004})
    shell.press("\x1a")
    shell.until("Stopped")
    shell.ready()
    shell.run("fg")
    shell.idle()
    shell.until(lambda: shell.modes == ([1, 0], {1004, 2004}))
    shell.press("\x18\x05")
    shell.until("\n42")
    assert shell.modes == KITTY_STACK and shell.cooked
    shell.press("\r")
    shell.until(lambda: shell.modes == ([1, 0], {1004, 2004}))
    shell.press(CTRL_D)
    shell.ended(0)


@pytest.mark.parametrize("term", ["dumb", "linux"])
def test_a_terminal_without_such_modes_is_sent_none(term: str, tmp_path: Path) -> None:
    with PtyChat("trust", str(tmp_path), environ={"TERM": term}) as trust:
        trust.until("[y/N]")
        trust.press("x\x7fy\r")
        assert trust.wait() == 0 and trust.cooked
        assert b"\x1b" not in trust.sent
