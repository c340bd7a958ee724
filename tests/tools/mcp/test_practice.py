"""What servers of others really send: forgotten sessions, statuses, odd tools and parts, text that is no Unicode."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp  # noqa: F401  # so that the time to connect is not the time to import
import pytest

from tests.support.calls import call
from tests.support.mcp_servers import hostile, servers

Answer = tuple[int, str, bytes]
"""Status, media type, body."""


class Odd:
    """A server over HTTP that keeps a session. `on_call` may answer a call in place of `result`."""

    def __init__(self, result: Mapping[str, Any], tools: list[dict[str, Any]] | None = None) -> None:
        self.result, self.session, self.calls = result, 1, 0
        self.tools = tools or [{"name": "get", "inputSchema": {"type": "object"}}]
        self.on_call: Callable[[int], Answer | None] = lambda n: None
        self.forgotten: Answer = (404, "text/plain", b"")
        self.methods: list[str] = []
        self.missing = 0  # bytes that each answer to a call announces beyond its body

    def answer(self, message: dict[str, Any], session: str | None) -> Answer:
        method = message["method"]
        self.methods.append(method)
        if method != "initialize" and session not in (None, str(self.session)):
            return self.forgotten
        if method == "tools/call":
            self.calls += 1
            if (other := self.on_call(self.calls)) is not None:
                return other
        if "id" not in message:
            return 202, "", b""
        known: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "o", "version": "1"},
            },
            "tools/list": {"tools": self.tools},
            "tools/call": self.result,
        }  # fmt: skip
        body = {"error": {"code": -32601, "message": "no"}} if method not in known else {"result": known[method]}
        return 200, "application/json", json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}).encode()


@contextmanager
def reached(odd: Odd) -> Iterator[str]:
    """The address of the server."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, kind, body = odd.answer(message, self.headers["Mcp-Session-Id"])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            missing = odd.missing if message["method"] == "tools/call" else 0
            self.close_connection = bool(missing)
            self.send_header("Content-Length", str(len(body) + missing))
            if status == 429:
                self.send_header("Retry-After", "30")
            if message["method"] == "initialize":
                self.send_header("Mcp-Session-Id", str(odd.session))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{site.server_port}/mcp"
    finally:
        site.shutdown()
        site.server_close()


TEXT = {"content": [{"type": "text", "text": "fine"}]}


def _rpc(code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}).encode()


def test_a_forgotten_session_is_made_anew_and_the_call_repeated(tmp_path: Path) -> None:
    odd = Odd(TEXT)
    ways: list[Answer] = [
        (404, "text/plain", b""),
        (404, "application/json", _rpc(-32001, "Session not found")),
        (400, "application/json", _rpc(-32000, "Bad Request: No valid session ID provided")),
        (410, "text/html", b"<p>gone</p>"),
    ]
    with reached(odd) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
        made.connect()
        for forgotten in ways:
            odd.session, odd.forgotten = odd.session + 1, forgotten
            assert call(made.tools, "functions.odd__get", folder=tmp_path).text == "fine"
        assert odd.calls == len(ways) and odd.methods.count("initialize") == 1 + len(ways)


STATUSES = {
    401: "it needs a login (HTTP 401 Unauthorized): run `ossia mcp login odd`",
    403: "it refuses access (HTTP 403 Forbidden): check what the key may do",
    404: "there is nothing at this address (HTTP 404 Not Found): check the URL",
    429: "it takes no more calls for now (HTTP 429 Too Many Requests): try again in 30 s",
    500: "it failed (HTTP 500 Internal Server Error): try again later",
}


def test_what_a_call_that_fails_says_and_the_server_stays(tmp_path: Path) -> None:
    odd = Odd(TEXT)
    told = [
        *(((status, "text/html", b"<p>oops</p>"), what) for status, what in STATUSES.items() if status != 404),
        ((200, "text/html", b"<html>log in</html>"), "its answer is text/html, not MCP, perhaps a page to log in on"),
        ((200, "application/json", b'{"jsonrpc": "2.0", "id": 3, "res'), "its answer is not valid JSON"),
        ((400, "application/json", _rpc(-32602, "city: unknown")), "city: unknown"),
    ]
    with reached(odd) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
        made.connect()
        for answer, what in told:
            odd.on_call = lambda n, answer=answer: answer  # type: ignore[misc]
            called = call(made.tools, "functions.odd__get", folder=tmp_path)
            assert called.text.startswith(f"Error: functions.odd__get: the MCP server odd: {what}")
        odd.on_call = lambda n: None
        assert call(made.tools, "functions.odd__get", folder=tmp_path).text == "fine"
        assert odd.methods.count("initialize") == 1


def test_a_status_at_the_start_says_what_to_do(tmp_path: Path) -> None:
    odd = Odd(TEXT)
    for status, what in STATUSES.items():
        odd.answer = lambda message, session, status=status: (status, "", b"")  # type: ignore[method-assign,misc]
        with reached(odd) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
            (one,) = made.connect()
        assert one.error is not None and one.error.startswith(what)


