"""The configured MCP servers: `[mcpServers.NAME]` in the config file, and the `mcp.json` beside it.

`ossia mcp add` and `rm` write the `mcp.json` only; the config file is the user's to edit. A trusted workspace may have
servers of its own, in its `.ossia/config.toml` or `.ossia/mcp.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ossia.cli.settings.config import (
    FOLDER_CONFIG,
    MCP_TABLE,
    ConfigError,
    config_path,
    content_of,
    parsed,
    require_shallow,
)
from ossia.cli.settings.engines import key_variables
from ossia.tools.files import write_whole
from ossia.tools.functions import McpConfigInvalid
from ossia.tools.mcp.config import McpConfig, parse_server, parse_servers, variables_in

if TYPE_CHECKING:
    from ossia.tools.approval.trust import Offer

_FILE = "mcp.json"
_FOLDER_FILES = (FOLDER_CONFIG.as_posix(), FOLDER_CONFIG.with_name(_FILE).as_posix())


def configured_servers(environ: Mapping[str, str], *, folder: Offer | None = None) -> tuple[McpConfig, ...]:
    """All servers of the user's files, and those of the trusted workspace `folder`.

    Raises `McpConfigInvalid`: a file can't be read, a server can't be used as it is written, a name is used twice.
    """
    found: dict[str, McpConfig] = {}
    tables = {path: mcp_table(path) for path in (config_path(environ), mcp_file(environ))}
    theirs = {folder.root / name: _table_of(folder, name) for name in _FOLDER_FILES} if folder else {}
    for path, table in (*tables.items(), *theirs.items()):
        for server in parse_servers(table, str(path)):
            if server.name in found:
                other = found[server.name].file
                raise McpConfigInvalid(f"{server.where}: {other} has a server of that name: rename one")
            if folder is not None and path.is_relative_to(folder.root) and server.cwd is None:
                server = replace(server, cwd=str(folder.root))  # its programs stand there, and it is trusted
            if path in theirs:  # only the user says which tools just look
                server = replace(server, read_only=())
                if taken := variables_in(server) & key_variables(environ):
                    raise McpConfigInvalid(
                        f"{server.where}: {min(taken)} is an engine's key, for its host alone: remove it here"
                    )
            found[server.name] = server
    return tuple(found.values())


def mcp_file(environ: Mapping[str, str]) -> Path:
    """The `mcp.json` beside the config file in use."""
    return config_path(environ).with_name(_FILE)


def add_server(environ: Mapping[str, str], name: str, entry: Mapping[str, object]) -> McpConfig:
    """Write a server into the `mcp.json`; everything else in there stays. Raises `McpConfigInvalid`, OSError."""
    path = mcp_file(environ)
    config = parse_server(name, entry, f"{MCP_TABLE}.{name}")
    there = next((one for one in configured_servers(environ) if one.name == name), None)
    if there is not None:
        raise McpConfigInvalid(f"{there.file} has a server {name!r} already: `ossia mcp rm {name}` first")
    whole = _from_json(path, _content(path))
    servers = dict(cast("Mapping[str, object]", whole.get(MCP_TABLE, {})))
    _write(path, {**whole, MCP_TABLE: {**servers, name: dict(entry)}})
    return config


def remove_server(environ: Mapping[str, str], name: str) -> None:
    """Take a server out of the `mcp.json`. Raises `McpConfigInvalid` when it isn't in there, OSError."""
    path = mcp_file(environ)
    known = {one.name: one.file for one in configured_servers(environ)}
    if name not in known:
        raise McpConfigInvalid(f"no MCP server {name!r} is configured (configured: {', '.join(known) or 'none'})")
    if known[name] != str(path):
        raise McpConfigInvalid(f"{name!r} is in {known[name]}: remove [{MCP_TABLE}.{name}] there yourself")
    whole = _from_json(path, _content(path))
    servers = dict(cast("Mapping[str, object]", whole[MCP_TABLE]))
    del servers[name]
    _write(path, {**whole, MCP_TABLE: servers})


def mcp_table(path: Path) -> Any:
    """The `mcpServers` of a file, as they stand there; none when there is no file. `configured_servers` checks them."""
    return (_from_json if path.suffix == ".json" else _from_toml)(path, _content(path)).get(MCP_TABLE, {})


def _table_of(folder: Offer, name: str) -> Any:
    path, content = folder.root / name, folder.files.get(name, b"")
    return (_from_json if path.suffix == ".json" else _from_toml)(path, content).get(MCP_TABLE, {})


def _from_toml(path: Path, content: bytes) -> Mapping[str, object]:
    try:
        return parsed(content, path)
    except ConfigError as error:
        raise McpConfigInvalid(str(error)) from None


def _from_json(path: Path, content: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(content.decode() or "{}")
        require_shallow(value)
    except UnicodeDecodeError:
        raise McpConfigInvalid(f"{path}: can't be read: it isn't UTF-8") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else error
        raise McpConfigInvalid(f"{path}: not valid JSON: {why}") from None
    if not isinstance(value, dict):
        raise McpConfigInvalid(f'{path}: must be {{"{MCP_TABLE}": {{…}}}}, not {type(value).__name__}')
    return value


def _content(path: Path) -> bytes:
    try:
        return content_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise McpConfigInvalid(f"{path}: can't be read: {error.strerror}") from None


def _write(path: Path, value: Mapping[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # from an argument whose bytes are no UTF-8
        raise McpConfigInvalid(f"{path}: the text must be UTF-8") from None
    write_whole(path, text)
