"""What the settings allow to be reached over the network. Nothing is contacted: no name is looked up."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ossia.cli.doctor.finding import Finding
from ossia.cli.doctor.machine import Machine
from ossia.cli.words import count, listed

_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def network(machine: Machine) -> Iterator[Finding]:
    """The web: searching, private hosts, proxies."""
    from ossia.cli.runtime.browser import make_browser

    settings = machine.settings
    make_browser(settings, len)  # raises ExitError for what can't be used, its service's key among it
    searched = "is off (--web)" if settings.web is None else f"goes to {host_of(settings.web)}"
    private = listed(settings.allow_host) if settings.allow_host else "none"
    by_way = f", by way of {host_of(settings.proxy)}" if settings.proxy else ""
    text = f"searching the web {searched}; pages of any public host can be opened, of private ones: {private}{by_way}"
    yield Finding("network", "ok", text)
    given = next((name for name in _PROXIES if machine.environ.get(name)), None)
    if given and not settings.proxy:
        value = machine.environ[given]
        host, plain = host_of(value), "://" not in value or value.startswith("http://")
        text = f"{given} is set ({host}): downloads of models use it, but the browser doesn't"
        fix = "name it in ossia's settings too if there is no other way to the web"
        fix = fix if plain else f"{fix}: one for HTTP"
        yield Finding("network", "warning", text, fix, f"ossia config set proxy http://{host}" if plain else "")


def servers(machine: Machine) -> Iterator[Finding]:
    """The MCP servers: programs and addresses. They aren't connected to."""
    from ossia.cli.settings.mcp import all_configured

    found = [one.config for one in all_configured(machine.environ)]
    if not found:
        yield Finding("network", "ok", "no MCP servers are configured")
        return
    names = [f"{one.name} ({host_of(one.url) if one.url else 'a program'})" for one in found]
    yield Finding(
        "network",
        "ok",
        f"{count(len(found), 'MCP server')}: {listed(names)}",
        "see whether they answer",
        "ossia mcp test",
    )


def host_of(address: str) -> str:
    """Host and port of an address; of a name, the name. No user, no password, no path: secrets stand there."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "…"
    return f"{parts.hostname or '…'}{port}"
