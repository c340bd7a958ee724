"""How the model's Python and its commands are confined here."""

from __future__ import annotations

from collections.abc import Iterator

from ossia.cli.doctor.check import Finding, Machine
from ossia.cli.runtime.python import interpreter_of, own_environment
from ossia.tools.sandbox import Confinement, InterpreterUnusable, choose
from ossia.tools.sandbox.account import has_control_groups


def sandbox(machine: Machine) -> Iterator[Finding]:
    """The confinements that a run would choose, by starting something in each."""
    settings, search_path = machine.settings, machine.environ.get("PATH")
    ways = [choose(unconfined=settings.unconfined, search_path=search_path)]
    try:
        ways.insert(0, choose(interpreter_of(settings)[0], unconfined=settings.unconfined, search_path=search_path))
    except InterpreterUnusable as error:
        yield Finding("warning", f"python is off: {error}", "ossia python setup gives it a Python of its own")
    yield from (_about(way, machine.resolved.origins["unconfined"]) for way in ways)
    if any(way.name in ("bwrap", "landlock") for way in ways):
        how = "by a control group" if has_control_groups() else "by a look four times a second (no control group)"
        yield Finding("ok", f"the memory of what a call starts is limited {how}")
    if settings.python is None and own_environment().executable is None:
        text = "the model's Python has only the standard library"
        yield Finding("ok", text, "give it numpy, pandas, matplotlib and sympy", "ossia python setup")


def _about(way: Confinement, set_by: str) -> Finding:
    what = {"python": "python", "shell": "container.exec"}[way.runs]
    if way.name == "off":
        reason, _, unconfined = way.reason.partition("; ")
        return Finding("warning", f"{what} is off, since nothing confines it here: {reason}", unconfined)
    if way.name == "unconfined":
        text = f"{what} runs unconfined: it can do whatever you can"
        by_variable = set_by.startswith("OSSIA_")
        command = "unset OSSIA_UNCONFINED" if by_variable else "ossia config unset unconfined"
        return Finding("warning", text, "let it be confined again", command)
    if way.reason:
        text = f"{what} is confined by {way.name}, which holds back less than bubblewrap: {way.reason}"
        fix = "get bubblewrap 0.8 or later; docs/confinement.md says what is not held back until then"
        return Finding("warning", text, fix)
    return Finding("ok", f"{what} is confined by {way.name}")
