"""stdout carries what we write, whoever else writes in the process: real processes, pipes, a pseudo-terminal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import OSSIA, ossia, write_script
from tests.support.pty import PtyChat

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors and pseudo-terminals as POSIX has them")

NOISY = '''
import atexit, ctypes, os, subprocess, sys, threading

libc = ctypes.CDLL(None)

def _noise(when):
    os.write(1, f"written {when}\\n".encode())
    print(f"printed {when}")
    subprocess.run(["echo", f"echoed {when}"])
    libc.puts(f"put {when}".encode())
    stream = sys.__stdout__ or sys.stderr  # None where the shell closed it
    stream.write(f"told {when}\\n")
    stream.flush()

def _later():
    go.wait()
    _noise("in a thread")

_noise("at import")
atexit.register(_noise, "at the end")
go = threading.Event()
thread = threading.Thread(target=_later)
thread.start()

def noisy() -> str:
    """Make noise."""
    _noise("in a call")
    go.set()
    thread.join()
    return "quiet"

atexit.register(libc.fflush, None)
threading._register_atexit(go.set)  # for the commands that call nothing: before the end waits for threads
'''
CALL = "<|channel|>commentary to=functions.noisy code<|message|>{}<|call|>"
FINAL = "<|channel|>final<|message|>Done.<|return|>"
WAYS = ("written", "printed", "echoed", "put", "told")


@pytest.fixture
def run(tmp_path: Path) -> tuple[str, ...]:
    """A turn whose answer is "Done.", with a call in it that makes noise on every way to descriptor 1."""
    tools = tmp_path / "noisy.py"
    tools.write_text(NOISY)
    return ("run", "hi", "--engine", write_script(tmp_path, CALL, FINAL), "--tools", str(tools), "--yes")


def _in_a_shell(line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`line`, in which `"$@"` is the command."""
    command = ["/bin/bash", "-c", line, str(OSSIA), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)


def _noise(when: str, *, but: str = "") -> set[str]:
    return {f"{way} {when}" for way in WAYS if way != but}


def test_only_the_answer_is_on_stdout(run: tuple[str, ...]) -> None:
    done = ossia(*run)
    assert (done.returncode, done.stdout) == (0, b"Done.\n")
    said = set(done.stderr.decode().splitlines())
    # What is printed at import and in a call is the function's: told of, and given to the model.
    expected = _noise("at import", but="printed") | _noise("in a call", but="printed")
    assert said >= expected | _noise("in a thread") | _noise("at the end")
    line = json.loads(ossia(*run, "--json").stdout)
    assert (line["answer"], line["calls"][0]["result"]) == ("Done.", "quiet")


def test_what_other_commands_print_is_theirs_alone(run: tuple[str, ...]) -> None:
    tools = run[-3:-1]
    done = ossia("tools", "call", "functions.noisy", "{}", *tools)
    assert (done.returncode, done.stdout) == (0, b"quiet\n")
    done = ossia("tools", "list", "--json", *tools)
    assert "functions.noisy" in [tool["name"] for tool in json.loads(done.stdout)["tools"]]


def test_on_a_terminal_too(run: tuple[str, ...], tmp_path: Path) -> None:
    """stdout and stdin are a terminal, stderr is a file."""
    line = f"exec {shlex.join((str(OSSIA), *run))} 2> {shlex.quote(str(tmp_path / 'said'))}"
    with PtyChat(command=["/bin/sh", "-c", line]) as terminal:
        assert terminal.wait() == 0
    assert [row for row in terminal.rows if row.strip()] == ["Done."]
    said = (tmp_path / "said").read_text().splitlines()
    assert set(said) >= _noise("in a thread") | _noise("at the end")


def test_in_a_chat_the_terminal_is_ours(run: tuple[str, ...], tmp_path: Path) -> None:
    """What functions write goes to stderr, and an editor has the terminal."""
    editor, saw = tmp_path / "editor", tmp_path / "saw"
    editor.write_text(f'#!/bin/sh\n[ -t 0 ] && [ -t 1 ] && echo terminal > {shlex.quote(str(saw))}\necho hi > "$1"\n')
    editor.chmod(0o700)
    line = f"exec {shlex.join((str(OSSIA), *run[2:]))} 2> {shlex.quote(str(tmp_path / 'said'))}"
    with PtyChat(command=["/bin/sh", "-c", line], environ={"EDITOR": str(editor)}) as chat:
        chat.idle()
        chat.press("\x18\x05")
        chat.until("› hi")
        assert saw.read_text() == "terminal\n"
        chat.press("\r")
        chat.until("Done.")
        chat.idle()
        chat.press("\x04")
        assert chat.wait() == 0
    screen = chat.plain()
    noise = _noise("in a call", but="printed") | _noise("in a thread") | _noise("at the end")
    assert not [one for one in noise if one in screen], "what is printed in a call is its output, which is shown"
    assert set((tmp_path / "said").read_text().splitlines()) >= _noise("in a thread") | _noise("at the end")


def test_where_stdout_leads_is_as_the_shell_has_it(run: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "out"
    for line, code, out in (
        (f'"$0" "$@" > {file}; code=$?; cat {file}; exit $code', 0, "Done.\n"),
        ('"$0" "$@" >&-', 0, ""),
        ('"$0" "$@" <&- 2>&-', 0, "Done.\n"),
        ('"$0" "$@" >&- 2>&- <&-', 0, ""),
    ):
        done = _in_a_shell(line, *run)
        assert (done.returncode, done.stdout) == (code, out), (line, done.stderr)
    together = _in_a_shell('"$0" "$@" 2>&1', *run)
    assert "Done." in together.stdout.splitlines() and together.stderr == ""


def test_an_output_that_is_closed_or_full(run: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([str(OSSIA), *run], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert done.returncode == 141
    if Path("/dev/full").exists():
        done_full = _in_a_shell('"$0" "$@" > /dev/full', *run)
        assert done_full.returncode == 1 and "No space left on device" in done_full.stderr
        assert "Traceback" not in done_full.stderr


def test_a_reader_sees_the_end_while_we_still_work() -> None:
    """What comes later leads nowhere, and is no error."""
    code = (
        "import sys\nfrom ossia.cli.streams import end_stdout, stdout, take_stdout\ntake_stdout()\n"
        "stdout().write('Done.\\n')\nend_stdout()\nsys.stdin.read()\nprint('more')\nsys.stdout.flush()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.read() == b"Done.\n"  # to its end
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 0
