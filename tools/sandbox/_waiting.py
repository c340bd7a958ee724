"""A program that waits for a person: a REPL on a terminal of its own, an editor. Seen from outside, by /proc."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

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
