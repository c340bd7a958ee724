"""Keeps the help texts in the README, and the commands in docs/chat.md, what they are: `python -m tests.readme`.

A block of the README that begins with `$ ossia … --help` holds the output of that command. The table of commands stands
between two comments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.command import ROOT, ossia_text

if TYPE_CHECKING:
    from cli.chat.commands.table import Command

PAGE, CHAT_PAGE = ROOT / "README.md", ROOT / "docs" / "chat.md"
_COMMANDS, _END = "<!-- commands -->", "<!-- end -->"

_BLOCK = re.compile(r"^```console\n\$ ossia (?P<args>[^\n]*--help)\n.*?^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The help commands that `text` shows, e.g. `["run --help"]`."""
    return [match["args"] for match in _BLOCK.finditer(text)]


def filled(text: str) -> str:
    """`text` with each help block as the command prints it now."""
    return _BLOCK.sub(lambda match: f"```console\n$ ossia {match['args']}\n{_help(match['args'])}```", text)


def _help(args: str) -> str:
    return ossia_text(*args.split(), env={"COLUMNS": "100"}).stdout


def with_commands(text: str) -> str:
    """`text` with the table of the chat's commands between `<!-- commands -->` and `<!-- end -->`."""
    from cli.chat.commands.table import GROUPS

    rows = ["| command | |", "|---|---|"]
    rows += [_row(one) for _, group in GROUPS for one in group]
    table = "\n".join(rows)
    head, _, rest = text.partition(_COMMANDS)
    return f"{head}{_COMMANDS}\n{table}\n{_END}{rest.partition(_END)[2]}"


def _row(one: Command) -> str:
    usage = f"/{one.name} {one.usage}".rstrip().replace("|", "\\|")
    return f"| `{usage}` | {one.help.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    CHAT_PAGE.write_text(with_commands(CHAT_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.name} and {CHAT_PAGE.name}")
