"""The installed `ossia` command, run as its users run it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ossia.cli.main import invoke
from tests.support.fork_server import ForkedProcess, can_fork, forked, request_of
from tests.support.started import STARTED

ROOT = Path(__file__).resolve().parents[2]
"""The clone."""

OSSIA = Path(sysconfig.get_path("scripts")) / ("ossia.exe" if sys.platform == "win32" else "ossia")
TIMEOUT_S = 60


def ossia(
    *arguments: str,
    stdin: bytes | int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    started: bool = False,
    stdout: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end. `stdin`: bytes to pipe in, or a descriptor; `stdout`: one for it, then it comes empty.

    It is forked from a process that has imported most of it (`fork_server`). `started`: it is started, as users do, for
    tests of what it imports and of what decides how Python starts.
    """
    whole = {**os.environ, **(env or {})}
    request = request_of([str(OSSIA), *arguments], whole, cwd)
    if not started and can_fork(request, whole):
        code, out, error = forked(request, stdin, TIMEOUT_S, stdout)
        return subprocess.CompletedProcess(arguments, code, out, error)
    piped = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        [str(OSSIA), *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        env=whole,
        cwd=cwd,
        check=False,
        **piped,  # type: ignore[call-overload]
    )


def ossia_here(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """As `ossia`, but in this process: without the half second that a start of Python and the imports take.

    For what is refused before anything runs: there a process of its own proves no more.
    """
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        Path(os.devnull).open(encoding="utf-8") as nothing,
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(cwd or Path.cwd()),
    ):
        for name, stream in (("stdin", nothing), ("stdout", out), ("stderr", error)):
            patch.setattr(sys, name, stream)
        code = invoke(list(arguments))
    done = [stream.detach() for stream in (out, error)]
    return subprocess.CompletedProcess(arguments, code, *(stream.getvalue() for stream in done))  # type: ignore[attr-defined]


def ossia_text(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, started: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, its outputs decoded."""
    done = ossia(*arguments, env=env, cwd=cwd, started=started)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def start(
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    started: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that a signal goes to it as a terminal would send it.

    `started`: as in `ossia`.
    """
    whole = {**os.environ, **(env or {})}
    request = request_of([str(OSSIA), *arguments], whole, cwd, session=True)
    if not started and stdin != subprocess.PIPE and can_fork(request, whole):
        process = cast("subprocess.Popen[bytes]", ForkedProcess(request, stdin))
    else:
        process = subprocess.Popen(
            [str(OSSIA), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=whole,
            cwd=cwd,
            start_new_session=True,
        )
    STARTED.append(process)
    return process


def write_script(folder: Path, *steps: str | Sequence[int], tokens_per_s: float = 0) -> str:
    """The `--engine` value for a script of these steps."""
    path = folder / "script.json"
    path.write_text(json.dumps({"version": 1, "tokens_per_s": tokens_per_s, "steps": steps}))
    return f"script:{path}"


def line_of(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The one line of `--json`."""
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 1, done
    value = json.loads(lines[0])
    assert isinstance(value, dict)
    return value
