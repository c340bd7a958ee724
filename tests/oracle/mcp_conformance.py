"""The client's half of MCP's official conformance suite: `python -m tests.oracle.mcp_conformance [SCENARIO…]`.

Needs Node 22 and its package: `npm install @modelcontextprotocol/conformance`, in a folder that `--suite FOLDER` names.
Prints a line for each scenario. Not run: sampling and roots, which ossia doesn't offer to servers.

Run with an address alone it is the client that the suite starts, as `… client URL`.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from ossia.agent.control import Control
from ossia.tools.mcp.config import parse_servers
from ossia.tools.mcp.servers import McpServers
from tests.support.calls import call

ARGUMENTS = {"add_numbers": {"a": 2, "b": 3}}


def opened(url: str) -> None:
    """Do what a browser would: follow the redirects, which end at our own page."""
    for _ in range(5):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
        connection.request("GET", f"{parts.path}?{parts.query}")
        answer = connection.getresponse()
        answer.read()
        if answer.status not in (301, 302, 303, 307, 308):
            return
        url = answer.headers["Location"]


def as_client(url: str) -> int:
    """Connect, log in if that is asked for, and call each tool once."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
        entry: dict[str, object] = {"url": url}
        if os.environ.get("MCP_CONFORMANCE_SCENARIO") == "auth/basic-cimd":
            entry["client_id"] = "https://conformance-test.local/client-metadata.json"
        elif "client_secret" in context:
            entry |= {"client_id": context["client_id"], "client_secret": "${SECRET}"}
        configs = parse_servers({"suite": entry}, "mcp.json")
        environ = {"PATH": os.environ["PATH"], "HOME": name, "SECRET": context.get("client_secret", "")}
        servers = McpServers(
            configs, data_dir=folder, log_dir=folder, environ=environ, connect_timeout_s=25.0, show=opened
        )
        stack.callback(servers.close)
        (status,) = servers.connect()
        print(status, file=sys.stderr)
        for tool in servers.tools:
            arguments = ARGUMENTS.get(tool.spec.name.removeprefix("functions.suite__"), {})
            called = call(servers.tools, tool.spec.name, arguments, folder=folder, stop=Control())
            print(called.text, file=sys.stderr)
        return 0 if status.error is None else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--suite", type=Path, default=Path(), help="the folder with node_modules")
    chosen = parser.parse_args()
    if chosen.scenarios[:1] == ["client"]:
        return as_client(chosen.scenarios[1])
    runner = chosen.suite.resolve() / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    listed = subprocess.run(["node", runner, "list"], capture_output=True, text=True, check=True).stdout
    of_clients = listed.partition("Client scenarios")[2].splitlines()
    names = [line.split()[1] for line in of_clients if line.strip().startswith("- ")]
    failed = 0
    for name in chosen.scenarios or names:
        command = f"{sys.executable} -m tests.oracle.mcp_conformance client"
        with tempfile.TemporaryDirectory() as results:
            ran = subprocess.run(
                ["node", runner, "client", "--command", command, "--scenario", name, "-o", results],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        failed += ran.returncode != 0
        print(f"{'pass' if ran.returncode == 0 else 'FAIL'}  {name}", flush=True)
        if chosen.scenarios:
            print(ran.stdout[-6000:], ran.stderr[-6000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
