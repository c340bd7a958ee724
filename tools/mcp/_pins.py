"""Which tools the user has accepted of each MCP server: a hash of each tool's description and schema, kept on disk.

The model reads those texts like ours, and a server can change them at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from ossia.tools.files import cannot, read_own, write_whole
from ossia.tools.functions.errors import FunctionsError
from ossia.tools.mcp._server import RemoteTool

_VERSION = 1


class PinsUnusable(FunctionsError):
    """The file of accepted tools can't be read or written. One line with what to do."""


def fingerprint(tool: RemoteTool) -> str:
    """A hash of all that the model could be told about a tool: `"5f3a…"`, 64 characters."""
    try:
        told = json.dumps([tool.name, tool.description, tool.schema], sort_keys=True, default=str)
    except (RecursionError, ValueError):  # nested too deep, or it contains itself
        told = os.urandom(16).hex()  # matches nothing, so it never counts as accepted
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()


class Pins:
    """`DATA/mcp/pins.json`: server → tool → hash. Written atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, server: str) -> Mapping[str, str] | None:
        """The accepted tools of a server; None if nothing of it was ever accepted. Raises `PinsUnusable`."""
        return self._read().get(server)

    def accept(self, server: str, hashes: Mapping[str, str]) -> None:
        """Replace what was accepted before by these. Raises `PinsUnusable`."""
        self._write({**self._read(), server: dict(hashes)})

    def forget(self, server: str) -> None:
        """Forget all that was accepted of a server."""
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
