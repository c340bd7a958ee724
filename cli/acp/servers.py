"""The client's MCP servers, as it names them in `session/new`: connected under the same rules as the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.tools.functions import McpConfigInvalid
from ossia.tools.functions.naming import plain_name
from ossia.tools.mcp.config import McpConfig, parse_server

if TYPE_CHECKING:
    from ossia.tools.build import ToolsSpec

_WHERE = "mcpServers"
_NAME_CHARS = 36


def with_servers(spec: ToolsSpec, given: object) -> tuple[ToolsSpec, tuple[str, ...]]:
    """The tools with the servers of a request's `mcpServers`, and a line for people about each that isn't used.

    The user's own keep their names: what was accepted of a server, and its login, are stored by its name. The values
    are the client's, so `${VAR}` means itself. Raises McpConfigInvalid for a wrong shape.

        with_servers(spec, [{"name": "My notes", "command": "/usr/bin/notes", "args": [], "env": []}])
        # (ToolsSpec(…, servers=(McpConfig("My_notes", command="/usr/bin/notes", …),)), ())
    """
    given = [] if given is None else given
    if not isinstance(given, list):
        raise McpConfigInvalid(f"{_WHERE}: must be a list of servers, not {type(given).__name__}")
    own = {plain_name(server.name) for server in spec.servers}
    taken, added, unused = set(own), list[McpConfig](), list[str]()
    for number, entry in enumerate(given):
        config = _server(entry, f"{_WHERE}[{number}]")
        if plain_name(config.name) in own:
            unused.append(f"the editor's MCP server {config.name} isn't used: you have configured one of that name")
            continue
        names = (config.name, *(f"{config.name}_{again}" for again in range(2, len(given) + 1)))
        name = next(one for one in names if plain_name(one) not in taken)
        taken.add(plain_name(name))
        added.append(replace(config, name=name))
    return replace(spec, servers=(*spec.servers, *added)), tuple(unused)


def _server(entry: object, where: str) -> McpConfig:
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("name"), str):
        raise McpConfigInvalid(f"{where}: must be an object with a name")
    kind = entry.get("type") or "stdio"
    if kind not in ("stdio", "http"):
        raise McpConfigInvalid(f'{where}.type: must be "stdio" or "http", not {kind!r:.40}')
    keys = ("command", "args", "env") if kind == "stdio" else ("url", "headers")
    table = {key: entry[key] for key in keys if entry.get(key) is not None}
    for key in ("env", "headers"):
        if key in table:
            table[key] = _by_name(table[key], f"{where}.{key}")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("-_.")[:_NAME_CHARS] or "server"
    config = parse_server(plain, {**table, "type": kind}, where, literal=True)
    if config.command is not None and not Path(config.command).is_absolute():
        raise McpConfigInvalid(f"{where}.command: must be an absolute path, not {config.command!r:.80}")
    return config


def _by_name(pairs: object, where: str) -> Mapping[str, object]:
    """`{"TOKEN": "x"}` of `[{"name": "TOKEN", "value": "x"}]`."""
    if not isinstance(pairs, list) or not all(isinstance(one, Mapping) for one in pairs):
        raise McpConfigInvalid(f"{where}: must be a list of objects with name and value")
    if not all(isinstance(one.get("name"), str) for one in pairs):
        raise McpConfigInvalid(f"{where}: each must have a name")
    return {one["name"]: one.get("value") for one in pairs}
