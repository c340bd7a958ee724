"""Memory that is in no process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.floods import flood
from tools._system_memory import Fall, beside_processes, socket_bytes, without_owner
from tools._watch import usage_in_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")

MIB = 1 << 20


@pytest.fixture
def page_tables() -> Iterator[subprocess.Popen[bytes]]:
    """A process that fills memory with page tables until it is ended."""
    program = flood("page tables", 20 << 30).replace("in_children(30, flood)", "flood()")
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        yield process
        process.kill()


def test_memory_of_the_systems_own_is_seen(page_tables: subprocess.Popen[bytes]) -> None:
    fall, said = Fall(least_bytes=100 * MIB), ""
    while not said:
        assert page_tables.poll() is None
        said = fall.breach(100 * MIB)
    assert said == "took more than 0.1 GB of the machine's memory"
    fall.rebase()
    assert fall.breach(8 << 30) == ""


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
        assert usage_in_all(process.pid, 10 * socket_bytes()).beside_bytes == 40 * socket_bytes()
        process.communicate(b"")
