"""An MCP server on loopback that wants a login, with the service that gives it."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit


class Guarded(http.server.BaseHTTPRequestHandler):
    """An MCP server that wants a login, and the service that gives it. `valid` are the keys that it takes.

    `client`: the ID, the secret and how that is sent, of the only client that may log in; None: each registers itself.
    """

    valid: set[str]
    requests: list[str]
    client: tuple[str, str, str] | None
    cut_off = 0  # bytes that an answer with a key lacks

    def do_GET(self) -> None:
        base, address = f"http://{self.headers['Host']}", urlsplit(self.path)
        if address.path.startswith("/.well-known/oauth-protected-resource"):
            self._say(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
        elif address.path.startswith("/.well-known/oauth-authorization-server"):
            registers = {"registration_endpoint": f"{base}/register"} if self.client is None else {}
            self._say(200, {
                "issuer": base, "authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token",
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"], **registers,
                "token_endpoint_auth_methods_supported": [self.client[2] if self.client else "none"],
            })  # fmt: skip
        elif address.path == "/authorize":
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            whose = f" {query['client_id']} {query['redirect_uri']}" if self.client else ""
            self.requests.append(f"authorize {query['code_challenge_method']}{whose}")
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri']}?{urlencode({'code': 'c', 'state': query['state']})}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._say(405, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register" and self.client is None:
            self._say(201, {**json.loads(body), "client_id": "me", "token_endpoint_auth_method": "none"})
        elif self.path == "/token":
            form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            if self.client and self._given(form) != self.client:
                self._say(401, {"error": "invalid_client", "error_description": f"who is {self._given(form)}?"})
                return
            self.requests.append(form["grant_type"])
            key = f"key-{len(self.requests)}"
            self.valid.add(key)
            given = {"access_token": key, "token_type": "Bearer", "expires_in": 3600, "refresh_token": "again"}
            self._say(200, given, cut_off=self.cut_off)
        elif self.path != "/mcp":
            self._say(404, {})
        elif (self.headers["Authorization"] or "").removeprefix("Bearer ") not in self.valid:
            self._say(401, {})
        else:
            self._mcp(json.loads(body))

    def _given(self, form: dict[str, str]) -> tuple[str, str, str]:
        """The client as a request for a key names it."""
        if not (basic := self.headers["Authorization"]):
            return form["client_id"], form.get("client_secret", ""), "client_secret_post"
        name, _, secret = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
        return unquote(name), unquote(secret), "client_secret_basic"

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

    def _say(self, status: int, value: object, *, cut_off: int = 0) -> None:
        data = json.dumps(value).encode()
        data = data[: len(data) - cut_off]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None: ...


@contextmanager
def guarded(client: tuple[str, str, str] | None = None) -> Iterator[tuple[str, type[Guarded]]]:
    handler = type("Site", (Guarded,), {"valid": set(), "requests": [], "client": client})
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{site.server_port}/mcp", handler
    finally:
        site.shutdown()
        site.server_close()
