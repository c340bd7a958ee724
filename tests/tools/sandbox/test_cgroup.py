"""The control groups that hold memory where one can be had."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox import PYTHON_LIMITS, SHELL_LIMITS, Job, Launch, _cgroup
from ossia.tools.sandbox._command_process import CommandProcess
from tests.support.floods import flood
from tests.support.kernels import confinement, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")

MIB = 1 << 20
GROUP = _cgroup.found() if sys.platform == "linux" else None


@pytest.mark.skipif(GROUP is None, reason="no control group can be had here: not delegated, no systemd of this user")
@pytest.mark.parametrize("name", [pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock"])
def test_a_control_group_holds_memory(name: str, tmp_path: Path) -> None:
    """By what no look from outside counts, so that it can only be Linux that ended it."""
    limits = replace(PYTHON_LIMITS, address_space_bytes=1 << 40, memory_bytes=300 * MIB)
    tool = PythonTool(data_dir=tmp_path, confinement=confinement(name), timeout_s=120, limits=limits)
    with closing(tool):
        assert run(tool, "1 + 1").text == "2"
        text = run(tool, flood("page tables", 8 << 30)).text
        assert "kernel died (used more than 300 MB of memory, or the machine had no more)" in text
        assert run(tool, "1 + 1").text.endswith("2")


@pytest.mark.skipif(GROUP is None, reason="no control group can be had here: not delegated, no systemd of this user")
@pytest.mark.parametrize(("command", "status", "ended_by"), [
    ("kill -KILL $$", 137, ""),
    ("cat /proc/self/cgroup >&2; exit 3", 3, ""),
    ("head -c 300M /dev/zero | tail -c 200M", 137, "it used more than 100 MB of memory, or the machine had no more"),
])  # fmt: skip
def test_what_ended_a_command_in_a_group(command: str, status: int, ended_by: str, tmp_path: Path) -> None:
    """A kill inside is no lack of memory. The first process is one that waits, as bubblewrap's and our supervisor."""
    launch = Launch(("/bin/sh", "-c", '/bin/sh -c "$0"; exit $?', command), {"PATH": "/usr/bin:/bin"})
    job = Job(tmp_path, tmp_path, replace(SHELL_LIMITS, memory_bytes=100 * MIB), command=command)
    process = CommandProcess(launch, job, timeout_s=60, grace_s=1)
    output = b"".join(process.output)
    found = process.status
    process.close()
    assert (found, process.ended_by) == (status, ended_by), output


def test_a_program_that_is_no_systemd_gives_no_group(tmp_path: Path) -> None:
    """What answers but doesn't hold the limits isn't used; without a bus nothing is started."""
    program = tmp_path / "systemd-run"
    program.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    program.chmod(0o755)
    assert _cgroup.scopes(tmp_path / "bus", (program,)) is None
    inner = Launch(("/bin/true",), {})
    with pytest.raises(OSError):  # the user's last session ended, and ossia goes on
        _cgroup.Scopes(program, tmp_path / "bus").around(inner, memory_bytes=1, processes=1)
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(tmp_path / "bus"))
        assert _cgroup.scopes(tmp_path / "bus", (program,)) is None
        assert _cgroup.scopes(tmp_path / "bus", (tmp_path / "missing",)) is None
        with pytest.raises(OSError):  # a file is left, and nobody answers
            _cgroup.Scopes(program, tmp_path / "bus").around(inner, memory_bytes=1, processes=1)
        listening.listen()
        assert _cgroup.scopes(tmp_path / "bus", (program,)) is None


def test_a_scope_starts_the_same_thing(tmp_path: Path) -> None:
    """Its words, its descriptors and its environment; nothing of the bus that systemd-run needs."""
    program = tmp_path / "systemd-run"
    program.write_text('#!/bin/sh\necho "$@" >"$XDG_RUNTIME_DIR/told"\n'
                       'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')  # fmt: skip
    program.chmod(0o755)
    reading, writing = os.pipe()
    os.write(writing, b"handed down\n")
    os.close(writing)
    inner = Launch(("/bin/sh", "-c", 'cat <"/proc/self/fd/$1"; env; echo "$2"', "sh", str(reading), "$HOME"),
                   {"PATH": "/usr/bin:/bin", "A": "b c"}, (reading,), lifeline=True)  # fmt: skip
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(tmp_path / "bus"))
        listening.listen()
        launch = _cgroup.Scopes(program, tmp_path / "bus", ("--flag",)).around(inner, memory_bytes=1000, processes=5)
    done = subprocess.run(launch.command, env=launch.env, pass_fds=launch.fds, capture_output=True, text=True)
    os.close(reading)
    said = [line for line in done.stdout.splitlines() if not line.startswith(("PWD=", "_=", "SHLVL=", "OLDPWD="))]
    assert sorted(said) == ["$HOME", "A=b c", "PATH=/usr/bin:/bin", "handed down"] and launch.lifeline
    told = (tmp_path / "told").read_text()
    assert told.startswith("--user --scope --quiet --collect --flag -p MemoryMax=1000 -p MemorySwapMax=0 ")


def test_a_delegated_group_is_joined_first(tmp_path: Path) -> None:
    """In a plain folder instead of a real group: what is written where."""
    launch = _cgroup.Delegated(tmp_path).around(Launch(("/bin/echo", "ran"), {}), memory_bytes=1000, processes=5)
    assert launch.group is not None and launch.group.parent == tmp_path
    assert {path.name: path.read_text() for path in launch.group.iterdir()} == {
        "memory.max": "1000", "memory.oom.group": "1", "memory.swap.max": "0", "pids.max": "261",
    }  # fmt: skip
    with subprocess.Popen(launch.command, env=launch.env, stdout=subprocess.PIPE) as process:
        assert process.communicate()[0] == b"ran\n"
    assert (launch.group / "cgroup.procs").read_text() == f"{process.pid}\n"
    missing = _cgroup.Delegated(tmp_path / "missing")
    with pytest.raises(OSError):
        missing.around(Launch(("/bin/true",), {}), memory_bytes=1, processes=1)
