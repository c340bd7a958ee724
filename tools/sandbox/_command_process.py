"""A command's process: its output as it comes; ended at its limits; what it left running is ended and named."""

from __future__ import annotations

import os
import platform
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from ossia.tools.names import escaped
from ossia.tools.sandbox import _cgroup
from ossia.tools.sandbox._process import CHECK_S, CHECK_SHARE, Process
from ossia.tools.sandbox.job import Job, Launch
from ossia.tools.sandbox.usage import Usage, available_bytes, names_below, processes_of, usage_in_all

_CHUNK_BYTES = 1 << 16
_HELD_OPEN_S = 0.5
"""An escaped process may keep the output open so long after the command's end."""
_MAX_REPORT_BYTES, _MAX_NAMED = 1 << 16, 5
_STAT = re.compile(r"\d+ \((.*)\) [^ZX] ")
"""The beginning of /proc/PID/stat: the name of a program, and its state unless it has ended."""


class CommandProcess(Process):
    """Starts at construction, or raises `OSError`. Iterate over `output`, then look at `status`.

    `ended_by`: "" for a normal end, "timeout", "stopped", else a broken limit, in words for the model. The constructing
    thread must live as long as the command: bubblewrap's processes end with it. `waits_s`: a program that waits so long
    for a terminal's input is ended.
    """

    def __init__(
        self, launch: Launch, job: Job, *, timeout_s: float, grace_s: float, waits_s: float = 5.0
    ) -> None:
        super().__init__(launch, job)
        self._folder, self._folders = job.folder, (job.folder, *job.writable)
        self._names, self._count_at = 0, 0.0
        self._deadline, self._grace_s = time.monotonic() + timeout_s, grace_s
        self._wake, self._over = threading.Event(), threading.Event()
        self._stop_grace_s: float | None = None
        self.ended_by = ""
        self._line, theirs = socket.socketpair()
        theirs.setblocking(False)  # what doesn't fit isn't reported
        with theirs:
            try:
                self._popen = self._start(theirs.fileno(), subprocess.PIPE, subprocess.STDOUT)
            except OSError:
                self._line.close()
                raise
        assert self._popen.stdout is not None
        self._waiting = Waiting(self._popen.stdout.fileno(), waits_s)
        self._watcher = threading.Thread(target=self._watch, name="shell-watch", daemon=True)
        self._watcher.start()

    @property
    def status(self) -> int:
        """The exit status as a shell has it: 128 + N after signal N. Valid only after the output's end."""
        code = self._popen.wait()
        return code if code >= 0 else 128 - code

    @property
    def left(self) -> str:
        """Names of what ran on when the command ended by itself: `"node (2 processes), sleep"`. After the output."""
        report = b""
        with suppress(OSError):
            self._line.setblocking(False)
            while len(report) < _MAX_REPORT_BYTES and (more := self._line.recv(_CHUNK_BYTES)):
                report += more
        stats = map(_STAT.match, report.decode(errors="replace").splitlines())
        names = Counter(escaped(found[1]) for found in stats if found)
        shown = [f"{name} ({number} processes)" if number > 1 else name for name, number in names.items()]
        others = [f"{len(shown) - _MAX_NAMED} more"] if len(shown) > _MAX_NAMED else []
        return ", ".join(shown[:_MAX_NAMED] + others)

    @property
    def output(self) -> Iterator[bytes]:
        """stdout and stderr in the order they came, in pieces of at most 64 KiB, until the command's end."""
        import select

        assert self._popen.stdout is not None
        pipe = self._popen.stdout.fileno()
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        ended_at: float | None = None
        while True:
            if poller.poll(100):
                chunk = os.read(pipe, _CHUNK_BYTES)
                if not chunk:
                    return
                yield chunk
            elif self._popen.poll() is not None:
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > _HELD_OPEN_S:
                    return

    def stop(self, grace_s: float) -> None:
        """End the command: SIGTERM first, a kill after `grace_s`. Returns at once; thread-safe."""
        self._stop_grace_s = grace_s
        self._wake.set()

    def close(self) -> None:
        """End the rest and release everything."""
        if self._popen.poll() is None:
            self._kill(self._popen, self._line, self._ended_within)
        self._line.close()
        self._over.set()
        self._wake.set()
        self._watcher.join()
        if (out_of_memory := self._out_of_memory(self._popen.wait())) and not self.ended_by:
            self.ended_by = f"it {out_of_memory}"
        _cgroup.remove(self._launch.group)
        if self._popen.stdout is not None:
            self._popen.stdout.close()

    # -- the watcher's thread ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        before = self._used_on_disk(Usage(available_bytes=available_bytes()))
        while True:
            self._wake.wait(max(0.0, min(CHECK_S, self._deadline - time.monotonic())))
            if self._over.is_set() or self._popen.poll() is not None:
                return
            if self._stop_grace_s is not None:
                self._end("stopped", self._stop_grace_s)
            elif time.monotonic() >= self._deadline:
                self._end("timeout", self._grace_s)
            elif breach := self._breach(before):
                self._end(breach, 0)
            elif name := self._waiting.program(processes_of(self._popen.pid)[1:]):
                self._end(f"{escaped(name)} waited for input, and nobody types: use a file, options, another way", 0)
            else:
                continue
            return

    def _breach(self, before: Usage) -> str:
        used = usage_in_all(self._popen.pid, self._limits.memory_bytes, self._limits.processes)
        breach = self._used_on_disk(used).breach(self._limits, before)
        return f"it {breach}" if breach else ""

    def _used_on_disk(self, used: Usage) -> Usage:
        started = time.monotonic()
        if started >= self._count_at:
            self._names = names_below(self._folders, self._over.is_set)
            now = time.monotonic()
            self._count_at = now + CHECK_SHARE * (now - started)
        try:
            disk = os.statvfs(self._folder)
        except OSError:  # the workspace itself was moved away
            return replace(used, free_bytes=0, names=self._names)
        free = disk.f_bavail * disk.f_frsize
        return replace(used, free_bytes=free, names=self._names, inodes=disk.f_files - disk.f_ffree)

    def _end(self, why: str, grace_s: float) -> None:
        self.ended_by = why
        if grace_s:
            for pid in processes_of(self._popen.pid)[1:]:  # not the first: bwrap, or our supervisor
                with suppress(OSError):  # it ended meanwhile
                    os.kill(pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_s)
        if self._popen.poll() is None:
            self._kill(self._popen, self._line, self._ended_within)

    def _ended_within(self, seconds: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self._popen.returncode is not None


# -- a program that waits for a person: a REPL on a terminal of its own, an editor; seen from outside, by /proc --------

_LOOK_S = 1.0


class _Calls(NamedTuple):
    """Numbers of system calls: those that wait for descriptor 0, 1, …; and, with the place of their limit, all others
    that wait (None: without limit)."""

    reads: tuple[int, ...]
    selects: tuple[int, ...]
    limits: dict[int, int | None]


_BY_MACHINE: Final = {
    "x86_64": _Calls((0,), (23, 270), {0: None, 23: 4, 270: 4, 7: 2, 271: 2, 232: 3, 281: 3, 202: 3, 61: None,
                                       247: None, 130: None, 34: None, 128: 2}),
    "aarch64": _Calls((63,), (72,), {63: None, 72: 4, 73: 2, 22: 3, 98: 3, 260: None, 95: None, 133: None, 137: 2}),
}  # fmt: skip
"""read, (p)select, then poll, ppoll, epoll_(p)wait, futex, wait4, waitid, rt_sigsuspend, pause, rt_sigtimedwait."""
_NO_LIMIT: Final = (0, (1 << 32) - 1, (1 << 64) - 1)
"""No pointer to a time, or -1 milliseconds."""


class Waiting:
    """Finds a program that has waited for `seconds`, with nothing else awake meanwhile that could feed it.

    A program waits for a person if it reads from a terminal, or, as vim does, from its own `output`. Not found: those
    that wait in other ways, and on other systems than Linux.
    """

    def __init__(self, output: int, seconds: float) -> None:
        self._calls, self._seconds, self._output = _BY_MACHINE.get(platform.machine()), seconds, ""
        with suppress(OSError):
            self._output = str(Path(f"/proc/self/fd/{output}").readlink())
        self._since = self._next = time.monotonic()
        self._seen: dict[Path, str] = {}

    def program(self, processes: Iterable[int]) -> str:
        """The name of one that has waited long enough; "" for none. Call it often: it looks once a second."""
        now = time.monotonic()
        if self._calls is None or now < self._next:
            return ""
        self._next = now + min(_LOOK_S, self._seconds / 2)
        seen, waits = {}, Path()
        for process in processes:
            for task in _tasks(process):
                seen[task], fd = self._state(task)
                if fd is not None and self._of_a_person(task, fd):
                    waits = task
        if waits == Path() or "" in seen.values() or seen != self._seen:
            self._seen, self._since = seen, now
        if now - self._since < self._seconds:
            return ""
        with suppress(OSError):
            return (waits / "comm").read_text(errors="replace").strip()
        return ""

    def _state(self, task: Path) -> tuple[str, int | None]:
        """Its system call and how often it slept, "" if it goes on by itself; and the descriptor that it reads."""
        assert self._calls is not None
        with suppress(OSError, ValueError, IndexError):
            words = (task / "syscall").read_text().split()
            number, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
            if number in self._calls.limits:
                limit = self._calls.limits[number]
                if limit is None or arguments[limit] in _NO_LIMIT:
                    slept = [line for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line]
                    first = arguments[0] - (number in self._calls.selects)
                    reads = number in (*self._calls.reads, *self._calls.selects)
                    return " ".join([*words, *slept]), first if reads else None
        return "", None

    def _of_a_person(self, task: Path, fd: int) -> bool:
        with suppress(OSError):
            name = str((task / "fd" / str(fd)).readlink())
            return name == self._output or (name.startswith(("/dev/pts/", "/dev/tty")) and name != "/dev/pts/ptmx")
        return False


def _tasks(process: int) -> list[Path]:
    with suppress(OSError):
        return [*Path(f"/proc/{process}/task").iterdir()]
    return []
