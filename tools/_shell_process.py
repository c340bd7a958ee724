"""One shell command's process: its output read as it comes, its time and its limits watched by a thread."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tools import _cgroup
from tools._confine import Launch, Limits
from tools._shell_confine import ShellLimits
from tools._system_memory import Fall
from tools._watch import Usage, gib, processes_of, usage_in_all

_CHECK_S = 0.25
_CHUNK_BYTES = 1 << 16
_HELD_OPEN_S = 0.5
"""How long a process that got away may hold the output open after the command's end."""
_SUPERVISOR_S = 5.5
"""Our supervisor takes up to 5 s to find all that a fork bomb leaves."""


class ShellProcess:
    """Starts at construction; raises `OSError` where it can't. Iterate over `output`, then look at `status`.

    `ended_by` says who ended it before its time: "" nobody, "timeout", "stopped", else a limit, in words for the model.
    The thread that constructs it must live as long as the command: bubblewrap's processes end with that thread.
    """

    def __init__(self, launch: Launch, *, limits: ShellLimits, root: Path, timeout_s: float, grace_s: float) -> None:
        self._limits, self._root = limits, root
        self._launch, self._grouped = _cgroup.in_group(
            launch, memory_bytes=limits.memory_bytes, processes=limits.processes
        )
        self._deadline, self._grace_s = time.monotonic() + timeout_s, grace_s
        self._wake, self._over = threading.Event(), threading.Event()
        self._stop_grace_s: float | None = None
        self.ended_by = ""
        try:
            self._popen = subprocess.Popen(
                self._launch.command,
                env=self._launch.env,
                pass_fds=launch.fds,
                stdin=subprocess.PIPE if launch.lifeline else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            _cgroup.remove(self._launch.group)
            raise
        finally:
            for fd in launch.fds:
                os.close(fd)
        self._watcher = threading.Thread(target=self._watch, name="shell-watch", daemon=True)
        self._watcher.start()

    @property
    def status(self) -> int:
        """The exit status as a shell has it: 128 + N after signal N. Only after the output's end."""
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
        """End the command soon: asked first, then killed after `grace_s`. Returns at once; thread-safe."""
        self._stop_grace_s = grace_s
        self._wake.set()

    def close(self) -> None:
        """End what is left and give everything back."""
        if self._popen.poll() is None:
            self._kill()
        self._over.set()
        self._wake.set()
        self._watcher.join()
        if self._popen.wait() in _cgroup.ENDED_BY_LINUX and self._grouped and not self.ended_by:
            self.ended_by = f"it used more than {gib(self._limits.memory_bytes)} of memory, or the machine had no more"
        _cgroup.remove(self._launch.group)
        for pipe in (self._popen.stdout, self._popen.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    # -- the watcher's thread ------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        free, fall = self._free_bytes(), Fall()
        while True:
            self._wake.wait(max(0.0, min(_CHECK_S, self._deadline - time.monotonic())))
            if self._over.is_set() or self._popen.poll() is not None:
                return
            if self._stop_grace_s is not None:
                self._end("stopped", self._stop_grace_s)
            elif time.monotonic() >= self._deadline:
                self._end("timeout", self._grace_s)
            elif breach := self._breach(free, fall):
                self._end(breach, 0)
            else:
                continue
            return

    def _breach(self, free_before: int, fall: Fall) -> str:
        limits = Limits(memory_bytes=self._limits.memory_bytes, processes=self._limits.processes)
        used = usage_in_all(self._popen.pid, limits.memory_bytes, limits.processes)
        if free_before - self._free_bytes() > self._limits.disk_bytes:
            return f"it took more than {self._limits.disk_bytes / (1 << 30):.1f} GB of disk space"
        breach = used.breach(limits, Usage())
        if not self._grouped:
            breach = breach or fall.breach(limits.memory_bytes)
        return f"it {breach}" if breach else ""

    def _free_bytes(self) -> int:
        try:
            disk = os.statvfs(self._root)
        except OSError:  # the workspace itself was moved away
            return 0
        return disk.f_bavail * disk.f_frsize

    def _end(self, why: str, grace_s: float) -> None:
        self.ended_by = why
        if grace_s:
            for pid in processes_of(self._popen.pid)[1:]:  # not the first: bwrap, or our supervisor
                with contextlib.suppress(OSError):  # it ended meanwhile
                    os.kill(pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_s)
        if self._popen.poll() is None:
            self._kill()

    def _kill(self) -> None:
        if self._launch.lifeline and self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()  # our supervisor kills what is left, then ends
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(_SUPERVISOR_S)
                return
        with contextlib.suppress(OSError):
            os.killpg(self._popen.pid, signal.SIGKILL)
