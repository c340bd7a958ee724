"""A server over HTTP: its answers are bounded, a failure says what to do, and the library's OAuth logs in.

Like all that imports MCP's library, it is loaded when the first server is connected to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from mcp.shared.auth_utils import calculate_token_expiry
from pydantic import AnyUrl

from ossia.tools.mcp._mended import well_formed
from ossia.tools.mcp._stored import Logins
from ossia.tools.mcp.config import McpConfig
from ossia.tools.text import one_line

SESSION_GONE = -39404  # our own code, outside of those that JSON-RPC reserves
_MAX_RESPONSE_BYTES = 64 << 20
_MAX_FAULT_BYTES = 64 << 10

_PAGE = "<!doctype html><title>ossia</title><p>You can close this page and go back to the terminal."
_BASIC = "client_secret_basic"
_MAX_ANSWERS = 4  # one for each time that a server asks for more rights


# -- answers -----------------------------------------------------------------------------------------------------------


def http_client(config: McpConfig, auth: httpx2.Auth | None) -> httpx2.AsyncClient:
    """A client for the server's address."""
    headers = {**config.headers, "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(30.0, read=300.0)  # the library's default: an event stream may be silent for long
    return httpx2.AsyncClient(headers=headers, timeout=timeout, transport=_Bounded(config), auth=auth)


class _Bounded(httpx2.AsyncHTTPTransport):
    def __init__(self, config: McpConfig) -> None:
        super().__init__()
        self._config = config

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":  # a few bytes may become gigabytes
            await response.aclose()
            raise httpx2.DecodingError("the server compressed its answer, which we did not ask for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        to_server = request.method == "POST" and request.url == httpx2.URL(self._config.url or "")
        if response.status_code >= 400 and to_server:
            return await _explained(request, response, self._config.name)
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


async def _explained(request: httpx2.Request, response: httpx2.Response, name: str) -> httpx2.Response:
    """The response with a JSON-RPC error as its body, for the library's caller. The server's own error stays."""
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
    """The meaning of a status and a next step, in one line: `it needs a login (HTTP 401): …`."""
    status, retry_after = response.status_code, response.headers.get("retry-after", "")
    when = f"in {retry_after} s" if retry_after.isdecimal() else "later"
    meant = {
        401: ("it needs a login", f"run `ossia mcp login {name}`, or give it a valid key as a header"),
        403: ("it refuses access", f"check what the key may do, or run `ossia mcp login {name}` for another one"),
        404: ("there is nothing at this address", "check the URL"),
        405: ("this address doesn't take MCP over streamable HTTP", "check the URL (one that ends in /sse is too old)"),
        406: ("this address doesn't take MCP over streamable HTTP", "check the URL"),
        429: ("it takes no more calls for now", f"try again {when}"),
        503: ("it is out of service", f"try again {when}"),
    }
    other = ("it failed", f"try again {when}") if status >= 500 else ("it refuses the request", "check the URL")
    what, todo = meant.get(status, other)
    words = next((said[key] for key in ("error_description", "message", "error") if isinstance(said.get(key), str)), "")
    phrase = f"HTTP {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
    quoted = f", and says {one_line(words, 100)!r}" if words else ""
    return f"{what} ({phrase}{quoted}): {todo}"


# -- logging in --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def oauth(
    config: McpConfig, logins: Logins, show: Callable[[str], None] | None
) -> AsyncIterator[OAuthClientProvider | None]:
    """The library's OAuth for a client of this server; None if there is nothing to log in with.

    `show` is given the address that the user opens to log in. Without it only stored keys are used, and refreshed.
    """
    if show is None:
        stored = "tokens" in logins.of(config)
        yield _Login(config, logins, "http://127.0.0.1/callback", None, asyncio.Queue()) if stored else None
        return
    logins.begin(config)  # a client is registered with the port that it listens on
    came: asyncio.Queue[dict[str, str]] = asyncio.Queue(_MAX_ANSWERS)
    server = await asyncio.start_server(
        lambda reader, writer: _take(reader, writer, came), "127.0.0.1", config.callback_port or 0
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        host = "localhost" if config.callback_port else "127.0.0.1"  # as clients are registered for other programs
        yield _Login(config, logins, f"http://{host}:{port}/callback", show, came)


class _Login(OAuthClientProvider):
    """The library's OAuth for one server, and the `TokenStorage` that it wants.

    `came` holds the queries with which the browser came back to `redirect`.
    """

    def __init__(
        self,
        config: McpConfig,
        logins: Logins,
        redirect: str,
        show: Callable[[str], None] | None,
        came: asyncio.Queue[dict[str, str]],
    ) -> None:
        metadata = OAuthClientMetadata(client_name="ossia", redirect_uris=[AnyUrl(redirect)])
        super().__init__(config.url or "", metadata, self, self._show_address, self._code)
        self._config, self._logins, self._show, self._came = config, logins, show, came

    async def get_tokens(self) -> OAuthToken | None:
        stored = self._logins.of(self._config).get("tokens")
        return OAuthToken.model_validate(stored) if stored else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        found = self.context.oauth_metadata
        known = found.model_dump(mode="json", exclude_none=True) if found else None
        ends = calculate_token_expiry(tokens.expires_in)
        keys = tokens.model_dump(mode="json", exclude_none=True)
        self._logins.keep(self._config, {"tokens": keys, "expires_at": ends, "metadata": known})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        stored, config = self._logins.of(self._config), self._config
        client = stored.get("client")
        if config.client_id is not None:
            issuer = (stored.get("metadata") or {}).get("issuer")  # no other service gets the secret
            client = {"client_id": config.client_id, "client_secret": config.client_secret, "issuer": issuer}
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._logins.keep(self._config, {"client": client_info.model_dump(mode="json", exclude_none=True)})

    async def _initialize(self) -> None:
        """Of stored keys, the library asks neither when they end nor where new ones come from."""
        await super()._initialize()
        stored = self._logins.of(self._config)
        self.context.token_expiry_time = stored.get("expires_at")
        if stored.get("metadata") and self.context.oauth_metadata is None:
            self.context.oauth_metadata = OAuthMetadata.model_validate(stored["metadata"])

    async def _perform_authorization(self) -> httpx2.Request:
        self._choose_method()
        return await super()._perform_authorization()

    async def _refresh_token(self) -> httpx2.Request:
        self._choose_method()
        return await super()._refresh_token()

    def _choose_method(self) -> None:
        """Choose the way to send a secret, where the registration is silent about it."""
        client, found = self.context.client_info, self.context.oauth_metadata
        if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
            known = (found and found.token_endpoint_auth_methods_supported) or [_BASIC]  # RFC 8414, section 2
            client.token_endpoint_auth_method = _BASIC if _BASIC in known else "client_secret_post"

    async def _show_address(self, url: str) -> None:
        if self._show is None:
            raise OAuthFlowError(f"run `ossia mcp login {self._config.name}`")
        await asyncio.to_thread(self._show, url)  # a browser may take its time to start

    async def _code(self) -> AuthorizationCodeResult:
        query = await self._came.get()
        if "code" not in query:
            raise OAuthFlowError(query.get("error_description") or query.get("error") or "it gave no code")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


async def _take(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, came: asyncio.Queue[dict[str, str]]
) -> None:
    """Answer the browser's request at the end of the login."""
    try:
        target = (await reader.readline()).decode("latin-1").split(" ")[1:2]
        address = urlsplit(target[0] if target else "")
        found = address.path == "/callback"
        if found and not came.full():
            came.put_nowait({key: values[0] for key, values in parse_qs(address.query).items()})
        status, body = ("200 OK", _PAGE) if found else ("404 Not Found", "")
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n{body}".encode())
        await writer.drain()
    except (OSError, ValueError):  # ValueError: a line too long, or no address
        pass
    finally:
        writer.close()
