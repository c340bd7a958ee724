"""The settings: the config file, servers of models and of MCP, the web. Nothing is contacted: no name is looked up."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from ossia.cli import paths
from ossia.cli.doctor.check import Finding, Machine, State
from ossia.cli.exits import ExitError
from ossia.cli.runtime.consent import is_agreed
from ossia.cli.settings.config import TABLES, config_path, load, nearest, resolve
from ossia.cli.settings.engines import address_of, engine_names, is_server
from ossia.cli.settings.table import SETTINGS
from ossia.cli.words import count, listed

_EDIT = "ossia config edit"
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def config(machine: Machine) -> Iterator[Finding]:
    """The file, its unknown keys, and misspelt variables."""
    path, known = config_path(machine.environ), [*SETTINGS, *TABLES]
    try:
        unknown = load(path, must_exist=False).keys() - {*known}
        resolved = None if unknown else resolve({}, environ=machine.environ)
    except ExitError as error:
        yield Finding("fault", str(error), "correct it: until then no command runs", _EDIT)
        return
    for key in sorted(unknown):
        text = f"{path}: {key!r} is not a setting{nearest(key.replace('-', '_'), known)}"
        yield Finding("fault", text, "correct it, or remove it", _EDIT)
    if resolved is None:
        return
    for warning in resolved.warnings:
        yield Finding("warning", warning, "unset the variable, or correct its name")
    there = [key for key, origin in resolved.origins.items() if origin != "default"]
    text = f"{path} can be read" if path.exists() else f"{path} isn't there, and needn't be"
    yield Finding("ok", f"{text}; set there or in the environment: {', '.join(there) or 'nothing'}")


def engines(machine: Machine) -> Iterator[Finding]:
    """The servers of `[engines.NAME]` and `engine`: addresses, keys, consent. None is asked."""
    from ossia.agent.errors import AddressUnusable, KeyUnusable

    used = machine.settings.engine
    for name in dict.fromkeys([*engine_names(machine.environ), *([used] if is_server(used) else [])]):
        state: State = "fault" if name == used else "warning"
        try:
            address = address_of(name, machine.environ)
        except KeyUnusable as error:
            fix = "set it where ossia is started: until then the engine can't be used"
            yield Finding(state, str(error), fix)
            continue
        except (AddressUnusable, ExitError) as error:
            yield Finding(state, str(error), "correct it: the engine can't be used", _EDIT)
            continue
        where = f"engine {name}" if name == address.name else "the engine"
        if address.ca is not None and not address.ca.is_file():
            yield Finding(state, f"{where}: ca: {address.ca} is no file", "correct it", _EDIT)
        elif not is_agreed(address, machine.settings):
            text = f"{where}: nobody has agreed yet that prompts go to {address.shown}"
            state = "warning" if name == used else "ok"
            fix = "run this in a terminal once, and answer yes"
            yield Finding(state, text, fix, f"ossia --engine {name}")
        else:
            key = f", with the key in {address.key_env}" if address.key_env else ""
            yield Finding("ok", f"{where}: prompts may go to {address.shown}{key}")


def network(machine: Machine) -> Iterator[Finding]:
    """The web: searching, private hosts, proxies."""
    from ossia.cli.runtime.assembly import web_of
    from ossia.tools.pages import browser

    settings = machine.settings
    browser(web_of(settings), paths.host(), len, private=True)  # raises for what can't be used, e.g. without a key
    searched = "is off (--web)" if settings.web is None else f"goes to {host_of(settings.web)}"
    private = listed(settings.allow_host) if settings.allow_host else "none"
    by_way = f", by way of {host_of(settings.proxy)}" if settings.proxy else ""
    text = f"searching the web {searched}; pages of any public host can be opened, of private ones: {private}{by_way}"
    yield Finding("ok", text)
    given = next((name for name in _PROXIES if machine.environ.get(name)), None)
    if given and not settings.proxy:
        value = machine.environ[given]
        host, plain = host_of(value), "://" not in value or value.startswith("http://")
        text = f"{given} is set ({host}): downloads of models use it, but the browser doesn't"
        fix = "name it in ossia's settings too if there is no other way to the web"
        fix = fix if plain else f"{fix}: one for HTTP"
        yield Finding("warning", text, fix, f"ossia config set proxy http://{host}" if plain else "")


def servers(machine: Machine) -> Iterator[Finding]:
    """The MCP servers: programs and addresses. They aren't connected to."""
    from ossia.cli.settings.mcp import configured_servers

    found = configured_servers(machine.environ)
    if not found:
        yield Finding("ok", "no MCP servers are configured")
        return
    names = [f"{one.name} ({host_of(one.url) if one.url else 'a program'})" for one in found]
    text = f"{count(len(found), 'MCP server')}: {listed(names)}"
    yield Finding("ok", text, "see whether they answer", "ossia mcp test")


def host_of(address: str) -> str:
    """Host and port of an address; of a name, the name. No user, no password, no path: secrets stand there."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "…"
    return f"{parts.hostname or '…'}{port}"
