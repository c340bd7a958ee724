"""llama.cpp, asked in a process of its own: one compiled for another processor ends the process that uses it.

It is started before the other checks, and they run meanwhile.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ossia.agent.engine.devices import Build

_TIMEOUT_S = 20.0  # a GPU's driver may take seconds to wake up


class Engine:
    """The installed llama.cpp. Making one starts the process, `close` ends it."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "ossia.cli.doctor.engine"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        self._found: Build | str | None = None

    def build(self) -> Build | str:
        """What it was compiled for and sees; or why it can't be used, in one line."""
        if self._found is None:
            self._found = self._answer()
        return self._found

    def close(self) -> None:
        """End the process if it hasn't answered yet."""
        with suppress(OSError):
            self._process.kill()
        self._process.communicate()

    def _answer(self) -> Build | str:
        from ossia.agent.engine.devices import Build

        try:
            out, error = self._process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"it hasn't answered for {_TIMEOUT_S:.0f} s"
        code = self._process.returncode
        if code < 0:
            return f"it ends the process that loads it ({signal.Signals(-code).name})"
        if code:
            return (error.decode("utf-8", "replace").strip().splitlines() or [f"exit status {code}"])[-1]
        said: dict[str, Any] = json.loads(out.splitlines()[-1])
        said |= {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
        return Build(**said)


if __name__ == "__main__":
    from dataclasses import asdict

    from ossia.agent.engine.llama import build

    print(json.dumps(asdict(build())))
