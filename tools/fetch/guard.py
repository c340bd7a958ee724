"""The rules on URLs and addresses: the one place that decides which may be reached.

`_network.py` asks `Guard` for the addresses of every connection, and connects to those and no others: a name is looked
up once, so it can't point elsewhere the second time.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

Resolver = Callable[[str, int], Sequence[str]]
"""Host and port → the addresses as text, in the order to try them. Raises OSError for an unknown name."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_URL_CHARS = 8192
_LOCAL_NAMES = (".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".corp", ".private",
                ".home.arpa")  # fmt: skip
_V6_GLOBAL = ipaddress.ip_network("2000::/3")
_V6_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("2001::/32", "2001:db8::/32", "2002::/16")))
"""Teredo and 6to4, with an embedded, perhaps private IPv4 address; documentation addresses."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Refused(Exception):
    """This URL or address isn't fetched. The message is a reason for the model, without looked-up addresses."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """An exact host, as URLs spell it after normalising, and a port: `HostPort("wiki.corp.test", 443)`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WebUrl:
    """The parts of an http(s) URL: `target` is its path and query, as sent.

    `host` is ASCII and lower-case, an IPv6 address without its brackets.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def host_port(self) -> HostPort:
        return HostPort(self.host, self.port)

    @property
    def host_header(self) -> str:
        return str(self.host_port).removesuffix(f":{_DEFAULT_PORTS[self.scheme]}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"


def parse_url(text: str) -> WebUrl:
    """The parts of an http or https URL; a fragment is dropped, blanks and what isn't ASCII are encoded.

    Raises `Refused` for another scheme, user names, control characters, an invalid host.

    >>> parse_url("https://bücher.test/ä?q=1#top")
    WebUrl(scheme='https', host='xn--bcher-kva.test', port=443, target='/%C3%A4?q=1')
    """
    text = text.strip(" ")
    if len(text) > _MAX_URL_CHARS:
        raise Refused(f"the URL is longer than {_MAX_URL_CHARS} characters")
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text):
        raise Refused("the URL holds a control character")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Refused("that isn't a URL") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise Refused("only http:// and https:// URLs can be opened")
    if "@" in parts.netloc or "\\" in text:
        raise Refused("URLs with a user name or a backslash aren't opened")
    if not parts.hostname or port == 0:
        raise Refused("the URL names no host")
    target = _encoded(parts.path or "/") + (f"?{_encoded(parts.query)}" if parts.query else "")
    return WebUrl(parts.scheme, normal_host(parts.hostname), port or _DEFAULT_PORTS[parts.scheme], target)


def normal_host(host: str) -> str:
    """A host normalised for comparison: ASCII, lower-case, no final dot, IPv6 addresses in their shortest form."""
    if ":" in host:
        try:
            if "%" in host:  # a zone: an address of this machine's networks
                raise ValueError
            return str(ipaddress.IPv6Address(host))
        except ValueError:
            raise Refused("the URL's host isn't an IPv6 address") from None
    if not host.isascii():
        import idna

        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            raise Refused("the URL's host isn't a name or an address") from None
    host = host.lower().removesuffix(".")
    if not re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?", host) or ".." in host:
        raise Refused("the URL's host isn't a name or an address")
    return host


def _encoded(text: str) -> str:
    try:
        return quote(text, safe="!#$%&'()*+,/:;=?@[]~")
    except UnicodeEncodeError:  # half of a surrogate pair
        raise Refused("the URL holds a character that has no encoding") from None


def parse_allow_host(text: str) -> tuple[HostPort, ...]:
    """The hosts that `--allow-host HOST[:PORT]` opens; without a port both 80 and 443. Raises `ValueError`, one line.

    >>> parse_allow_host("localhost:8080")
    (HostPort(host='localhost', port=8080),)
    """
    found = re.fullmatch(r"(?:\[([^\]]*:[^\]]*)\]|([^:\[\]]+))(?::(\d{1,5}))?", text.strip())
    host = (found[1] or found[2]) if found else text.strip()
    if not found and host.count(":") < 2:
        raise ValueError(f"must be HOST or HOST:PORT, as in intranet.example:8080 or [fd00::1]:80, not {text!r}")
    port = int(found[3]) if found and found[3] else None
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"{text!r}: the port must be from 1 to 65535")
    try:
        name = normal_host(host)
    except Refused:
        raise ValueError(f"{text!r}: {host!r} isn't a host name or an address") from None
    return tuple(HostPort(name, number) for number in ([port] if port else _DEFAULT_PORTS.values()))


def parse_proxy(text: str) -> WebUrl:
    """The user's proxy, `"http://proxy.corp.test:3128"`. Raises `ValueError`; a user name in it isn't supported."""
    try:
        url = parse_url(text)
    except Refused as error:
        raise ValueError(f"the proxy: {error}") from None  # without the URL: it may hold a password
    if url.scheme != "http":
        raise ValueError(f"the proxy must be an http:// URL, not {url}: https sites are tunnelled through it")
    return url


def is_public(address: str) -> bool:
    """True for an address of the public internet, not of this machine, its networks or a special purpose.

    Narrower than `ipaddress.is_global`, which (Python 3.11 to 3.13) lets 224.0.0.1, ::127.0.0.1, fec0::1,
    64:ff9b::7f00:1 and more through. False for what isn't an address.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip in _NAT64:
            ip = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        else:
            return ip in _V6_GLOBAL and ip.is_global and not any(ip in network for network in _V6_NOT_PUBLIC)
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def is_local(host: str) -> bool:
    """True for a local host, by its spelling alone: a private address (also `127.1`), `localhost`, `nas.local`."""
    literal = as_address(host)
    if literal:
        return not is_public(literal)
    return "." not in host or host.endswith(_LOCAL_NAMES)


def resolve(host: str, port: int) -> Sequence[str]:
    """The system's addresses for a name, each once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True)
class Guard:
    """Rules on hosts. `allow` are hosts named by the user, private ones too."""

    allow: frozenset[HostPort] = frozenset()
    resolver: Resolver = resolve

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host. Raises `Refused` if any of them isn't public.

        A name with a public and a private address is how a page reaches a router.
        """
        try:
            found = self.resolver(host, port)
        except (OSError, UnicodeError):
            raise Refused(f"the name {host} isn't known") from None
        if not found:
            raise Refused(f"the name {host} has no address")
        if HostPort(host, port) not in self.allow and not all(map(is_public, found)):
            raise _not_public(host, port)
        return found

    def check_unresolved(self, host: str, port: int) -> None:
        """Raises `Refused` for private addresses in any spelling, and local names: a proxy looks the others up."""
        if HostPort(host, port) not in self.allow and is_local(host):
            raise _not_public(host, port)


def _not_public(host: str, port: int) -> Refused:
    return Refused(
        f"{host} isn't on the public internet; ossia started with --allow-host {HostPort(host, port)} opens it"
    )


def as_address(host: str) -> str:
    """The address spelled by a host (also as `0x7f.1`); empty for a name."""
    if ":" in host:
        return host
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return ""
