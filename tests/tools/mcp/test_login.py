"""Logging in to a server over HTTP, with a real server, browser and redirect on loopback."""

from __future__ import annotations

import http.server
import json
import stat
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import mcp  # noqa: F401  # so that the time to connect is not the time to import

from tests.support.calls import call
from tools.mcp._login import Logins
from tools.mcp.config import parse_servers
from tools.mcp.servers import McpServers


class Guarded(http.server.BaseHTTPRequestHandler):
    """An MCP server that wants a login, and the service that gives it. `valid` are the keys that it takes."""

    valid: set[str]
    requests: list[str]

    def do_GET(self) -> None:
        base, address = f"http://{self.headers['Host']}", urlsplit(self.path)
        if address.path.startswith("/.well-known/oauth-protected-resource"):
            self._say(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
        elif address.path.startswith("/.well-known/oauth-authorization-server"):
            ways = {way: f"{base}/{way}" for way in ("authorize", "token", "register")}
            self._say(200, {
                "issuer": base, "authorization_endpoint": ways["authorize"], "token_endpoint": ways["token"],
                "registration_endpoint": ways["register"], "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
            })  # fmt: skip
        elif address.path == "/authorize":
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            self.requests.append(f"authorize {query['code_challenge_method']}")
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri']}?{urlencode({'code': 'c', 'state': query['state']})}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._say(405, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            self._say(201, {**json.loads(body), "client_id": "me", "token_endpoint_auth_method": "none"})
        elif self.path == "/token":
            kind = parse_qs(body.decode())["grant_type"][0]
            self.requests.append(kind)
            key = f"key-{len(self.requests)}"
            self.valid.add(key)
            self._say(200, {"access_token": key, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "again"})
        elif (self.headers["Authorization"] or "").removeprefix("Bearer ") not in self.valid:
            self._say(401, {})
        else:
            self._mcp(json.loads(body))

    def _mcp(self, message: dict[str, Any]) -> None:
        known: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "g", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "get", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "in"}]},
        }  # fmt: skip
        method = message["method"]
        body = {"result": known[method]} if method in known else {"error": {"code": -32601, "message": "no"}}
        self._say(200, {"jsonrpc": "2.0", "id": message.get("id"), **body})

    def _say(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None: ...


@contextmanager
def guarded() -> Iterator[tuple[str, type[Guarded]]]:
    handler = type("Site", (Guarded,), {"valid": set(), "requests": []})
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{site.server_port}/mcp", handler
    finally:
        site.shutdown()
        site.server_close()


def _servers(folder: Path, url: str, *, log_in: bool = False) -> McpServers:
    def browse(address: str) -> None:
        urllib.request.urlopen(address).close()

    return McpServers(
        parse_servers({"g": {"url": url}}, "mcp.json"),
        data_dir=folder, log_dir=folder / "log", environ={}, connect_timeout_s=60.0, show=browse if log_in else None,
    )  # fmt: skip


def test_a_login_is_kept_refreshed_and_forgotten(tmp_path: Path) -> None:
    with guarded() as (url, site):
        before = _servers(tmp_path, url)
        (status,) = before.connect()
        before.close()
        assert status.error is not None and "run `ossia mcp login g`" in status.error and site.requests == []

        made = _servers(tmp_path, url, log_in=True)
        (status,) = made.connect()
        made.close()
        assert status.error is None and site.requests[:2] == ["authorize S256", "authorization_code"]
        kept = tmp_path / "mcp" / "logins.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600

        kept.write_text(json.dumps({"g": {**json.loads(kept.read_text())["g"], "expires_at": 1}}))
        site.valid.clear()  # the key has ended, and without a browser only refreshing it helps
        site.requests.clear()
        again = _servers(tmp_path, url)
        (status,) = again.connect()
        assert status.error is None and site.requests == ["refresh_token"]
        assert call(again.tools, "functions.g__get", folder=tmp_path).text == "in"
        site.valid.clear()  # revoked before its time
        revoked = call(again.tools, "functions.g__get", folder=tmp_path).text
        assert "run `ossia mcp login g`" in revoked
        again.close()

        assert "key-" not in "".join(path.read_text() for path in (tmp_path / "log").iterdir())
        assert again.logins.forget("g") and not again.logins.forget("g")
        (status,) = (gone := _servers(tmp_path, url)).connect()
        gone.close()
        assert status.error is not None and "wants a login" in status.error


def test_a_login_that_others_could_have_written_isnt_used(tmp_path: Path) -> None:
    (config,) = parse_servers({"s": {"url": "https://a.example/mcp"}}, "mcp.json")
    logins = Logins(tmp_path / "logins.json")
    logins.keep(config, {"tokens": {"access_token": "x"}})
    assert logins.of(config)
    (tmp_path / "logins.json").chmod(0o666)
    assert logins.of(config) == {}


def test_a_login_isnt_sent_to_another_address(tmp_path: Path) -> None:
    with guarded() as (url, _), guarded() as (other, site):
        made = _servers(tmp_path, url, log_in=True)
        made.connect()
        made.close()
        site.valid |= {"key-1", "key-2"}
        (status,) = (moved := _servers(tmp_path, other)).connect()
        moved.close()
        assert status.error is not None and "wants a login" in status.error
