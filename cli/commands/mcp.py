"""`ossia mcp`: servers with tools for the model."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ossia.cli import paths
from ossia.cli.commands import exit_error, group, writing
from ossia.cli.streams import say
from ossia.cli.terminal.keyboard import plain_keys

if TYPE_CHECKING:
    from ossia.tools.approval.trust import Offer
    from ossia.tools.mcp.config import McpConfig
    from ossia.tools.mcp.servers import McpServers
    from ossia.tools.mcp.status import McpStatus

_NONE = "no MCP server is configured; to add one: ossia mcp add NAME -- COMMAND"

_LOGIN_TIMEOUT_S = 300.0
_MAX_URL_CHARS = 8_000

_OF_FOLDERS = "servers of a folder you trust count only in that folder"

app = group("Configure MCP servers, which offer tools.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its tools are called functions.NAME__TOOL.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND [ARG]...]", help="The program to start.")
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="A server's address, instead of a program.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An environment variable for it. Repeatable.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="HEADER", help="An HTTP header for its address: 'KEY: VALUE' or KEY=VALUE. Repeatable."),
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The ID of a client that you registered by hand, if it needs one.")
    ] = None,
    client_secret: Annotated[
        str | None, typer.Option(metavar="'${VAR}'", help="The client's secret. [default: `mcp login` asks for it]")
    ] = None,
    callback_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Make the login end at http://localhost:PORT/callback.")
    ] = None,
    cwd: Annotated[str | None, typer.Option(metavar="DIR", help="The program's folder. [default: your home]")] = None,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Seconds per call. [default: 60]")] = None,
) -> None:
    """Add a server to the mcp.json beside the config file.

    Write a secret as '${VAR}', to be read from the environment: --env TOKEN='${MY_TOKEN}'. Paths of existing files
    are stored in full, since the server may start in another folder.
    """
    from ossia.cli.settings.mcp import add_server, mcp_file

    if bool(command) == bool(url):
        raise exit_error(f"mcp add: give -- COMMAND or --url URL{', not both' if url else ''}")
    entry: dict[str, object] = {}
    if command:
        entry |= {"command": _found(command[0]), "args": [_found(argument) for argument in command[1:]]}
    given = {"url": url, "env": _pairs(env, "--env"), "headers": _pairs(header, "--header"), "cwd": _folder(cwd)}
    given |= {"client_id": client_id, "client_secret": client_secret}
    entry |= {key: value for key, value in given.items() if value}
    numbers = {"callback_port": callback_port, "timeout_s": timeout}
    entry |= {key: value for key, value in numbers.items() if value is not None}
    path = mcp_file(os.environ)
    with writing(path):
        add_server(os.environ, name, entry)
    say(f"{path}: {name} added: `ossia mcp test {name}` shows its tools and asks")


@app.command(name="list")
def list_() -> None:
    """List the configured servers and their config files."""
    from ossia.cli.settings.mcp import configured_servers
    from ossia.cli.visible import seen_line

    configured = configured_servers(os.environ)
    if not configured:
        print(f"ossia: {_NONE}", file=sys.stderr)
    cells = ((one.name, "on" if one.enabled else "off", one.target, one.file) for one in configured)
    rows = [[seen_line(cell) for cell in row] for row in cells]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]]))


@app.command()
def rm(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Remove a server from the mcp.json, with its accepted tools and its key."""
    from ossia.cli.settings.mcp import mcp_file, remove_server

    path = mcp_file(os.environ)
    with writing(path):
        remove_server(os.environ, name)
    servers = _servers(())
    servers.pins.forget(name)
    with writing(paths.data_dir()):
        servers.logins.forget(name)
    say(f"{path}: {name} removed")


