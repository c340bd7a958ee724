"""`ossia doctor`: what works on this machine, what doesn't, and what to do about it."""

from __future__ import annotations

import os
from typing import Annotated

import typer


def doctor(json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False) -> None:
    """Check this machine: what works, what doesn't, and how to mend it.

    Looks at llama.cpp and the devices it leaves unused, models, confinement, terminal, stored sessions, disk, caches,
    network settings and the config. Changes nothing and asks nobody over the network. Exits with 1 if something that
    ossia needs doesn't work (a fault), else with 0.
    """
    from ossia.cli.doctor.examine import examine, print_findings
    from ossia.cli.exits import ExitCode

    found = examine(os.environ)
    print_findings(found, json=json)
    if any(one.state == "fault" for _, one in found):
        raise typer.Exit(ExitCode.FAILED)
