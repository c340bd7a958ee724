"""A job's process: started in its control group, checked against its limits, ended with all of its children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from ossia.tools.sandbox import _cgroup
from ossia.tools.sandbox.job import Job, Launch
from ossia.tools.sandbox.usage import (
    Usage,
    available_bytes,
    gib,
    names_below,
    own_memory_bytes,
    processes_of,
    usage_in_all,
    usage_of_folders,
)

_CHECK_S = 0.25
_CHECK_SHARE = 5
"""Between two checks passes at least this many times the last one's duration: many files are slow to count."""
_GROWTH_BYTES = 256 << 20
"""More growth of this program itself while a cell runs means that the kernel floods us with messages."""
_LOG_BYTES = 4000
_CHUNK_BYTES = 1 << 16
_HELD_OPEN_S = 0.5
"""An escaped process may keep the output open so long after the command's end."""
_SUPERVISOR_S = 5.5
"""Our supervisor takes up to 5 s to kill a fork bomb."""


class _Process:
    """A launch, in a control group of its own if one can be made."""

    def __init__(self, launch: Launch, job: Job) -> None:
        self._limits = job.limits
        self._launch, self._grouped = _cgroup.in_group(
            launch, memory_bytes=job.limits.memory_bytes, processes=job.limits.processes
        )

    def _start(self, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        """Start it, once. Raises `OSError`, with nothing left running."""
        try:
            return subprocess.Popen(
                self._launch.command,
                env=self._launch.env,
                pass_fds=self._launch.fds,
                stdin=subprocess.PIPE if self._launch.lifeline else subprocess.DEVNULL,
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

    def _kill(self, popen: subprocess.Popen[bytes], ended_within: Callable[[float], bool]) -> None:
        """End all of it. `ended_within` waits up to so many seconds and returns whether it has ended."""
        if self._launch.lifeline and popen.stdin is not None:
            with contextlib.suppress(OSError):
                popen.stdin.close()  # our supervisor kills what is left, then ends
            if ended_within(_SUPERVISOR_S):
                return
        with contextlib.suppress(OSError):
            os.killpg(popen.pid, signal.SIGKILL)

    def _out_of_memory(self, status: int | None) -> str:
        """A reason for the model if Linux killed the group because it ran out of memory; else empty."""
        if status not in _cgroup.ENDED_BY_LINUX or not self._grouped:
            return ""
        return f"used more than {gib(self._limits.memory_bytes)} of memory, or the machine had no more"


class KernelProcess(_Process):
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
        self._kill(self._popen, self._ended.wait)
        self._ended.wait(1)

    def _keep(self) -> None:
        try:
            self._popen = self._start(subprocess.DEVNULL, subprocess.PIPE)
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
            wait_s = max(_CHECK_S, _CHECK_SHARE * (time.monotonic() - started))


class CommandProcess(_Process):
    """Starts at construction, or raises `OSError`. Iterate over `output`, then look at `status`.

    `ended_by`: "" for a normal end, "timeout", "stopped", else a broken limit, in words for the model. The constructing
    thread must live as long as the command: bubblewrap's processes end with it.
    """

    def __init__(self, launch: Launch, job: Job, *, timeout_s: float, grace_s: float) -> None:
        super().__init__(launch, job)
        self._folder, self._folders = job.folder, (job.folder, job.temporary)
        self._names, self._count_at = 0, 0.0
        self._deadline, self._grace_s = time.monotonic() + timeout_s, grace_s
        self._wake, self._over = threading.Event(), threading.Event()
        self._stop_grace_s: float | None = None
        self.ended_by = ""
        self._popen = self._start(subprocess.PIPE, subprocess.STDOUT)
        self._watcher = threading.Thread(target=self._watch, name="shell-watch", daemon=True)
        self._watcher.start()

    @property
    def status(self) -> int:
        """The exit status as a shell has it: 128 + N after signal N. Valid only after the output's end."""
        code = self._popen.wait()
        return code if code >= 0 else 128 - code

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
            self._kill(self._popen, self._ended_within)
        self._over.set()
        self._wake.set()
        self._watcher.join()
        if (out_of_memory := self._out_of_memory(self._popen.wait())) and not self.ended_by:
            self.ended_by = f"it {out_of_memory}"
        _cgroup.remove(self._launch.group)
        for pipe in (self._popen.stdout, self._popen.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    # -- the watcher's thread ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        before = self._used_on_disk(Usage(available_bytes=available_bytes()))
        while True:
            self._wake.wait(max(0.0, min(_CHECK_S, self._deadline - time.monotonic())))
            if self._over.is_set() or self._popen.poll() is not None:
                return
            if self._stop_grace_s is not None:
                self._end("stopped", self._stop_grace_s)
            elif time.monotonic() >= self._deadline:
                self._end("timeout", self._grace_s)
            elif breach := self._breach(before):
                self._end(breach, 0)
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
            self._count_at = now + _CHECK_SHARE * (now - started)
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
                with contextlib.suppress(OSError):  # it ended meanwhile
                    os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_s)
        if self._popen.poll() is None:
            self._kill(self._popen, self._ended_within)

    def _ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self._popen.returncode is not None
