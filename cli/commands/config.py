"""`ossia config`: what is set, and where it came from."""

from __future__ import annotations

import os
import re
import sys

from cli.commands import group

app = group("Show the settings and where each one came from.")


@app.command()
def show() -> None:
    """Print each setting and where it came from.

    The output is a valid config file: `ossia config show > config.toml` is a start.
    """
    from cli.settings.config import resolve
    from cli.settings.table import SETTINGS

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
        print(f"ossia: warning: {warning}", file=sys.stderr)


@app.command()
def path() -> None:
    """Print the path of the config file, whether it exists or not."""
    from cli.settings.config import config_path

    print(config_path(os.environ))


def _line(key: str, value: object) -> str:
    return f"# {key} is not set" if value is None else f"{key} = {_toml(value)}"


def _servers() -> list[str]:
    """The MCP servers as tables, those of the file beside the config as comments. Raises `McpConfigInvalid`."""
    from cli.settings.config import config_path
    from cli.settings.mcp import all_configured, mcp_table

    config, lines = config_path(os.environ), list[str]()
    for one in all_configured(os.environ):
        name = f"mcpServers.{_key(one.config.name)}"
        if one.path == config:
            entry = mcp_table(config)[one.config.name]
            lines += ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in entry.items())]
        else:
            lines += ["", f"# {name} is in {one.path}"]
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: object) -> str:
    """The value in TOML. JSON's strings, numbers and lists are valid TOML too, except for DEL, which TOML forbids."""
    import json

    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_toml(inner)}' for key, inner in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
