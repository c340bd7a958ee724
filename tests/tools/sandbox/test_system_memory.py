"""Memory that is in no process, and the control groups that hold it where one can be had."""

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
from ossia.tools.sandbox._process import CommandProcess
from ossia.tools.sandbox._system_memory import Fall, beside_processes, socket_bytes, without_owner
from ossia.tools.sandbox.usage import usage_in_all
from tests.support.floods import flood
from tests.support.kernels import confinement, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")

MIB = 1 << 20


def test_memory_of_the_systems_own_is_seen() -> None:
    """Page tables, 290 MB. The figures are the whole machine's: what others give back meanwhile hides them."""
    program = flood("page tables", 8 << 30).replace("in_children(30, flood)", "flood()")
    said = ""
    for _ in range(20):
        fall = Fall(least_bytes=100 * MIB)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"all of it\n"
            said = [fall.breach(100 * MIB) for _ in range(3)][-1]
            process.kill()
        if said:
            break
    assert said == "took more than 0.1 GB of the machine's memory"


def test_three_looks_in_a_row_are_believed() -> None:
    less = -(1 << 50)  # a limit that is broken whatever the machine does
    fall = Fall(least_bytes=less)
    assert [bool(fall.breach(less)) for _ in range(4)] == [False, False, True, True]
    fall.rebase()
    assert [bool(fall.breach(limit)) for limit in (less, less, 1 << 50, less, less, less)] == 5 * [False] + [True]


def test_what_programs_have_themselves_is_no_fall() -> None:
    before = {"MemTotal": 16000, "MemAvailable": 9000, "AnonPages": 5000, "SwapTotal": 4000, "SwapFree": 4000}
    a_program_grew = {**before, "MemAvailable": 6000, "AnonPages": 8000}
    swapped_into_memory = {**before, "MemAvailable": 10000, "AnonPages": 3000, "SwapFree": 2000}
    page_tables_grew = {**before, "MemAvailable": 8500}
    texts = ["".join(f"{name}:  {kib} kB\n" for name, kib in figures.items()) for figures in
             (before, a_program_grew, swapped_into_memory, page_tables_grew)]  # fmt: skip
    assert [without_owner(text) // 1024 for text in texts] == [2000, 2000, 1000, 2500]
    assert without_owner("MemTotal: 16000 kB\n") == without_owner("") == 0
    assert without_owner(Path("/proc/meminfo").read_text()) > 0


def test_a_place_that_is_another_disk_by_now_is_no_memory(tmp_path: Path) -> None:
    """A sandbox in the middle of mounting: what mountinfo said of it a moment ago holds no longer."""
    process, there = tmp_path / "1", tmp_path / "root" / "data"
    (process / "ns").mkdir(parents=True)
    there.mkdir(parents=True)
    (process / "root").symlink_to(tmp_path / "root")
    (process / "ns/mnt").symlink_to("mnt:[1]")
    (process / "mountinfo").write_text("36 35 0:999 / /data rw - tmpfs tmpfs rw\n")
    assert beside_processes([process], 1 << 40) == 0
    device = there.stat().st_dev
    (process / "mountinfo").write_text(f"36 35 {os.major(device)}:{os.minor(device)} / /data rw - tmpfs tmpfs rw\n")
    assert beside_processes([process], 1 << 40) > 0


@pytest.mark.skipif(not Path("/proc/self/fd").stat().st_size, reason="before Linux 6.2 open files aren't counted")
def test_sockets_of_a_tree_are_counted_once() -> None:
    """As under Landlock, where a tree has no network of its own: by what its processes hold open."""
    code = ("import os, socket, sys\nkept = [socket.socketpair() for _ in range(20)]\n"
            "os.fork()\nprint('x', flush=True)\nsys.stdin.read()")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"x\nx\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        tree = [Path("/proc", str(pid)) for pid in (process.pid, *children)]
        assert beside_processes(tree, 10 * socket_bytes()) == 40 * socket_bytes()
        assert beside_processes(tree, 1 << 40) == 0  # so many could they be at the most: not looked at
        assert usage_in_all(process.pid, 10 * socket_bytes(), 100).beside_bytes == 40 * socket_bytes()
        process.communicate(b"")


# -- control groups ----------------------------------------------------------------------------------------------------

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
