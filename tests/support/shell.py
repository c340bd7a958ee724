"""The `ossia` of a real shell's PATH, forked as `tests.support.command` forks it: a start of Python takes longer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.command import OSSIA
from tests.support.fork_server import can_fork, server
from tests.support.started import STARTED

TIMEOUT_S = 60

_CLIENT = """\
#!{python} -IS
import json, os, signal, socket, struct, sys
if any(word.startswith("/dev/fd/") for word in sys.argv):  # `<(command)`: only a child has that descriptor
    os.execv("{ossia}", ["{ossia}", *sys.argv[1:]])
server = socket.socket(fileno={server})
ours, theirs = socket.socketpair()
request = json.dumps([["{ossia}", *sys.argv[1:]], dict(os.environ), os.getcwd(), False, False])
socket.send_fds(server, [request.encode()], [0, 1, 2, theirs.fileno()])
theirs.close()
pid, = struct.unpack("=q", ours.recv(8))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
for stream in range(3):
    os.close(stream)
code = os.waitstatus_to_exitcode(struct.unpack("=q", ours.recv(8))[0])
os._exit(code if code >= 0 else 128 - code)
"""


def put_ossia(folder: Path) -> None:
    """Put an `ossia` into a folder of PATH. What starts it must run by `shell`."""
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / "ossia"
    if not can_fork(b"", os.environ):
        own.symlink_to(OSSIA)
        return
    own.write_text(_CLIENT.format(python=sys.executable, server=server().fileno(), ossia=OSSIA))
    own.chmod(0o755)


def shell(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without input."""
    process = start_shell(command, cwd, env, stdout)
    out, error = process.communicate(timeout=TIMEOUT_S)
    return subprocess.CompletedProcess(command, process.returncode, (out or b"").decode(), error.decode())


def start_shell(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, which ends with the test."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[server().fileno()] if can_fork(b"", os.environ) else [],
    )
    STARTED.append(process)
    return process


def missing(programs: Sequence[str]) -> str:
    """The first program that isn't installed here, or ""."""
    return next((name for name in programs if not shutil.which(name)), "")
