"""Runs the checks and prints their findings. An exception is a finding, too, and the other checks go on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeAlias

from ossia.cli.clean import one_line
from ossia.cli.doctor.check import Area, Check, Finding, Machine, State
from ossia.cli.doctor.devices import Engine, devices, llama
from ossia.cli.doctor.installed import versions
from ossia.cli.doctor.settings import config, engines, network, servers
from ossia.cli.doctor.stored import caches, disk, models, sessions
from ossia.cli.doctor.surroundings import sandbox, terminal, toolchains
from ossia.cli.exits import ExitError, exit_code, line_of
from ossia.cli.runtime.progress import columns
from ossia.cli.settings.config import Resolved, resolve
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.cli.streams import shown, stdout
from ossia.cli.words import count, json_line, wrapped

Findings: TypeAlias = list[tuple[Area, Finding]]

VERSION = 1
"""The version of what `--json` prints."""
# What asks llama.cpp comes last: its process needs the time.
CHECKS: Final[tuple[tuple[Area, Check], ...]] = (
    ("ossia", versions),
    ("config", config),
    ("config", engines),
    ("sandbox", sandbox),
    ("sandbox", toolchains),
    ("terminal", terminal),
    ("sessions", sessions),
    ("disk", disk),
    ("caches", caches),
    ("network", network),
    ("network", servers),
    ("llama.cpp", llama),
    ("devices", devices),
    ("models", models),
)
_ORDER: Final[tuple[State, ...]] = ("fault", "warning", "ok")
_MAX_CHARS: Final = 600  # of a text: an error's may hold a whole file
_STATE, _AREA = 8, 10  # columns, the blank included


def examine(environ: Mapping[str, str], checks: Sequence[tuple[Area, Check]] = CHECKS) -> Findings:
    """All findings about this machine, the worst first. Changes nothing, and asks nobody over the network."""
    engine = Engine()
    once: dict[str, tuple[Area, Finding]] = {}
    try:
        machine = Machine(environ, _resolved(environ), engine.build)
        for area, check in checks:
            for one in _run(check, machine):
                once.setdefault(one.text, (area, one))  # several checks may fail for the same reason
    finally:
        engine.close()
    return sorted(once.values(), key=lambda pair: _ORDER.index(pair[1].state))


def _resolved(environ: Mapping[str, str]) -> Resolved:
    try:
        return resolve({}, environ=environ)
    except ExitError:  # the check of the settings says what is wrong
        return Resolved(Settings(), dict.fromkeys(SETTINGS, "default"))


def _run(check: Check, machine: Machine) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check(machine))
    except Exception as error:
        found.append(_about(error))
    return found


def _about(error: Exception) -> Finding:
    if exit_code(error) is not None:
        return Finding("fault", one_line(line_of(error), _MAX_CHARS))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Finding("warning", one_line(f"{where}{error.strerror or error}", _MAX_CHARS), "check its permissions")
    what = one_line(f"{type(error).__name__}: {error}", _MAX_CHARS)
    return Finding("warning", f"this couldn't be checked ({what})", "please report it: it is a fault of ossia")


def print_findings(found: Findings, *, json: bool) -> None:
    """Print the findings, as lines or as one line of JSON. A command stands on a line of its own, to be copied."""
    if json:
        worst = found[0][1].state if found else "ok"
        listed = [{"area": area, **asdict(one)} for area, one in found]
        print(json_line({"version": VERSION, "state": worst, "findings": listed}))
        return
    width = columns(stdout())
    for area, one in found:
        for line in _lines(area, one, width):
            print(shown(line))
    faults, warnings = (sum(one.state == state for _, one in found) for state in ("fault", "warning"))
    print(f"ossia: {count(faults, 'fault')}, {count(warnings, 'warning')}", file=sys.stderr)


def _lines(area: Area, one: Finding, width: int) -> list[str]:
    indent = " " * (_STATE + _AREA)
    lines = wrapped(one.text, f"{one.state:<{_STATE}}{area:<{_AREA}}", indent, width)
    if one.fix:
        lines += wrapped(one.fix, f"{indent}→ ", f"{indent}  ", width)
    if one.command:
        lines.append(f"    {one_line(one.command)}")
    return lines
