"""Which ossia runs on which Python, and are its packages there?"""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from ossia import __version__
from ossia.cli.doctor.finding import Finding
from ossia.cli.doctor.machine import Machine
from ossia.cli.doctor.rebuild import installed, needs
from ossia.cli.words import listed


def versions(machine: Machine) -> Iterator[Finding]:
    """ossia, Python, the system; the packages that are missing."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    python = f"Python {platform.python_version()} ({sys.executable}), SQLite {sqlite3.sqlite_version}"
    yield Finding("ossia", "ok", f"ossia {__version__}, {python}, {system}; installed by way of {installed().way}")
    missing = [name for name, _ in needs() if not _there(name)]
    if missing:
        yield Finding("ossia", "fault", f"packages are missing: {listed(missing)}", "install ossia again")


def _there(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
