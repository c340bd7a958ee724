"""Keeps the help texts in the README what the command prints: `python -m tests.readme` writes them.

A block of the README that begins with `$ ossia … --help` holds the output of that command.
"""

from __future__ import annotations

import re

from tests.support.command import ROOT, ossia_text

PAGE = ROOT / "README.md"

_BLOCK = re.compile(r"^```console\n\$ ossia (?P<args>[^\n]*--help)\n.*?^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The help commands that `text` shows, e.g. `["run --help"]`."""
    return [match["args"] for match in _BLOCK.finditer(text)]


def filled(text: str) -> str:
    """`text` with each help block as the command prints it now."""
    return _BLOCK.sub(lambda match: f"```console\n$ ossia {match['args']}\n{_help(match['args'])}```", text)


def _help(args: str) -> str:
    return ossia_text(*args.split(), env={"COLUMNS": "100"}).stdout


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.name}")
