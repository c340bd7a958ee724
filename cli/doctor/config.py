"""The settings: can their file be read, and does it hold what nobody knows?"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

from cli.doctor.finding import Finding
from cli.doctor.machine import Machine
from cli.settings.config import MCP_TABLE, config_path, nearest, resolve
from cli.settings.table import SETTINGS

_EDIT = "ossia config edit"


def config(machine: Machine) -> Iterator[Finding]:
    """The file, its unknown keys, and variables that look like settings and are none."""
    from cli.exits import ExitError

    path, known = config_path(machine.environ), [*SETTINGS, "approvals", MCP_TABLE]
    unknown = _keys(machine) - {*known}
    for key in sorted(unknown):
        text = f"{path}: {key!r} is not a setting{nearest(key.replace('-', '_'), known)}"
        yield Finding("config", "fault", text, "correct it, or take it out", _EDIT)
    try:
        resolved = resolve({}, environ=machine.environ)
    except ExitError as error:
        if not unknown:
            yield Finding("config", "fault", str(error), "correct it: until then no command runs", _EDIT)
        return
    for warning in resolved.warnings:
        yield Finding("config", "warning", warning, "unset the variable, or correct its name")
    there = [key for key, origin in resolved.origins.items() if origin != "default"]
    text = f"{path} {'can be read' if path.exists() else 'is not there, which is fine'}"
    yield Finding("config", "ok", f"{text}; set there or in the environment: {', '.join(there) or 'nothing'}")


def _keys(machine: Machine) -> set[str]:
    """The keys of the file; none where it can't be read, which `resolve` says."""
    try:
        return set(tomllib.loads(config_path(machine.environ).read_text("utf-8")))
    except (OSError, ValueError):
        return set()
