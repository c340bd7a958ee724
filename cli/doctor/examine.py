"""Runs the checks. None of them may end the others: what one raises is a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ossia.cli.clean import one_line
from ossia.cli.doctor.config import config, engines
from ossia.cli.doctor.devices import devices, llama
from ossia.cli.doctor.engine import Engine
from ossia.cli.doctor.finding import Area, Finding, State
from ossia.cli.doctor.machine import Machine
from ossia.cli.doctor.models import models
from ossia.cli.doctor.network import network, servers
from ossia.cli.doctor.sandbox import sandbox
from ossia.cli.doctor.stored import caches, disk, sessions
from ossia.cli.doctor.terminal import terminal
from ossia.cli.doctor.versions import versions
from ossia.cli.exits import ExitError, exit_code, line_of
from ossia.cli.settings.config import Resolved, resolve
from ossia.cli.settings.table import SETTINGS, Settings

Check = Callable[[Machine], Iterator[Finding]]

# What asks llama.cpp comes last: its process needs the time.
CHECKS: Final[tuple[tuple[Area, Check], ...]] = (
    ("ossia", versions),
    ("config", config),
    ("config", engines),
    ("sandbox", sandbox),
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


def examine(environ: Mapping[str, str], checks: Sequence[tuple[Area, Check]] = CHECKS) -> list[Finding]:
    """All findings about this machine, the worst ones first. Nothing is changed, and nobody asked over the network."""
    engine = Engine()
    try:
        machine = Machine(environ, _resolved(environ), engine.build)
        found = [one for area, check in checks for one in _findings(area, check, machine)]
    finally:
        engine.close()
    once: dict[str, Finding] = {}
    for one in found:
        once.setdefault(one.text, one)  # several checks may fail for the same reason
    return sorted(once.values(), key=lambda one: _ORDER.index(one.state))


def _resolved(environ: Mapping[str, str]) -> Resolved:
    try:
        return resolve({}, environ=environ)
    except ExitError:  # the check of the settings says what is wrong
        return Resolved(Settings(), dict.fromkeys(SETTINGS, "default"))


def _findings(area: Area, check: Check, machine: Machine) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(check(machine))
    except Exception as error:
        found.append(_about(area, error))
    return found


def _about(area: Area, error: Exception) -> Finding:
    if exit_code(error) is not None:
        return Finding(area, "fault", one_line(line_of(error), _MAX_CHARS))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Finding(
            area, "warning", one_line(f"{where}{error.strerror or error}", _MAX_CHARS), "check its permissions"
        )
    what = one_line(f"{type(error).__name__}: {error}", _MAX_CHARS)
    return Finding(area, "warning", f"this couldn't be checked ({what})", "please report it: it is a fault of ossia")
