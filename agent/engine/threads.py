"""The number of threads that compute, and the way they wait for each other beside other programs.

GNU OpenMP's threads spin between the parts of a token. Nothing is faster as long as each has a processor of its own.
Beside other programs, each part waits for a thread that was preempted while another one that only spins was not. On 2
cores with a 0.8 GB model: on an idle machine 80 tokens/s spinning and 68 sleeping; beside two busy processes 25 and 32
(another day 0.5 and 64). Fewer threads do better if the other programs are in other terminals: 41 tokens/s with one
thread; with two, 20 to 28 sleeping and 20 to 48 spinning.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_NO_LIMIT = 1 << 20
_ASLEEP_AFTER_S = 0.02
"""After a step the threads spin no longer than this (300,000 rounds: 1 to 13 ms)."""
_LOOK_EVERY_S = 0.05
_REMEMBERED_S = 0.15
_MARGIN = 0.5
"""In threads: ours sleep once others want this much more than is free, and spin again once it is less than half."""


def default_threads(sysfs: Path = Path("/sys")) -> int:
    """The number of physical cores that this process may use, at least 1: `8` where 8 cores run 16 threads.

    Two threads on one core share its arithmetic units and its path to memory. One thread more than there are processors
    keeps all others waiting at every part of a token. A container's share of the processors is taken into account.
    """
    return max(1, min(_physical_cores(sysfs), _quota(sysfs)))


def step_tokens(threads: int) -> int:
    """The ids of a prompt that these threads take at once: 32 for one, 64 for two, 256 for eight; 512 at most.

    More at once is hardly faster, and delays a stop, which can only come between two of the network's operations: 72 of
    them take nearly all the time with gpt-oss-20b. For 64 ids two cores need 5 s, and 70 ms for each of these
    operations; for 512 ids, 50 s and 0.7 s. A core reads 5.9 ids a second in steps of 64; 4.6 in steps of 16, 4.9 of
    32, 6.1 of 256. The number never adapts to measurements at run time: other steps round differently, and with a seed,
    or greedily, the same answer must come again.
    """
    return min(32 << (threads - 1).bit_length(), 512)


def _physical_cores(sysfs: Path) -> int:
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_siblings(sysfs, cpu) for cpu in os.sched_getaffinity(0)})


def _siblings(sysfs: Path, cpu: int) -> str:
    """The hardware threads that share this one's core: `"0,8"`."""
    try:
        return (sysfs / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota(sysfs: Path) -> int:
    """The processors of a container: 2 for `"200000 100000"`, the microseconds it may use in each 0.1 s."""
    try:
        quota, period = (sysfs / "fs/cgroup/cpu.max").read_text().split()
        return int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return _NO_LIMIT


# -- waiting -----------------------------------------------------------------------------------------------------------


class Sleep(Protocol):
    """Makes waiting threads sleep at once (`begin`), or spin first as they do by default (`end`)."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class IdleTeam:
    """Makes GNU OpenMP's waiting threads sleep, at any time (OpenMP's own setting is read only once, when loaded).

    Its threads spin 100 rounds instead of 300,000 while the process has more of them than there are processors (libgomp
    calls that throttled). A second team of threads that do nothing brings that about; libgomp ends them together with
    the thread that started them. `threads` are those of the first team. If the system gives no more threads, nothing
    changes.
    """

    def __init__(self, library: ctypes.CDLL, *, threads: int, processors: int) -> None:
        self._library = library
        self._size = processors - threads + 2  # libgomp counts the thread that starts a team for the first team only
        self._leave: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        if not _can_start(2 * self._size):  # twice: some threads of the trial may still be there when the team starts
            return
        ready, leave = threading.Event(), threading.Event()
        gomp_parallel = self._library.GOMP_parallel
        # A parallel section of something harmless that needs no interpreter: the length of an empty string.
        harmless = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p)

        def gather() -> None:
            gomp_parallel(harmless, ctypes.c_char_p(b""), ctypes.c_uint(self._size), ctypes.c_uint(0))
            ready.set()
            leave.wait()

        thread = threading.Thread(target=gather, name="openmp-idle", daemon=True)
        thread.start()
        self._thread, self._leave = thread, leave
        ready.wait()

    def end(self) -> None:
        if self._thread and self._leave:
            self._leave.set()
            self._thread.join()
        self._thread = self._leave = None


def _can_start(count: int) -> bool:
    """True if the system lets us start so many more threads. If it didn't, libgomp would end the process."""
    leave, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(count):
            thread = threading.Thread(target=leave.wait, name="openmp-trial", daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return False
    finally:
        leave.set()
        for thread in started:
            thread.join()
    return True


class Waiting:
    """Decides before each step whether waiting threads sleep or spin, by how many threads on the machine want to run.

    `threads` are those that compute, the caller's among them. Made by `waiting_for`.
    """

    def __init__(
        self,
        sleep: Sleep,
        *,
        threads: int,
        processors: int,
        wanting: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep, self._threads, self._wanting, self._clock = sleep, threads, wanting, clock
        self._room = processors - threads
        self._others = 0.0  # a recent average of other programs' threads that want a processor
        self._looked = self._ended = -math.inf
        self.asleep = False

    def before_step(self) -> None:
        """Decide again, if it is time to, which takes about 50 µs."""
        now = self._clock()
        since = now - self._looked
        if since < _LOOK_EVERY_S:
            return
        # If we can't know whether ours still spin, assume that they do, since spinning is the default.
        ours = 1 if self.asleep or now - self._ended > _ASLEEP_AFTER_S else self._threads
        self._looked = now
        seen = max(self._wanting() - ours, 0)
        self._others += (seen - self._others) * (1 - math.exp(-since / _REMEMBERED_S))
        if not self.asleep and self._others > self._room + _MARGIN:
            self.asleep = True
            self._sleep.begin()
        elif self.asleep and self._others < self._room + _MARGIN / 2:
            self.asleep = False
            self._sleep.end()

    @property
    def fitting(self) -> int:
        """The number of our threads that get a processor beside the other programs, at least 1."""
        if not self.asleep:
            return self._threads
        return max(1, min(self._threads, self._threads + self._room - round(self._others)))

    def after_step(self) -> None:
        """A step has ended, just now."""
        self._ended = self._clock()

    def close(self) -> None:
        """Give back the threads that it may hold."""
        if self.asleep:
            self.asleep = False
            self._sleep.end()


def waiting_for(threads: int) -> Waiting | None:
    """`Waiting` for `threads` that compute with the OpenMP of this process.

    None if there is nothing to decide: a single thread; more threads than processors (libgomp lets them sleep anyway);
    no GNU OpenMP (builds for macOS have none, Clang's has its own way); no Linux to tell who wants a processor.
    `OMP_WAIT_POLICY=passive` in the environment still means sleep. In a container the whole machine's threads are
    counted: if it has processors of its own (a cpuset), our threads sleep more than they need to; if it has a share of
    all processors (a quota), we don't see when others use that up.
    """
    if sys.platform != "linux" or threads < 2:
        return None
    processors = len(os.sched_getaffinity(0))
    if threads > processors:
        return None
    try:
        library = _gnu_openmp()
        _threads_that_want_a_processor()
    except (OSError, ValueError):
        return None
    if library is None:
        return None
    idle = IdleTeam(library, threads=threads, processors=processors)
    return Waiting(idle, threads=threads, processors=processors, wanting=_threads_that_want_a_processor)


def _gnu_openmp() -> ctypes.CDLL | None:
    """The library that is already loaded: llama.cpp may have brought its own, under another name."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if found := re.search(r"/.*/libgomp[^/]*\.so[^/]*$", line):
            return ctypes.CDLL(found[0])
    return None


def _threads_that_want_a_processor() -> int:
    """The threads that run or could run now, on all processors: the `3` of `0.52 0.58 0.59 3/415 8213`."""
    return int(Path("/proc/loadavg").read_bytes().split(b"/")[0].split()[-1])
