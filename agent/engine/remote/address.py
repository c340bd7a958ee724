"""The address of an engine's server, and the key for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from ossia.agent.errors import AddressUnusable, KeyUnusable

_FIELDS = ("url", "key_env", "ca", "context", "model")
_API = re.compile(r"/v1(/chat/completions|/responses|/completions|/models)?\Z")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\Z")
"""The form of a variable's name. Whoever takes `key_env` for the key itself writes something else there."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server. `url` has no slash and no `/v1` at its end: `https://gpu.example:8000`; paths are put behind it.

    `name` is what the user calls it: `team`, or the host. `key` is sent to this host only, and never shown; `key_env`
    is the variable that it came from ("": there is no key). `ca` is a file of certificates to trust in place of the
    system's. `context` is the most tokens to use (None: as many as the server says), `model` the server's name for the
    model to ask (None: a vLLM's first; of a server that takes no ids, its only model or its only gpt-oss).
    """

    url: str
    name: str
    key: str | None = field(default=None, repr=False)
    key_env: str = ""
    ca: Path | None = None
    context: int | None = None
    model: str | None = None

    @property
    def host(self) -> str:
        """`gpu.example`, `127.0.0.1`, `::1`."""
        return urlsplit(self.url).hostname or ""

    @property
    def place(self) -> str:
        """The host with its port, if that was given: `gpu.example:8000`, `[::1]:8080`."""
        return urlsplit(self.url).netloc

    @property
    def shown(self) -> str:
        """`place`, with what people should know of it: `gpu.example:8000 (unencrypted)`."""
        return f"{self.place} (unencrypted)" if self.url.startswith("http:") and not self.is_local else self.place

    @property
    def is_local(self) -> bool:
        """True for this machine: a loopback address, by number or, with TLS, as `localhost`."""
        return _is_loopback(self.host)


def parse_url(
    text: str, *, name: str = "", key: str | None = None, where: str = "--engine", key_env: str = ""
) -> Address:
    """The address that a URL names. `name` "": that of the host.

        parse_url("http://127.0.0.1:8080/v1")    # Address("http://127.0.0.1:8080", "127.0.0.1:8080")

    Raises AddressUnusable, in whose message no key stands.
    """
    if "@" in text:
        raise AddressUnusable(
            f"{where}: no name or password may stand in the address: put a key into a variable, and name that as "
            "key_env in [engines.NAME]"
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        httpx2.URL(text)  # it refuses more: 999.1.1.1, what is too long
    except (ValueError, httpx2.InvalidURL) as error:
        raise AddressUnusable(f"{where}: must be like http://HOST:PORT: {str(error)[:100]}") from None
    fine = text.isascii() and text.isprintable() and not set(' "<>\\^`{|}') & set(text)
    fine = fine and parts.netloc.partition("]")[2][:1] in ("", ":")
    if parts.scheme not in ("http", "https") or not host or not fine or parts.query or parts.fragment:
        shown = text.partition("?")[0].partition("#")[0]
        raise AddressUnusable(f"{where}: must be like http://HOST:PORT or https://HOST, not {shown!r:.100}")
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise KeyUnusable(f"{where}: the key in {key_env or 'the variable'} must be one line of ASCII: set it anew")
    if key is not None and parts.scheme == "http" and not _is_loopback(host):
        raise AddressUnusable(f"{where}: a key isn't sent to {host} unencrypted: use https://, or leave key_env out")
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None else ""
    name = name or place
    if host == "localhost" and parts.scheme == "http":  # by number: a resolver may say that it is another machine
        place = place.replace("localhost", "127.0.0.1")
    url = f"{parts.scheme}://{place}{_API.sub('', parts.path.rstrip('/'))}"
    return Address(url, name, key, key_env)


def parse_engine(name: str, entry: object, where: str, environ: Mapping[str, str]) -> Address:
    """The address in an entry `[engines.NAME]` of the config file; `environ` has the key.

        parse_engine("team", {"url": "https://gpu.example", "key_env": "TEAM_KEY"}, "config.toml: engines.team", …)

    `url` is needed; `key_env` names a variable; `ca` a file; `context` is a number of tokens; `model` a name.
    Raises AddressUnusable.
    """
    if not isinstance(entry, Mapping):
        raise AddressUnusable(f'{where}: must be a table with url = "http://HOST:PORT", not {entry!r:.60}')
    unknown = [key for key in entry if key not in _FIELDS]
    if unknown:
        raise AddressUnusable(f"{where}: {unknown[0]!r} isn't known there, only {', '.join(_FIELDS)}")
    for field_name in ("url", "key_env", "ca", "model"):
        value = entry.get(field_name, "-")
        if not isinstance(value, str) or not value:
            raise AddressUnusable(f"{where}: {field_name} must be a string in quotes, and not empty: correct it")
    context = entry.get("context")
    if context is not None and (not isinstance(context, int) or isinstance(context, bool) or context < 1):
        raise AddressUnusable(f"{where}: context must be a number of tokens above 0, not {context!r:.60}")
    if "url" not in entry:
        raise AddressUnusable(f'{where}: needs url = "http://HOST:PORT"')
    variable = entry.get("key_env", "")
    key = environ.get(variable) or None
    if variable and key is None:
        if not _VARIABLE.match(variable):
            raise AddressUnusable(f"{where}: the variable that key_env names isn't set: export it with the key in it")
        raise KeyUnusable(f"{where}: {variable}, which key_env names, isn't set: export it with the key in it")
    address = parse_url(entry["url"], name=name, key=key, where=where, key_env=variable)
    ca = Path(entry["ca"]) if "ca" in entry else None
    return Address(address.url, name, key, variable, ca, context, entry.get("model"))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
