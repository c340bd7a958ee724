"""A server over HTTP: answers are bounded, and a status that is a failure says what to do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ossia.tools.mcp._mended import well_formed
from ossia.tools.mcp.config import McpConfig
from ossia.tools.text import one_line

if TYPE_CHECKING:
    import httpx2

SESSION_GONE = -39404  # our own code, outside of those that JSON-RPC reserves
_MAX_RESPONSE_BYTES = 64 << 20
_MAX_FAULT_BYTES = 64 << 10


def http_client(config: McpConfig, auth: Any = None) -> Any:
    """The client that reaches the server's address. `auth`: an `httpx2.Auth`."""
    import httpx2

    class Bounded(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            if response.headers.get("content-encoding", "identity") != "identity":  # a few bytes may become gigabytes
                await response.aclose()
                raise httpx2.DecodingError("the server compressed its answer, which we did not ask for")
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            if response.status_code >= 400 and request.method == "POST" and request.url == httpx2.URL(config.url or ""):
                return await _explained(request, response, config.name)
            response.stream = _Lines(response.stream)
            return response

    class _Lines(httpx2.AsyncByteStream):
        """The answer line by line, each well-formed."""

        def __init__(self, inner: httpx2.AsyncByteStream) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left, rest = _MAX_RESPONSE_BYTES, bytearray()
            async for chunk in self._inner:
                left -= len(chunk)
                if left < 0:
                    raise httpx2.ReadError(f"an answer of more than {_MAX_RESPONSE_BYTES >> 20} MB")
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield well_formed(bytes(rest) + chunk[:end])
                    rest.clear()
                rest += chunk[end:]
            if rest:
                yield well_formed(bytes(rest))

        async def aclose(self) -> None:
            await self._inner.aclose()

    headers = {**config.headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(30.0, read=300.0)  # the library's default: an event stream may be silent for long
    return httpx2.AsyncClient(headers=headers, timeout=timeout, transport=Bounded(), auth=auth)


async def _explained(request: httpx2.Request, response: httpx2.Response, name: str) -> httpx2.Response:
    """The response with a JSON-RPC error as its body, which the library hands to the caller. The server's own stays."""
    import httpx2

    body = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    with suppress(httpx2.TransportError):  # the status says enough
        async for chunk in response.stream:
            body += chunk
            if len(body) > _MAX_FAULT_BYTES:
                break
    await response.aclose()
    said = _json(bytes(body))
    status = response.status_code
    error = said.get("error")
    is_rpc = isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
    in_session = "mcp-session-id" in request.headers
    unknown_method = is_rpc and isinstance(error, dict) and error["code"] == -32601
    if in_session and not unknown_method and (status in (404, 410) or (status == 400 and b"session" in body.lower())):
        error = {"code": SESSION_GONE, "message": "it has forgotten the session"}
    elif not is_rpc or status in (401, 403, 429):
        error = {"code": -32603, "message": _fault_of(response, said, name)}
    kept = {key: value for key, value in response.headers.items() if key == "www-authenticate"}
    answer = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(status, headers=kept, json=answer, request=request)


def _json(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(well_formed(body))
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _fault_of(response: httpx2.Response, said: dict[str, Any], name: str) -> str:
    """What a status means and what to do, in a line: `it wants a login (HTTP 401): …`."""
    status, retry_after = response.status_code, response.headers.get("retry-after", "")
    when = f"in {retry_after} s" if retry_after.isdecimal() else "later"
    meant = {
        401: ("it wants a login", f"run `ossia mcp login {name}`, or give it a valid key as a header"),
        403: ("it refuses access", f"check what the key may do, or run `ossia mcp login {name}` for another one"),
        404: ("nothing is at this address", "check the URL"),
        405: ("this address doesn't take MCP over streamable HTTP", "check the URL (one that ends in /sse is too old)"),
        406: ("this address doesn't take MCP over streamable HTTP", "check the URL"),
        429: ("it takes no more calls for now", f"try again {when}"),
        503: ("it is out of service", f"try again {when}"),
    }
    other = ("it failed", f"try again {when}") if status >= 500 else ("it refuses the request", "check the URL")
    import httpx2

    what, todo = meant.get(status, other)
    words = next((said[key] for key in ("error_description", "message", "error") if isinstance(said.get(key), str)), "")
    phrase = f"HTTP {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
    quoted = f", and says {one_line(words, 100)!r}" if words else ""
    return f"{what} ({phrase}{quoted}): {todo}"
