"""The user's decisions about MCP servers, on disk and private: accepted tools, and the keys of logins.

The model reads a tool's description and schema like our own texts, and a server can change them at any time: a tool is
accepted by a hash of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ossia.tools.files import cannot, read_own, write_whole
from ossia.tools.functions import FunctionsError
from ossia.tools.mcp.config import McpConfig
from ossia.tools.mcp.status import RemoteTool

_VERSION = 1


class PinsUnusable(FunctionsError):
    """The file of accepted tools can't be read or written. One line, with a next step."""


def fingerprint(tool: RemoteTool) -> str:
    """A hash of all that the model could read about a tool: `"5f3a…"`, 64 characters."""
    try:
        text = json.dumps([tool.name, tool.description, tool.schema], sort_keys=True, default=str)
    except (RecursionError, ValueError):  # nested too deep, or it contains itself
        text = os.urandom(16).hex()  # matches nothing, so it never counts as accepted
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Pins:
    """`DATA/mcp/pins.json`: server → tool → hash. Each method raises `PinsUnusable`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, server: str) -> Mapping[str, str] | None:
        """The accepted tools of a server; None if nothing of it was ever accepted."""
        return self._read().get(server)

    def accept(self, server: str, hashes: Mapping[str, str]) -> None:
        """Accept these and no others."""
        self._write({**self._read(), server: dict(hashes)})

    def forget(self, server: str) -> None:
        """Forget a server's accepted tools."""
        servers = self._read()
        if servers.pop(server, None) is not None:
            self._write(servers)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            stored = json.loads(read_own(self._path).decode())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PinsUnusable(f"{self._path}: can't read which MCP tools you accepted: {error.strerror}") from None
        except (ValueError, RecursionError):
            stored = None
        servers = stored.get("servers") if isinstance(stored, dict) and stored.get("version") == _VERSION else None
        if not isinstance(servers, dict) or not all(isinstance(pins, dict) for pins in servers.values()):
            raise PinsUnusable(f"{self._path}: damaged: delete it, then accept the servers again with `ossia mcp test`")
        return servers

    def _write(self, servers: Mapping[str, Mapping[str, str]]) -> None:
        text = json.dumps({"version": _VERSION, "servers": servers}, indent=1, sort_keys=True) + "\n"
        try:
            write_whole(self._path, text)
        except OSError as error:
            raise PinsUnusable(f"{self._path}: {cannot(error, 'written')}") from None


class Logins:
    """`DATA/mcp/logins.json`: server → its address and the keys of a login. Methods that write raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, config: McpConfig) -> dict[str, Any]:
        """The stored values of this server, or {}. Another address, or another client, gets no old keys."""
        stored = self._read().get(config.name)
        if not isinstance(stored, dict) or (stored.get("url"), stored.get("client_id")) != (
            config.url,
            config.client_id,
        ):
            return {}
        return dict(stored)

    def keep(self, config: McpConfig, what: dict[str, Any]) -> None:
        """Store these values beside those of before."""
        whose = {"url": config.url, "client_id": config.client_id}
        self._write({**self._read(), config.name: {**self.of(config), **what, **whose}})

    def begin(self, config: McpConfig) -> None:
        """Keep nothing but the secret typed by the user."""
        secret = self.of(config).get("client_secret")
        if self.forget(config.name) and secret:
            self.keep(config, {"client_secret": secret})

    def completed(self, config: McpConfig) -> McpConfig:
        """The config with the secret typed by the user, unless it has one."""
        secret = self.of(config).get("client_secret")
        if config.client_secret or not isinstance(secret, str):
            return config
        return replace(config, client_secret=secret, secrets=(*config.secrets, secret))

    def forget(self, name: str) -> bool:
        """Forget a server. False: nothing was stored."""
        logins = self._read()
        if logins.pop(name, None) is None:
            return False
        self._write(logins)
        return True

    def _read(self) -> dict[str, Any]:
        try:
            logins = json.loads(read_own(self._path).decode())
        except (OSError, ValueError, RecursionError):
            return {}
        return logins if isinstance(logins, dict) else {}

    def _write(self, logins: dict[str, Any]) -> None:
        write_whole(self._path, json.dumps(logins, indent=1, sort_keys=True) + "\n")
