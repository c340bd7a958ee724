"""A job's process: started in its control group, ended with all of its children; a kernel's, with its watcher."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ossia.tools.sandbox import _cgroup
from ossia.tools.sandbox.job import Job, Launch
from ossia.tools.sandbox.usage import (
    Usage,
    available_bytes,
    gib,
    own_memory_bytes,
    processes_of,
    usage_in_all,
    usage_of_folders,
)

CHECK_S = 0.25
CHECK_SHARE = 5
"""Between two checks passes at least this many times the last one's duration: many files are slow to count."""
_GROWTH_BYTES = 256 << 20
"""More growth of this program itself while a cell runs means that the kernel floods us with messages."""
_LOG_BYTES = 4000
_SUPERVISOR_S = 5.5
"""Our supervisor takes up to 5 s to kill a fork bomb."""


class _Closable(Protocol):
    def close(self) -> None: ...


class Process:
    """A launch, in a control group of its own if one can be made."""

    def __init__(self, launch: Launch, job: Job) -> None:
        self._limits = job.limits
        self._launch, self._grouped = _cgroup.in_group(
            launch, memory_bytes=job.limits.memory_bytes, processes=job.limits.processes
        )

    def _start(self, stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        """Start it, once. Raises `OSError`, with nothing left running."""
        try:
            return subprocess.Popen(
                self._launch.command,
                env=self._launch.env,
                pass_fds=self._launch.fds,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            _cgroup.remove(self._launch.group)
            raise
        finally:
            for fd in self._launch.fds:
                os.close(fd)

    def _kill(
        self, popen: subprocess.Popen[bytes], line: _Closable | None, ended_within: Callable[[float], bool]
    ) -> None:
        """End all of it. `line`: our end of its stdin. `ended_within`: has it ended after so many seconds?"""
        if self._launch.lifeline and line is not None:
            with contextlib.suppress(OSError):
                line.close()  # our supervisor kills what is left, then ends
            if ended_within(_SUPERVISOR_S):
                return
        with contextlib.suppress(OSError):
            os.killpg(popen.pid, signal.SIGKILL)

    def _out_of_memory(self, status: int | None) -> str:
        """A reason for the model if Linux killed the group because it ran out of memory; else empty."""
        if status not in _cgroup.ENDED_BY_LINUX or not self._grouped:
            return ""
        return f"used more than {gib(self._limits.memory_bytes)} of memory, or the machine had no more"


class KernelProcess(Process):
    """Starts at construction. `on_exit` is called once, from a thread of this object, when the process has ended.

    The starting thread lives as long as the process: it is the parent for `bwrap --die-with-parent` and
    PR_SET_PDEATHSIG.
    """

    def __init__(self, launch: Launch, job: Job, *, on_exit: Callable[[], None]) -> None:
        super().__init__(launch, job)
        self._folders, self._on_exit = (job.folder, *job.writable), on_exit
        self._popen: subprocess.Popen[bytes] | None = None
        self._log = b""
        self._failure = ""
        self._started, self._ended = threading.Event(), threading.Event()
        self._reason = ""
        self.busy = threading.Event()
        self._at_call = Usage(data_bytes=1 << 63, data_files=1 << 63, hidden=1 << 63)
        threading.Thread(target=self._keep, name="python-kernel", daemon=True).start()
        self._started.wait()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def log(self) -> str:
        """The last lines of output before the kernel ran, or why it couldn't be started."""
        return self._failure or self._log.decode(errors="replace").strip()

    @property
    def reason(self) -> str:
        """Why it ended, in words for the model; empty while it runs."""
        code = self._popen.returncode if self._popen else None
        if self._reason or code is None:
            return self._reason
        if out_of_memory := self._out_of_memory(code):
            return out_of_memory
        number = -code if code < 0 else code - 128
        if number in (signal.SIGKILL, signal.SIGABRT):
            return "memory limit?"
        return signal.Signals(number).name if number in signal.valid_signals() else f"exit status {code}"

    def kill(self, reason: str = "") -> None:
        """End the process and all it started; returns when they are gone, after 6 s at the most. Thread-safe."""
        self._reason = self._reason or reason
        if self._popen is None or self.ended:
            return
        self._kill(self._popen, self._popen.stdin, self._ended.wait)
        self._ended.wait(1)

    def _keep(self) -> None:
        try:
            stdin = subprocess.PIPE if self._launch.lifeline else subprocess.DEVNULL
            self._popen = self._start(stdin, subprocess.DEVNULL, subprocess.PIPE)
        except OSError as error:
            self._failure = str(error)
        finally:
            if self._popen is None:
                self._ended.set()
            self._started.set()
        if self._popen is not None:
            threading.Thread(target=self._watch, args=(self._popen.pid,), name="python-watch", daemon=True).start()
            self._wait(self._popen)
        self._on_exit()

    def _wait(self, popen: subprocess.Popen[bytes]) -> None:
        with popen:  # closes the pipes
            assert popen.stderr is not None
            while chunk := os.read(popen.stderr.fileno(), 4096):
                self._log = (self._log + chunk)[-_LOG_BYTES:]
            popen.wait()
            _cgroup.remove(self._launch.group)
            self._ended.set()

    def begin_call(self) -> None:
        """A call begins. What the one before it cleaned up may not be used again, even if no look has come between."""
        self._at_call = usage_of_folders(self._folders)
        self.busy.set()

    def _watch(self, pid: int) -> None:
        before = replace(usage_of_folders(self._folders), available_bytes=available_bytes())
        own = own_memory_bytes()
        wait_s = 0.0
        while not self._ended.wait(wait_s):
            started = time.monotonic()
            before = before.at_most(self._at_call)
            used = usage_in_all(pid, self._limits.memory_bytes, self._limits.processes)
            filled = usage_of_folders(self._folders)
            if not self.busy.is_set():
                own = own_memory_bytes()
                if len(processes_of(pid)) <= (2 if self._launch.lifeline else 3):
                    # only the kernel (and our supervisor, or bwrap's two) runs: it waits for a call, others take memory
                    before = replace(before, available_bytes=used.available_bytes)
            breach = used.breach(self._limits, before) or filled.breach(self._limits, before)
            before = before.at_most(filled)
            if self.busy.is_set() and not breach and own_memory_bytes() - own > _GROWTH_BYTES:
                breach = "sent more output than can be taken in"
            if breach:
                self.kill(breach)
                return
            wait_s = max(CHECK_S, CHECK_SHARE * (time.monotonic() - started))