def test_only_the_tools_that_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    schema = {"type": "object"}
    tools: list[Any] = [
        {"name": "good", "inputSchema": schema},
        {"name": "no-schema"},
        {"name": "list-schema", "inputSchema": []},
        {"name": "task", "inputSchema": schema, "execution": {"taskSupport": "required"}},
        {"name": "half \ud83d", "description": "\udc00", "inputSchema": schema},
        "no tool",
    ]
    with reached(Odd(TEXT, tools)) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
        (status,) = made.connect()
    assert [tool.name for tool in status.tools] == ["good", "half �"]
    assert dict(status.left_out) == {
        "no-schema": "inputSchema: Field required",
        "list-schema": "inputSchema: Input should be an object",
        "task": "it runs only as a task, which ossia doesn't do",
        "a tool without a name": "Input should be an object",
    }
    assert "mcp odd: the tool no-schema is left out: inputSchema: Field required" in status.warnings


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"content": [{"type": "hologram"}, {"type": "text", "text": "x"}]},
         "[a part that MCP doesn't have, hologram: left out]\nx"),
        ({"content": [{"type": "text"}, "y"]},
         "[a part that MCP doesn't have, text: left out]\n[a part that MCP doesn't have, str: left out]"),
        ({"content": [{"type": "text", "text": "2 found"}], "structuredContent": {"n": [1, 2]}},
         '2 found\n{"n": [1, 2]}'),
        ({"content": [{"type": "text", "text": '{"n":5}'}], "structuredContent": {"n": 5}}, '{"n":5}'),
        ({"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}, "5"),
        ({"content": [], "structuredContent": {"data": "QUJD" * 900, "mimeType": "image/png"}},
         '{"data": "[image/png, 2,700 bytes: left out]", "mimeType": "image/png"}'),
        ({"content": [{"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}]},
         "[sound, audio/wav, 3 bytes: left out]"),
        ({"content": [{"type": "text", "text": "half \ud83d, whole 😀, \\ud83d"}]}, "half �, whole 😀, \\ud83d"),
    ],
)  # fmt: skip
def test_results(tmp_path: Path, result: Mapping[str, Any], told: str) -> None:
    with reached(Odd(result)) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
        made.connect()
        called = call(made.tools, "functions.odd__get", folder=tmp_path)
    assert (called.text, called.result.error) == (told, False)


def test_what_is_nested_too_deep_is_cut_and_nothing_else_is_lost(tmp_path: Path) -> None:
    deep: Any = {"type": "object"}
    answer: Any = "in"
    for _ in range(400):
        deep = {"type": "object", "properties": {"a]}": deep}}
        answer = [answer, '}"\\']
    tools = [{"name": "deep", "inputSchema": deep}, {"name": "flat", "inputSchema": {"type": "object"}}]
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(tools))
    result = {"content": [], "structuredContent": {"n": answer}}
    with (
        reached(Odd(result, tools)) as url,
        servers(tmp_path, {"odd": {"url": url}, "s": hostile("tools", str(path))}) as made,
    ):
        assert [[tool.name for tool in status.tools] for status in made.connect()] == [["deep", "flat"]] * 2
        called = call(made.tools, "functions.odd__deep", folder=tmp_path)
    assert "[deeper than 100 levels: left out]" in called.text and '"in"' not in called.text


def test_half_an_answer_on_stdio_is_an_error_at_once(tmp_path: Path) -> None:
    with servers(tmp_path, {"half": hostile("half-json")}) as made:
        made.connect()
        texts = [call(made.tools, "functions.half__echo", {"text": "x"}, folder=tmp_path).text for _ in range(2)]
    failed = "Error: functions.half__echo: the MCP server half: its answer is not valid JSON. Choose another way."
    assert sorted(texts) == [failed, 'echo {"text": "x"}']


def test_the_library_says_nothing_on_our_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with reached(Odd(TEXT, [{"name": "bad\x1b[2J"}])) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
        made.connect()
    assert capfd.readouterr() == ("", "")


def test_an_answer_that_breaks_off_is_never_shown_as_whole(tmp_path: Path) -> None:
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "result": TEXT}).encode()
    said = {"level": "info", "data": "half"}
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": said}).encode()
    note = b"data: " + note + b"\n\n"
    events, broke_off = "text/event-stream", "its answer broke off"
    cases: list[tuple[int, Answer, str]] = [
        (9, (200, "application/json", whole), broke_off),
        (9, (200, "application/json", whole[:70]), broke_off),
        (0, (200, "application/json", whole[:70]), "its answer is not valid JSON"),
        (9, (200, events, note + b"data: " + whole[:70]), broke_off),
        (0, (200, events, b"data: " + whole), broke_off),  # its event has no end
        (0, (200, events, b"data: " + whole[:70] + b"\n\n"), "its answer is not valid JSON"),
        (0, (200, events, note), broke_off),
        (9, (401, "text/plain", b"log"), "it needs a login"),
        (9, (500, "application/json", _rpc(-32000, "half a message")[:60]), "it failed (HTTP 500"),
    ]
    odd = Odd(TEXT)
    with reached(odd) as url, servers(tmp_path, {"odd": {"url": url}}) as made:
        made.connect()
        for missing, cut, expected in cases:
            odd.missing, odd.on_call = missing, lambda n, cut=cut: cut  # type: ignore[misc]
            text = call(made.tools, "functions.odd__get", folder=tmp_path).text
            assert text.startswith("Error: ") and expected in text and "fine" not in text and "half" not in text
            odd.missing, odd.on_call = 0, lambda n: None
            assert call(made.tools, "functions.odd__get", folder=tmp_path).text == "fine"
