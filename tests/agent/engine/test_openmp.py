"""How llama.cpp's threads wait: when they are let spin or sleep, and that libgomp does as it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ossia.agent.engine.threads import Waiting

SPIN, SLEEP = "spin", "sleep"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="builds for macOS have no OpenMP")
PROCESSORS = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


@dataclass
class Machine:
    """One with 2 processors; `told` is what the threads were told."""

    now: float = 100.0
    wanting: int = 1
    looks: int = 0
    told: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.told.append(SLEEP)

    def end(self) -> None:
        self.told.append(SPIN)

    def count(self) -> int:
        self.looks += 1
        return self.wanting

    def waiting(self, *, threads: int = 2, processors: int = 2) -> Waiting:
        return Waiting(self, threads=threads, processors=processors, wanting=self.count, clock=lambda: self.now)

    def steps(self, waiting: Waiting, wanting: Sequence[int], *, step: float = 0.06, gap: float = 0.0003) -> list[str]:
        """Steps that take so long, before each of which so many threads want a processor: how each is waited in."""
        ways = []
        for self.wanting in wanting:
            waiting.before_step()
            ways.append(SLEEP if waiting.asleep else SPIN)
            self.now += step
            waiting.after_step()
            self.now += gap
        return ways


def test_alone_the_threads_spin() -> None:
    machine = Machine()
    waiting = machine.waiting()
    assert machine.steps(waiting, [1]) == [SPIN]  # the first time the other thread of ours sleeps yet
    assert machine.steps(waiting, [2] * 50) == [SPIN] * 50
    assert machine.told == []


def test_they_sleep_while_others_want_the_processors() -> None:
    machine = Machine()
    waiting = machine.waiting()
    ways = machine.steps(waiting, [1, 4, 4, 4, 3, 3])
    assert ways == [SPIN, SLEEP, SLEEP, SLEEP, SLEEP, SLEEP]
    ways = machine.steps(waiting, [1] * 12)
    assert ways[0] == SLEEP and ways[-1] == SPIN
    assert machine.told == [SLEEP, SPIN]


def test_others_that_are_there_before_the_first_step_are_seen() -> None:
    machine = Machine(wanting=3)
    assert machine.steps(machine.waiting(), [3]) == [SLEEP]


def test_a_single_other_for_a_moment_changes_nothing() -> None:
    machine = Machine()
    waiting = machine.waiting()
    assert machine.steps(waiting, [1, 2, 2, 3, 2, 2, 2, 3, 2, 2]) == [SPIN] * 10


def test_others_that_the_processors_have_room_for_are_welcome() -> None:
    machine = Machine()
    waiting = machine.waiting(threads=4, processors=8)
    assert machine.steps(waiting, [5, *[8] * 20]) == [SPIN] * 21
    assert machine.steps(waiting, [10] * 10)[-1] == SLEEP


def test_quick_steps_are_not_held_up_by_looking() -> None:
    machine = Machine()
    waiting = machine.waiting()
    machine.steps(waiting, [1, *[2] * 100], step=0.001)
    assert machine.looks <= 4


def test_where_ours_may_spin_still_or_sleep_already_others_are_seen_all_the_same() -> None:
    machine = Machine()
    waiting = machine.waiting()
    assert machine.steps(waiting, [1, 2, 1, 2, 1], gap=0.01) == [SPIN] * 5
    assert machine.steps(waiting, [3, 4, 3, 4, 3], gap=0.01)[-1] == SLEEP


@pytest.mark.parametrize(
    ("threads", "processors", "wanting", "expected"),
    [(2, 2, 3, 1), (2, 2, 2, 1), (2, 2, 9, 1), (4, 4, 2, 3), (4, 4, 3, 2), (8, 16, 12, 5), (8, 16, 3, 8), (2, 2, 1, 2)],
)
def test_as_many_threads_fit_as_there_are_processors_beside_the_others(
    threads: int, processors: int, wanting: int, expected: int
) -> None:
    machine = Machine(wanting=wanting)
    waiting = machine.waiting(threads=threads, processors=processors)
    machine.steps(waiting, [wanting])
    assert waiting.fitting == expected
    machine.now += 10
    machine.steps(waiting, [1])
    assert waiting.fitting == threads


def test_closing_gives_the_threads_back() -> None:
    machine = Machine(wanting=4)
    waiting = machine.waiting()
    machine.steps(waiting, [4])
    waiting.close()
    waiting.close()
    assert machine.told == [SLEEP, SPIN]


_START = """
    import json, os, sys, time
    import ossia.agent.engine.llama
    from ossia.agent.engine.threads import IdleTeam, _gnu_openmp, waiting_for
    import ctypes, threading

    library = _gnu_openmp()
    harmless = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p)

    def waited_ms():
        "Processor time of a thread of ours that waits for its next work, while this one sleeps."
        library.GOMP_parallel(harmless, ctypes.c_char_p(b""), ctypes.c_uint(2), ctypes.c_uint(0))
        before = time.process_time()
        time.sleep(0.1)
        return 1e3 * (time.process_time() - before)

    def spun():
        "Tries until one spins: on a crowded machine it may be over before this thread looks at the time again."
        tries = [waited_ms()]
        while tries[-1] < 0.7 and len(tries) < 100:
            tries.append(waited_ms())
        return tries

    def threads(expected=0):
        "How many there are; those that end may take a moment to."
        for _ in range(100):
            if (count := len(os.listdir("/proc/self/task"))) == expected or not expected:
                break
            time.sleep(0.02)
        return count

    idle = IdleTeam(library, threads=2, processors=len(os.sched_getaffinity(0)))
    waited_ms()
"""

_REAL = """
    found = {"spinning": spun(), "threads": [threads()]}
    idle.begin()
    found["asleep"] = [waited_ms() for _ in range(5)]
    found["threads"].append(threads())
    idle.end()
    found["spinning again"] = spun()
    found["threads"].append(threads(found["threads"][0]))
    print(json.dumps(found))
"""


_DECIDED = """
    processors = len(os.sched_getaffinity(0))
    decided = [count for count in range(1, processors + 3) if waiting_for(count)]
    print(json.dumps({"decided": decided, "expected": list(range(2, processors + 1))}))
"""

_CROWDED = """
    import resource
    threading.stack_size(8 << 20)
    room = 12 << 20  # for one thread more, not for two
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
    before = threads()
    idle.begin()
    found = {"threads": [before, threads(before)]}
    idle.end()
    print(json.dumps(found))
"""


def ran(script: str) -> dict[str, list[float]]:
    """What the script finds, in a process that has loaded llama.cpp's OpenMP and made a team of two threads."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GOMP_", "OMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_START) + textwrap.dedent(script)],
        env=environ,
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


@LINUX
@pytest.mark.skipif(PROCESSORS < 2, reason="on one processor no two threads spin")
def test_libgomp_lets_its_threads_sleep_and_spin_again() -> None:
    found = ran(_REAL)
    # 300,000 rounds take 1 ms and more, 100 take a few µs.
    assert max(found["asleep"]) < 0.7 < min(max(found["spinning"]), max(found["spinning again"]))
    before, meanwhile, after = found["threads"]
    assert before == after < meanwhile


@LINUX
def test_there_is_something_to_decide_for_two_threads_to_as_many_as_there_are_processors() -> None:
    found = ran(_DECIDED)
    assert found["decided"] == found["expected"]


@LINUX
def test_where_no_more_threads_are_to_be_had_the_process_lives_on() -> None:
    before, meanwhile = ran(_CROWDED)["threads"]
    assert before == meanwhile
