"""The servers that the user's config file names: `[engines.NAME]` with `url`, `key_env`, `ca`, `context`, `model`.

Only that file has them: a workspace's can't, trusted or not, for the address decides who reads the prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.settings.config import ENGINES_TABLE, ConfigError, config_path, load
from ossia.cli.settings.kinds import ENGINE_NAME

if TYPE_CHECKING:
    from ossia.agent.engine.remote.address import Address

LLAMA = "llama"


def is_server(engine: str) -> bool:
    """True if the setting `engine` means a server: an address as `http://127.0.0.1:8080`, or a name as `team`."""
    return engine != LLAMA and not engine.startswith("script:")


def engine_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the configured servers, as they stand in the file. Raises ConfigError."""
    return tuple(_table(environ))


def address_of(engine: str, environ: Mapping[str, str]) -> Address:
    """The address of the server that `--engine` names. Raises ConfigError, AddressUnusable (also for its key)."""
    from ossia.agent.engine.remote.address import parse_engine, parse_url

    if "://" in engine:
        return parse_url(engine)
    table, path = _table(environ), config_path(environ)
    if engine not in table:
        known = ", ".join(table) or "none"
        raise ExitError(f"--engine: no [{ENGINES_TABLE}.{engine}] in {path} (there: {known}); or give http://HOST:PORT")
    entry = table[engine]
    if isinstance(entry, Mapping) and isinstance(entry.get("ca"), str):
        entry = {**entry, "ca": str(path.parent / paths.expanded(entry["ca"]))}
    return parse_engine(engine, entry, f"{path}: {ENGINES_TABLE}.{engine}", environ)


def certificate_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that a `ca` names, also missing ones: they decide which servers get prompts and keys."""
    folder = config_path(environ).parent
    return tuple(folder / paths.expanded(name) for name in _values(environ, "ca"))


def key_variables(environ: Mapping[str, str]) -> frozenset[str]:
    """The variables that a `key_env` names: each is for its engine's host alone."""
    return frozenset(_values(environ, "key_env"))


def keys(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of all engines: none of them may be shown."""
    return tuple(environ[variable] for variable in key_variables(environ) if environ.get(variable))


def engine_entries(environ: Mapping[str, str]) -> dict[str, Mapping[str, object]]:
    """The tables as they stand in the file, by name, unchecked. Raises ConfigError."""
    return {name: entry for name, entry in _table(environ).items() if isinstance(entry, Mapping)}


def _values(environ: Mapping[str, str], key: str) -> list[str]:
    values = [entry.get(key) for entry in engine_entries(environ).values()]
    return [value for value in values if isinstance(value, str)]


def _table(environ: Mapping[str, str]) -> Mapping[str, object]:
    path = config_path(environ)
    table = load(path, must_exist=False).get(ENGINES_TABLE, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{path}: {ENGINES_TABLE}: must be a table, not {type(table).__name__}")
    for unused in (name for name in table if name == LLAMA or not ENGINE_NAME.match(name)):
        allowed = f"a-z, A-Z, 0-9 and, after its first character, '.', '_', '-'; it isn't {LLAMA!r}"
        raise ConfigError(f"{path}: {ENGINES_TABLE}: a name has {allowed}: rename {unused!r:.60}")
    return table
