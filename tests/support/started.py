"""Processes that tests started: what a failed test left is ended before the next one begins."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Protocol


class SupportsClose(Protocol):
    def close(self) -> None: ...


STARTED: list[subprocess.Popen[bytes]] = []
"""Each in a session of its own."""
FORKED: list[SupportsClose] = []
"""On terminals of their own."""


def end_all() -> None:
    """End what still runs, and close its pipes: left to the collector, it would fail whichever test runs then."""
    while FORKED:
        FORKED.pop().close()
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # a forked one's end is reported after it was waited for
                process.kill() if sys.platform == "win32" else os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
