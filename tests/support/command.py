"""The installed `ossia` command, run as a child process, as a user's shell would."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The clone."""

SCRIPT = Path(sysconfig.get_path("scripts")) / ("ossia.exe" if os.name == "nt" else "ossia")
"""The console script of the environment that runs the tests."""


def ossia(
    *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `ossia ARGS` to its end and return it, output captured.

    `env` is added to the test's environment; `stdin` None is /dev/null. It fails after two minutes.
    """
    return subprocess.run(
        [str(SCRIPT), *args],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
