"""One kernel's process: started and waited for by a thread of its own, watched by another."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tools import _cgroup
from tools._confine import Launch, Limits
from tools._system_memory import Fall
from tools._watch import Usage, gib, held_bytes, own_memory_bytes, processes_of, usage_in_all, usage_of_folders

_CHECK_S = 0.25
_CHECK_SHARE = 5
"""Between two checks lies at least this many times what the last one took: a folder of many files is slow to count."""
_GROWTH_BYTES = 256 << 20
"""How far this program itself may grow while a cell runs: beyond it the kernel is flooding us with messages."""
_LOG_BYTES = 4000


class KernelProcess:
    """Starts at construction. `on_exit` is called once, from a thread of this object, when the process has ended.

    The thread that starts the process lives as long as it: `bwrap --die-with-parent` and PR_SET_PDEATHSIG mean the
    starting *thread*.
    """

    def __init__(self, launch: Launch, *, limits: Limits, data: Path, folders: tuple[Path, ...],
                 on_exit: Callable[[], None]) -> None:  # fmt: skip
        self._limits, self._on_exit = limits, on_exit
        self._launch, self._grouped = _cgroup.in_group(
            launch, memory_bytes=limits.memory_bytes, processes=limits.processes
        )
        self._data, self._folders = data, folders
        self._popen: subprocess.Popen[bytes] | None = None
        self._log = b""
        self._failure = ""
        self._started, self._ended = threading.Event(), threading.Event()
        self._reason = ""
        self.busy = threading.Event()
        threading.Thread(target=self._keep, name="python-kernel", daemon=True).start()
        self._started.wait()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def log(self) -> str:
        """The last lines that the process wrote before the kernel ran, or why it couldn't be started."""
        return self._failure or self._log.decode(errors="replace").strip()

    @property
    def reason(self) -> str:
        """Why it ended, in words for the model; empty while it runs."""
        code = self._popen.returncode if self._popen else None
        if self._reason or code is None:
            return self._reason
        if code in _cgroup.ENDED_BY_LINUX and self._grouped:
            return f"used more than {gib(self._limits.memory_bytes)} of memory, or the machine had no more"
        number = -code if code < 0 else code - 128
        if number in (signal.SIGKILL, signal.SIGABRT):
            return "memory limit?"
        return signal.Signals(number).name if number in signal.valid_signals() else f"exit status {code}"

    def kill(self, reason: str = "") -> None:
        """End the process and all it started; returns when they are gone, after 6 s at the most. Thread-safe."""
        self._reason = self._reason or reason
        if self._popen is None or self.ended:
            return
        if self._launch.lifeline and self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()  # our supervisor kills what is left, then ends
            if self._ended.wait(5.5):
                return
        with contextlib.suppress(OSError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._ended.wait(1)

    def _keep(self) -> None:
        try:
            self._popen = subprocess.Popen(
                self._launch.command,
                env=self._launch.env,
                pass_fds=self._launch.fds,
                stdin=subprocess.PIPE if self._launch.lifeline else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            self._failure = str(error)
        finally:
            for fd in self._launch.fds:
                os.close(fd)
            if self._popen is None:
                _cgroup.remove(self._launch.group)
                self._ended.set()
            self._started.set()
        if self._popen is not None:
            threading.Thread(target=self._watch, name="python-watch", daemon=True).start()
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

    def _watch(self) -> None:
        assert self._popen is not None
        folders = (self._data, *self._folders)
        before = usage_of_folders(folders)
        own, fall = own_memory_bytes(), Fall()
        wait_s = 0.0
        while not self._ended.wait(wait_s):
            started = time.monotonic()
            used = usage_in_all(self._popen.pid, self._limits.memory_bytes, self._limits.processes)
            filled = usage_of_folders(folders)
            held = held_bytes(self._popen.pid)
            full = replace(filled, data_bytes=filled.data_bytes + held)
            breach = used.breach(self._limits, Usage()) or full.breach(self._limits, before)
            if not self._grouped:
                breach = breach or fall.breach(self._limits.memory_bytes)
            before = before.at_most(filled)
            if not self.busy.is_set():
                own = own_memory_bytes()
                if len(processes_of(self._popen.pid)) <= (2 if self._launch.lifeline else 3):
                    fall.rebase()  # the kernel alone (with our supervisor, or bwrap twice) waits for a call
            elif not breach and own_memory_bytes() - own > _GROWTH_BYTES:
                breach = "sent more output than can be taken in"
            if breach:
                self.kill(breach)
                return
            wait_s = max(_CHECK_S, _CHECK_SHARE * (time.monotonic() - started))
