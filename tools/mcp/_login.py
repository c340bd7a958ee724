"""Logging in to a server over HTTP: OAuth, which the library does; the keys are kept here, for the user alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ossia.tools.files import read_own, write_whole
from ossia.tools.mcp.config import McpConfig

_PAGE = "<!doctype html><title>ossia</title><p>You can close this page and go back to the terminal."
_BASIC = "client_secret_basic"
_MAX_ANSWERS = 4  # one for each time that a server asks for more rights


class Logins:
    """`DATA/mcp/logins.json`, mode 0600: server → its address, and what logging in there gave."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, config: McpConfig) -> dict[str, Any]:
        """What is kept for this server; empty if nothing is. Another address, or another client, gets no old keys."""
        kept = self._read().get(config.name)
        if not isinstance(kept, dict) or (kept.get("url"), kept.get("client_id")) != (config.url, config.client_id):
            return {}
        return dict(kept)

    def keep(self, config: McpConfig, what: dict[str, Any]) -> None:
        """Raises OSError."""
        whose = {"url": config.url, "client_id": config.client_id}
        self._write({**self._read(), config.name: {**self.of(config), **what, **whose}})

    def begin(self, config: McpConfig) -> None:
        """Keep nothing but the secret that the user typed. Raises OSError."""
        secret = self.of(config).get("client_secret")
        if self.forget(config.name) and secret:
            self.keep(config, {"client_secret": secret})

    def completed(self, config: McpConfig) -> McpConfig:
        """The config with the secret that the user typed, unless it has one."""
        secret = self.of(config).get("client_secret")
        if config.client_secret or not isinstance(secret, str):
            return config
        return replace(config, client_secret=secret, secrets=(*config.secrets, secret))

    def forget(self, name: str) -> bool:
        """Forget what is kept for a server. False: there was nothing. Raises OSError."""
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


@asynccontextmanager
async def oauth(config: McpConfig, logins: Logins, show: Callable[[str], None] | None) -> AsyncIterator[Any]:
    """The library's OAuth for a client of this server; None if there is nothing to log in with.

    `show` is given the address that the user opens to log in. Without it only what is kept is used, and refreshed.
    """
    if config.url is None or (show is None and "tokens" not in logins.of(config)):
        yield None
    elif show is None:
        yield _provider(config, logins, "http://127.0.0.1/callback", None, None)
    else:
        logins.begin(config)  # a client is registered with the port that it listens on
        came: asyncio.Queue[dict[str, str]] = asyncio.Queue(_MAX_ANSWERS)
        server = await asyncio.start_server(
            lambda reader, writer: _take(reader, writer, came), "127.0.0.1", config.callback_port or 0
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            host = "localhost" if config.callback_port else "127.0.0.1"  # as clients are registered for other programs
            yield _provider(config, logins, f"http://{host}:{port}/callback", show, came)


def _provider(
    config: McpConfig,
    logins: Logins,
    redirect: str,
    show: Callable[[str], None] | None,
    came: asyncio.Queue[dict[str, str]] | None,
) -> Any:
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
    from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
    from mcp.shared.auth_utils import calculate_token_expiry
    from pydantic import AnyUrl

    class Kept:
        """A `TokenStorage` of the library."""

        async def get_tokens(self) -> OAuthToken | None:
            kept = logins.of(config).get("tokens")
            return OAuthToken.model_validate(kept) if kept else None

        async def set_tokens(self, tokens: OAuthToken) -> None:
            found = provider.context.oauth_metadata
            known = found.model_dump(mode="json", exclude_none=True) if found else None
            ends = calculate_token_expiry(tokens.expires_in)
            kept = tokens.model_dump(mode="json", exclude_none=True)
            logins.keep(config, {"tokens": kept, "expires_at": ends, "metadata": known})

        async def get_client_info(self) -> OAuthClientInformationFull | None:
            kept = logins.of(config).get("client")
            if config.client_id is not None:
                issuer = (logins.of(config).get("metadata") or {}).get("issuer")  # no other service gets the secret
                kept = {"client_id": config.client_id, "client_secret": config.client_secret, "issuer": issuer}
            return OAuthClientInformationFull.model_validate(kept) if kept else None

        async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
            logins.keep(config, {"client": client_info.model_dump(mode="json", exclude_none=True)})

    class Provider(OAuthClientProvider):
        async def _initialize(self) -> None:
            """Of kept keys, the library asks neither when they end nor where new ones come from."""
            await super()._initialize()
            kept = logins.of(config)
            self.context.token_expiry_time = kept.get("expires_at")
            if kept.get("metadata") and self.context.oauth_metadata is None:
                self.context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])

        async def _perform_authorization(self) -> Any:
            self._choose_method()
            return await super()._perform_authorization()

        async def _refresh_token(self) -> Any:
            self._choose_method()
            return await super()._refresh_token()

        def _choose_method(self) -> None:
            """Choose how a secret is sent, where the registration doesn't say it."""
            client, found = self.context.client_info, self.context.oauth_metadata
            if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
                known = (found and found.token_endpoint_auth_methods_supported) or [_BASIC]  # RFC 8414, section 2
                client.token_endpoint_auth_method = _BASIC if _BASIC in known else "client_secret_post"

    async def show_address(url: str) -> None:
        if show is None:
            raise OAuthFlowError(f"run `ossia mcp login {config.name}`")
        await asyncio.to_thread(show, url)  # a browser may take its time to start

    async def answer() -> AuthorizationCodeResult:
        assert came is not None
        query = await came.get()
        if "code" not in query:
            raise OAuthFlowError(query.get("error_description") or query.get("error") or "it gave no code")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    metadata = OAuthClientMetadata(client_name="ossia", redirect_uris=[AnyUrl(redirect)])
    provider = Provider(config.url or "", metadata, Kept(), show_address, answer)
    return provider


async def _take(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, came: asyncio.Queue[dict[str, str]]
) -> None:
    """Answer a request of the browser that comes back from logging in."""
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
    except (OSError, ValueError):  # ValueError: a line too long, or an address that is none
        pass
    finally:
        writer.close()
