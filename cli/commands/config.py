"""`ossia config`: the settings and their origins."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from typing import Annotated

import typer

from ossia.cli.commands import exit_error, group, writing
from ossia.cli.settings.table import SETTINGS
from ossia.cli.streams import say


def show() -> None:
    """Print each setting and its origin.

    The output is a valid config file: `ossia config show > config.toml` is a start.
    """
    from ossia.cli.settings.config import resolve

    resolved = resolve({}, environ=os.environ)
    lines = {key: _line(key, getattr(resolved.settings, key)) for key in SETTINGS}
    width = max(map(len, lines.values()))
    for key, line in lines.items():
        print(f"{line:<{width}}  # {resolved.origins[key]}")
    if resolved.approvals:
        print("\n[approvals]")
    for rule, action in resolved.approvals:
        print(f"{_toml(rule)} = {_toml(action)}")
    for line in _servers():
        print(line)
    for warning in resolved.warnings:
        say(f"warning: {warning}")


app = group("Show the settings and their origins, or change them.", alone=show)
app.command()(show)


@app.command()
def get(key: Annotated[str, typer.Argument(metavar="KEY", help="A setting, or approvals.RULE.")]) -> None:
    """Print one setting and its origin."""
    from ossia.cli.settings.config import nearest, resolve

    resolved, name = resolve({}, environ=os.environ), key.removeprefix("--").replace("-", "_")
    rules = {f"approvals.{rule}": action for rule, action in resolved.approvals}
    if name in SETTINGS:
        print(f"{_line(name, getattr(resolved.settings, name))}  # {resolved.origins[name]}")
    elif key in rules:
        print(f"{_toml(key.removeprefix('approvals.'))} = {_toml(rules[key])}  # [approvals]")
    else:
        raise exit_error(f"{key!r} is not a setting{nearest(name, [*SETTINGS, *rules])}")


@app.command()
def path() -> None:
    """Print the path of the config file, whether it exists or not."""
    from ossia.cli.settings.config import config_path

    print(config_path(os.environ))


@app.command(name="set")
def set_(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A setting, or approvals.RULE.")],
    value: Annotated[list[str], typer.Argument(metavar="VALUE...", help="Its value; several for a list.")],
) -> None:
    """Write a setting into the config file. Its comments stay.

    `ossia config set effort high`, `ossia config set 'approvals.container.exec:git status*' auto`
    """
    from ossia.cli.settings.config import config_path
    from ossia.cli.settings.config_file import set_value

    with writing(config_path(os.environ)) as path:
        stored = set_value(os.environ, key, value)
    key = key.removeprefix("--").replace("-", "_") if "." not in key else key
    one = SETTINGS.get(key)
    wins = f"; {one.variable} is set and overrides it" if one and os.environ.get(one.variable) else ""
    say(f"{path}: {key} = {_toml(stored)}{wins}")


@app.command()
def unset(key: Annotated[str, typer.Argument(metavar="KEY", help="A setting, or approvals.RULE.")]) -> None:
    """Remove a setting from the config file: its default applies again."""
    from ossia.cli.settings.config import config_path
    from ossia.cli.settings.config_file import unset_value

    with writing(config_path(os.environ)) as path:
        unset_value(os.environ, key)
    say(f"{path}: {key} is no longer set")


@app.command()
def edit() -> None:
    """Open the config file in your editor ($VISUAL, $EDITOR), and check it afterwards."""
    from ossia.cli.settings.config import config_path, resolve
    from ossia.cli.settings.config_file import write_template
    from ossia.cli.terminal.input.external import EditorFailed, edit_file
    from ossia.tools.import_path import environment_for

    with writing(config_path(os.environ)) as path:
        write_template(path)
    try:
        edit_file(path, environ=environment_for(None, os.environ))
    except EditorFailed as error:
        raise exit_error(str(error), "FAILED") from None
    resolve({}, environ={"OSSIA_CONFIG": str(path)})


def _line(key: str, value: object) -> str:
    return f"# {key} is not set" if value is None else f"{key} = {_toml(value)}"


def _servers() -> list[str]:
    """The engines and the MCP servers as tables, servers of the file beside the config as comments.

    Raises ConfigError, `McpConfigInvalid`.
    """
    from ossia.cli.settings.config import ENGINES_TABLE, config_path
    from ossia.cli.settings.engines import engine_entries
    from ossia.cli.settings.mcp import configured_servers, mcp_table

    config, lines = config_path(os.environ), list[str]()
    for engine, entry in engine_entries(os.environ).items():
        lines += _table(f"{ENGINES_TABLE}.{_key(engine)}", entry)
    for one in configured_servers(os.environ):
        name = f"mcpServers.{_key(one.name)}"
        if one.file == str(config):
            lines += _table(name, mcp_table(config)[one.name])
        else:
            lines += ["", f"# {name} is in {one.file}"]
    return lines


def _table(name: str, entry: Mapping[str, object]) -> list[str]:
    return ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in entry.items())]


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    """The value in TOML. JSON's strings, numbers and lists are valid TOML too, except for DEL, which TOML forbids."""
    import json

    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
