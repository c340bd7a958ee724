"""Keeps the tables of the docs what they are: `python -m tests.readme`.

The table of commands in docs/chat.md, the one of all settings in docs/configuration.md, and those in
docs/confinement.md of what isn't confined, stand between two comments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import ROOT

if TYPE_CHECKING:
    from ossia.cli.chat.commands.table import Command
    from ossia.tools.sandbox.job import Runs

CHAT_PAGE, CONFINEMENT_PAGE = ROOT / "docs" / "chat.md", ROOT / "docs" / "confinement.md"
SETTINGS_PAGE = ROOT / "docs" / "configuration.md"
_COMMANDS, _END = "<!-- commands -->", "<!-- end -->"


def with_commands(text: str) -> str:
    """`text` with the table of the chat's commands between `<!-- commands -->` and `<!-- end -->`."""
    from ossia.cli.chat.commands.table import GROUPS

    rows = ["| command | |", "|---|---|"]
    rows += [_row(one) for _, group in GROUPS for one in group]
    return _between(text, _COMMANDS, rows)


def with_settings(text: str) -> str:
    """`text` with the table of all settings between `<!-- settings -->` and `<!-- end -->`."""
    from ossia.cli.app import command
    from ossia.cli.settings.table import SETTINGS

    flags = {param.name: sorted(param.opts, key=len) for param in command.params}
    rows = ["| key, variable | flag | default | |", "|---|---|---|---|"]
    for key, one in SETTINGS.items():
        about, _, default = one.flag.help.removesuffix("]").partition(" [default: ")
        *short, long = flags[key]
        flag = ", ".join(f"`{name}`" for name in (*short, f"{long} {one.flag.metavar or ''}".rstrip()))
        cells = (f"`{key}`, `{one.variable}`", flag, default or _default(one.default), about)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return _between(text, "<!-- settings -->", rows)


def _default(value: object) -> str:
    return "" if value in (None, ()) else f"`{str(value).lower()}`"


def with_gaps(text: str) -> str:
    """`text` with the tables of what each way to confine doesn't hold, of python and of the shell."""
    for runs in ("python", "shell"):
        text = _between(text, f"<!-- gaps of {runs} -->", _gaps(runs))
    return text


def _gaps(runs: Runs) -> list[str]:
    from ossia.tools.sandbox.account import gaps, gaps_on_linux

    counted = "([how it is counted](#how-memory-is-counted))"
    ways = ("bwrap", "landlock", "seatbelt")
    found = [gaps_on_linux(way, runs, abi=5, memory_is_held=counted, as_root=True) for way in ways[:2]]
    found.append(gaps(ways[2], runs))
    lines = dict.fromkeys(line for lacks in found for line in lacks)
    rows = [f"| {line} | {' | '.join('×' if line in lacks else '' for lacks in found)} |" for line in lines]
    return [f"| not confined | {' | '.join(ways)} |", "|---|---|---|---|", *rows]


def _between(text: str, mark: str, rows: list[str]) -> str:
    head, _, rest = text.partition(mark)
    return "\n".join([f"{head}{mark}", *rows, f"{_END}{rest.partition(_END)[2]}"])


def _row(one: Command) -> str:
    usage = f"/{one.name} {one.usage}".rstrip().replace("|", "\\|")
    return f"| `{usage}` | {one.help.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    for page, of in (
        (CHAT_PAGE, with_commands),
        (SETTINGS_PAGE, with_settings),
        (CONFINEMENT_PAGE, with_gaps),
    ):
        page.write_text(of(page.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {page.name}")
