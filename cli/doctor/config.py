"""The settings: can the config file be read, and are its keys known?"""

from __future__ import annotations

from collections.abc import Iterator

from ossia.cli.doctor.finding import Finding, State
from ossia.cli.doctor.machine import Machine
from ossia.cli.settings.config import TABLES, config_path, load, nearest, resolve
from ossia.cli.settings.table import SETTINGS

_EDIT = "ossia config edit"


def config(machine: Machine) -> Iterator[Finding]:
    """The file, its unknown keys, and variables that look like settings and are none."""
    from ossia.cli.exits import ExitError

    path, known = config_path(machine.environ), [*SETTINGS, *TABLES]
    try:
        unknown = load(path, must_exist=False).keys() - {*known}
        resolved = None if unknown else resolve({}, environ=machine.environ)
    except ExitError as error:
        yield Finding("config", "fault", str(error), "correct it: until then no command runs", _EDIT)
        return
    for key in sorted(unknown):
        text = f"{path}: {key!r} is not a setting{nearest(key.replace('-', '_'), known)}"
        yield Finding("config", "fault", text, "correct it, or take it out", _EDIT)
    if resolved is None:
        return
    for warning in resolved.warnings:
        yield Finding("config", "warning", warning, "unset the variable, or correct its name")
    there = [key for key, origin in resolved.origins.items() if origin != "default"]
    text = f"{path} {'can be read' if path.exists() else 'is not there, which is fine'}"
    yield Finding("config", "ok", f"{text}; set there or in the environment: {', '.join(there) or 'nothing'}")


def engines(machine: Machine) -> Iterator[Finding]:
    """The servers that `[engines.NAME]` and `engine` name: can they be used? None is asked."""
    from ossia.agent.errors import AddressUnusable, KeyUnusable
    from ossia.cli.exits import ExitError
    from ossia.cli.runtime.consent import is_agreed, place_of
    from ossia.cli.settings.engines import address_of, engine_names, is_server

    used = machine.settings.engine
    for name in dict.fromkeys([*engine_names(machine.environ), *([used] if is_server(used) else [])]):
        state: State = "fault" if name == used else "warning"
        try:
            address = address_of(name, machine.environ)
        except KeyUnusable as error:
            fix = "set it where ossia is started: until then the engine can't be used"
            yield Finding("config", state, str(error), fix)
            continue
        except (AddressUnusable, ExitError) as error:
            yield Finding("config", state, str(error), "correct it: the engine can't be used", _EDIT)
            continue
        where = f"engine {name}" if name == address.name else "the engine"
        if address.ca is not None and not address.ca.is_file():
            yield Finding("config", state, f"{where}: ca: {address.ca} is no file", "correct it", _EDIT)
        elif not is_agreed(address, machine.settings):
            text = f"{where}: nobody has agreed yet that prompts go to {place_of(address)}"
            state = "warning" if name == used else "ok"
            fix = "run this in a terminal once, and answer yes"
            yield Finding("config", state, text, fix, f"ossia --engine {name}")
        else:
            key = f", with the key in {address.key_env}" if address.key_env else ""
            yield Finding("config", "ok", f"{where}: prompts may go to {place_of(address)}{key}")
