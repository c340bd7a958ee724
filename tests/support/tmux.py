"""A tmux server of its own with one window: what a real terminal keeps, history and all.

    with Tmux([str(OSSIA), "--engine", script], columns=80, rows=24) as tmux:
        tmux.type("hello")
        tmux.keys("Enter")
        tmux.until(lambda: tmux.title == "ossia: idle")
        tmux.lines                      # everything it holds, rows that were wrapped joined again
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pytest

from ossia.cli.terminal.links import knows_links

TIMEOUT_S = 120.0
HISTORY_LINES = 200_000

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux on PATH")


def tmux_links() -> bool:
    """Does the tmux that is installed know links?"""
    version = subprocess.run(["tmux", "-V"], capture_output=True, text=True, check=True).stdout
    return knows_links({}, version.strip())


class Tmux:
    """The command's window. `environ` is added to ours."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        Tmux._count += 1
        self._socket = f"ossia-test-{os.getpid()}-{Tmux._count}"
        self._command = f"{shlex.join(command)}; echo exit $?; sleep 1000"
        self._size = ["-x", str(columns), "-y", str(rows)]
        self._environ = {**os.environ, "LANG": "C.UTF-8", **(environ or {})}

    _count = 0

    def __enter__(self) -> Tmux:
        limit = ["set", "-g", "history-limit", str(HISTORY_LINES), ";", "set", "-g", "status", "off", ";"]
        self._call(*limit, "new-session", "-d", "-s", "a", *self._size, "sh", "-c", self._command)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call("kill-server")

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, "-f", os.devnull, *arguments],
            capture_output=True,
            env=self._environ,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        """Type a text."""
        self._call("send-keys", "-t", "a", "-l", text)

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names: `keys("C-c", "Enter")`."""
        self._call("send-keys", "-t", "a", *names)

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size; tmux wraps what it holds anew."""
        self._call("resize-window", "-t", "a", "-x", str(columns), "-y", str(rows))

    @property
    def title(self) -> str:
        return self._call("display-message", "-p", "-t", "a", "#{pane_title}").strip()

    @property
    def display(self) -> list[str]:
        """The rows on screen."""
        return [line.rstrip() for line in self._call("capture-pane", "-p", "-t", "a").split("\n")]

    @property
    def lines(self) -> list[str]:
        """Everything it holds, history first; wrapped rows joined; without the empty ones at the end."""
        whole = self._call("capture-pane", "-p", "-J", "-S", "-", "-t", "a")
        return [line.rstrip() for line in whole.rstrip().split("\n")]

    def until(self, holds: Callable[[], object], *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until something holds."""
        give_up_at = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > give_up_at:
                raise AssertionError("waited in vain; the screen:\n" + "\n".join(self.display))
            time.sleep(0.05)
