"""MCP servers for tests, and where they keep their things."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ossia.tools.mcp.config import parse_servers
from ossia.tools.mcp.servers import McpServers

SERVER = Path(__file__).with_name("mcp_server.py")
HOSTILE = Path(__file__).with_name("mcp_hostile.py")


def study() -> dict[str, object]:
    """The config of the real server, on stdio."""
    return {"command": sys.executable, "args": [str(SERVER), "stdio"]}


def hostile(*how: str, **more: object) -> dict[str, object]:
    """The config of a server that does what it shouldn't."""
    return {"command": sys.executable, "args": ["-I", str(HOSTILE), *how], **more}


@contextmanager
def servers(folder: Path, table: object, *, connect_timeout_s: float = 60.0, **environ: str) -> Iterator[McpServers]:
    """The servers of a `mcpServers` table, not yet connected to; closed at the end."""
    made = McpServers(
        parse_servers(table, "mcp.json"),
        data_dir=folder / "data",
        log_dir=folder / "log",
        environ={"PATH": os.environ["PATH"], "HOME": str(folder), **environ},
        connect_timeout_s=connect_timeout_s,
    )
    try:
        yield made
    finally:
        made.close()


@contextmanager
def over_http(server: Path = SERVER) -> Iterator[str]:
    """The address of a server, on a port of loopback. It is started with `http` and the port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(server), "http", str(port)])
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)