@app.command()
@plain_keys()
def login(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Log in to a server over HTTP, in the browser. Only you can read the stored key.

    If the config has a client ID but no secret, asks for the secret first and stores it the same way.
    """
    from ossia.cli.settings.mcp import configured_servers
    from ossia.cli.visible import seen_line
    from ossia.tools.mcp.config import expanded

    known = {config.name: config for config in configured_servers(os.environ, folder=_trusted_here())}
    config = known.get(name)
    if config is None or config.url is None:
        raise exit_error(f"mcp login: {name!r} isn't a server with an address (see `ossia mcp list`)")

    def show(url: str) -> None:
        print(f"ossia: open this page to log in to {name}: {seen_line(url, _MAX_URL_CHARS)}", file=sys.stderr)
        if sys.stderr.isatty() and url.startswith(("https://", "http://")):
            import webbrowser

            from ossia.tools.import_path import environment_for

            os.environ["PATH"] = environment_for(None, os.environ).get("PATH", os.defpath)  # it has no other way
            webbrowser.open(url)

    config = expanded(config, os.environ)
    servers = _servers([config], connect_timeout_s=_LOGIN_TIMEOUT_S, show=show)
    if secret := _typed_secret(config):
        with writing(paths.data_dir()):
            servers.logins.keep(config, {"client_secret": secret})
    try:
        (status,) = servers.connect()
        is_kept = "tokens" in servers.logins.of(config)
    finally:
        servers.close()
    if status.error is not None:
        raise exit_error(f"mcp {name}: {status.error}", "ENGINE")
    say(f"{name}: logged in" if is_kept else f"{name}: connected, and needs no login")


@app.command()
def logout(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Delete the key that `ossia mcp login` stored. The server isn't notified."""
    with writing(paths.data_dir()):
        was_kept = _servers(()).logins.forget(name)
    say(f"{name}: logged out" if was_kept else f"{name}: not logged in")


@app.command()
@plain_keys()
def test(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="[default: all]")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Accept new and changed tools without asking.")] = False,
) -> None:
    """Connect to servers, show their tools as the model reads them, and ask whether you accept them.

    Until you accept a new server's tools, their descriptions count as text from outside. Tools that are added or
    changed later stay off until you accept them. To see the servers of a trusted folder, run this in that folder.
    """
    from ossia.cli.runtime.progress import LiveLine
    from ossia.cli.settings.mcp import configured_servers
    from ossia.cli.visible import seen_line

    known = configured_servers(os.environ, folder=_trusted_here())
    configs = [config for config in known if name in (None, config.name)]
    if not configs:
        names = ", ".join(config.name for config in known)
        unknown = f"no MCP server {name!r} is configured (configured: {names}); {_OF_FOLDERS}"
        raise exit_error(unknown if known else f"{_NONE}; {_OF_FOLDERS}")
    servers = _servers(configs)
    line = LiveLine(sys.stderr, shown=sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    line.set(f"connecting to {', '.join(config.name for config in configs if config.enabled)}")
    try:
        statuses = servers.connect(waiting=lambda _: line.tick())
        line.erase()
        for status in statuses:
            print(*map(seen_line, _described(status)), sep="\n")
            _settle(servers, status, accept=accept)
    finally:
        line.erase()
        servers.close()
    failed = [status for status in statuses if status.error is not None]
    if failed:
        raise exit_error("; ".join(f"mcp {one.name}: {one.error}" for one in failed), "ENGINE")
    off = [config.name for config in configs if not config.enabled]
    if off:
        print(f"ossia: switched off in the config: {', '.join(off)}", file=sys.stderr)


def _servers(configs: Sequence[McpConfig], **more: Any) -> McpServers:
    from ossia.tools.mcp.servers import McpServers

    return McpServers(configs, data_dir=paths.data_dir(), log_dir=paths.log_file().parent, environ=os.environ, **more)


def _typed_secret(config: McpConfig) -> str:
    """The secret of the client, typed without echo; "" if it has none, or there is no terminal to ask at."""
    if config.client_secret or not config.client_id or config.client_id.startswith("https://"):
        return ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ""
    from getpass import getpass

    from ossia.cli.visible import seen_line

    whose = f"ossia: secret of the client {seen_line(config.client_id)}"
    return getpass(f"{whose} (Enter: none, or the stored one): ").strip()


def _trusted_here() -> Offer | None:
    """The offer of the current folder, if the user trusts it; else None."""
    from ossia.tools.approval.trust import TrustStore

    return TrustStore(paths.data_dir()).content(paths.here())[1]


def _settle(servers: McpServers, status: McpStatus, *, accept: bool) -> None:
    """Accept the tools just shown, if the user agrees."""
    from ossia.cli.runtime.consent import confirmed
    from ossia.cli.words import count

    fresh = [tool for tool in status.tools if tool.state != "accepted"]
    if not fresh:
        return
    what = f"{count(len(fresh), 'tool')} of {status.name}"
    if accept or (sys.stdin.isatty() and sys.stdout.isatty() and confirmed(f"Accept {what} as shown?")):
        servers.accept(status.name)
        say(f"accepted: {what}")
    else:
        is_new = all(tool.is_on for tool in fresh)
        state = f"the descriptions of {status.name}'s tools count as text from outside" if is_new else f"{what} off"
        say(f"not accepted: {state} until `ossia mcp test {status.name} --accept`")


_MARKS = {"accepted": "", "first": " (NEW)", "new": " (NEW: off)", "changed": " (CHANGED: off)"}


def _described(status: McpStatus) -> list[str]:
    """A server for a person: how it was reached, and all that the model reads of each tool. Raw outside text."""
    from ossia.cli.words import count
    from ossia.harmony.typescript import typescript

    if status.error is not None:
        return [f"{status.name}: {status.target}: failed after {status.ms / 1000:.1f} s"]
    more = ", and more that are left out" if status.more_tools else ""
    tools, took = count(len(status.tools), "tool"), f"{status.ms / 1000:.1f} s"
    lines = [f"{status.name}: {status.title}, connected in {took}, {tools}{more}"]
    for tool in status.tools:
        lines.append(f"  {tool.offered}{_MARKS[tool.state]}{', read-only, it says' if tool.read_only else ''}")
        lines.append(f"      {tool.description or '(no description)'}")
        if tool.parameters:
            lines += [f"      {line}" for line in typescript(tool.parameters).split("\n")]
    lines += [f"  {name} is left out: {why}" for name, why in status.left_out]
    return lines


def _found(argument: str) -> str:
    """The argument; made absolute if it is an existing path: `./server.py`, `.`, `server.py`."""
    path = Path(argument)
    is_path = "/" in argument or argument in (".", "..") or (path.suffix and path.is_file())
    if argument.startswith("-") or not is_path or path.is_absolute() or not path.exists():
        return argument
    return str(path.absolute())


def _folder(cwd: str | None) -> str | None:
    """The folder in full, since ossia may be started elsewhere. Raises `ExitError` for a missing one."""
    if cwd is None or "${" in cwd:
        return cwd
    if not cwd or not paths.is_folder(Path(cwd)):
        raise exit_error(f"--cwd {cwd}: not a folder")
    return str(Path(cwd).absolute())


def _pairs(texts: list[str] | None, flag: str) -> dict[str, str]:
    """`["KEY=VALUE"]` as a table; a header may also be `Key: value`."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        separator = ":" if flag == "--header" and ":" in text.partition("=")[0] else "="
        key, found, value = text.partition(separator)
        if not found or not key.strip():
            forms = "'KEY: VALUE' or KEY=VALUE" if flag == "--header" else "KEY=VALUE"
            raise typer.BadParameter(f"must be {forms}, not {text!r}", param_hint=flag)
        pairs[key.strip()] = value.strip() if flag == "--header" else value
    return pairs
