"""`!command`: a command of the user's own, run by their shell. It is their command: nothing confines it."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.spec import Stop
from ossia.tools.text import Bounded, clean

_MAX_S = 120.0
_HEAD_CHARS, _TAIL_CHARS = 40_000, 24_000
_TICK_S, _POLITE_S = 0.05, 0.5
_LAST_WORDS_S = 0.3
"""The wait for output after the shell's end: programs left running may keep the pipe open."""
_PLAIN = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended. `output`: stdout and stderr as they came, without escape sequences.

    `omitted_chars` of its middle are left out. `status` is the shell's, None if ossia ended it; `end` says it in words:
    `"exit status 1"`, `"stopped"`, `"stopped after 120 s"`.
    """

    command: str
    output: str
    status: int | None
    end: str
    omitted_chars: int = 0


def run_command(command: str, *, folder: Path, environ: Mapping[str, str], stop: Stop, max_s: float = _MAX_S) -> Ran:
    """Run `command` with $SHELL (else `/bin/sh`) in `folder`. It blocks: call it on a thread.

    It has no terminal and an empty stdin. A stop, or `max_s`, ends it and what it started.

        run_command("git status -s", folder=Path.cwd(), environ=os.environ, stop=control).output
    """
    shell = [environ.get("SHELL") or "/bin/sh", "-c"]
    if sys.platform == "win32":
        shell = [environ.get("COMSPEC", "cmd.exe"), "/d", "/c"]
    try:
        process = subprocess.Popen(
            [*shell, command],
            cwd=folder,
            env={**environ, **_PLAIN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Ran(command, "", None, f"it can't be started: {getattr(error, 'strerror', None) or error}")
    output = Bounded(_HEAD_CHARS, _TAIL_CHARS)
    reader = _Reader(process, output.add)
    stopped = _wait(process, stop, max_s)
    reader.finish()
    gap = f"\n[… {output.omitted:,} characters left out here …]\n" if output.omitted else ""
    text, code = clean(output.head + gap + output.tail), process.returncode
    if stopped:
        return Ran(command, text, None, stopped, output.omitted)
    end = f"exit status {code}" if code >= 0 else f"ended by signal {-code}"
    return Ran(command, text, code, end, output.omitted)


class _Reader:
    """Takes in the output of a process, until its end or `finish`."""

    def __init__(self, process: subprocess.Popen[bytes], take: Callable[[str], None]) -> None:
        assert process.stdout is not None
        self._pipe, self._take = process.stdout, take
        self._over = False
        self._thread = threading.Thread(target=self._read, name="user-command", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Take in nothing after this."""
        self._thread.join(_LAST_WORDS_S)
        self._over = True

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with self._pipe as pipe:
            while data := os.read(pipe.fileno(), 1 << 16):
                text = decoder.decode(data)
                if self._over:
                    return  # a program still running finds its pipe closed
                self._take(text)


def _wait(process: subprocess.Popen[bytes], stop: Stop, max_s: float) -> str:
    """Wait until it has ended; returns the reason why ossia ended it, "" for none."""
    give_up_at = time.monotonic() + max_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TICK_S)
            return ""
        if stop.stopped or time.monotonic() > give_up_at:
            _end(process)
            return "stopped" if stop.stopped else f"stopped after {max_s:g} s"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and its children: politely, and after half a second for good."""
    if sys.platform == "win32":
        process.kill()
    else:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLITE_S)
    with contextlib.suppress(subprocess.TimeoutExpired):  # a process of another user can't be ended
        process.wait(_POLITE_S)
