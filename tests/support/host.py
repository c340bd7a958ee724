"""A host whose folders lie in one folder of a test."""

from __future__ import annotations

import datetime
from pathlib import Path

from ossia.tools.host import Host


def host_in(home: Path, **environ: str) -> Host:
    """A machine with nothing on it yet; `environ` is all that its environment has."""
    noon = datetime.datetime(2026, 1, 2, 12)
    return Host(home / "data", home / "cache", home / "log" / "ossia.log", home, environ, lambda: noon)
