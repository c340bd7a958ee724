"""The first look at a request, by its headers alone: its host, where it comes from, its token.

A web page that the user opens can send requests to this machine, and by a name that it lets point here (DNS rebinding)
read the answers: so the host must be one of ours, and pages' origins are refused. Other users of the machine, and
commands that were given network, reach the port as well: so what may change anything needs the token.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from ossia.cli.serve.faults import Fault

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BEARER = "bearer "


def is_loopback(host: str) -> bool:
    """True for `localhost`, `127.0.0.1`, `::1` and the like: only this machine reaches it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Refuses requests from elsewhere. `host`: the address that is listened on; `token` None: none is needed."""

    def __init__(self, host: str, token: str | None) -> None:
        self._token = token
        # All addresses of this machine: it may have any name. The token, which is needed there, a page doesn't have.
        self._any = host in ("0.0.0.0", "::")
        self._hosts = {host.lower(), *_LOOPBACK}

    def check(self, headers: Iterable[tuple[bytes, bytes]], *, private: bool) -> None:
        """Raise Fault for a request with these headers. `private`: it needs the token."""
        by_name: dict[str, list[str]] = {}
        for name, value in headers:
            by_name.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
        hosts = by_name.get("host", [])
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise Fault("the Host header names another machine: use the address that `ossia serve` printed", status=403)
        if "origin" in by_name:
            raise Fault("requests of web pages are refused: call it from a program", status=403)
        if private and self._token is not None:
            self._check_token(by_name)

    def _is_ours(self, value: str) -> bool:
        try:
            host = urlsplit(f"//{value}").hostname or ""
            urlsplit(f"//{value}").port  # noqa: B018 - it raises for a bad one
        except ValueError:
            return False
        return host in self._hosts or (self._any and bool(host))

    def _check_token(self, headers: Mapping[str, list[str]]) -> None:
        assert self._token is not None
        given = [value[len(_BEARER):].strip() for value in headers.get("authorization", ())
                 if value.lower().startswith(_BEARER)]  # fmt: skip
        given += headers.get("x-api-key", [])
        known = self._token.encode()
        if not any(hmac.compare_digest(one.encode("latin-1"), known) for one in given):
            wrong = "the token is wrong" if given else "a token is needed, as in `Authorization: Bearer TOKEN`"
            how = {"www-authenticate": "Bearer"}
            shown = f"{wrong}: `ossia serve … --print curl`, with the server's own flags, shows it"
            raise Fault(shown, status=401, code="invalid_api_key", headers=how)
