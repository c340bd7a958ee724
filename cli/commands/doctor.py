"""`ossia doctor`: what works on this machine, what doesn't, and what to do about it."""

from __future__ import annotations

import os

import typer

from ossia.cli.commands import Json
from ossia.cli.exits import ExitCode


def doctor(json: Json = False) -> None:
    """Check what works on this machine, and how to mend the rest.

    Looks at llama.cpp and the devices it leaves unused, models, confinement, terminal, stored sessions, disk, caches,
    network settings and the config. Changes nothing and sends nothing over the network. Exits with 1 if something that
    ossia needs doesn't work (a fault), else with 0.
    """
    from ossia.cli.doctor.examine import examine, print_findings

    found = examine(os.environ)
    print_findings(found, json=json)
    if any(one.state == "fault" for _, one in found):
        raise typer.Exit(ExitCode.FAILED)
