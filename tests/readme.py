"""Keeps the tables of the docs what they are: `python -m tests.readme`.

The table of commands in docs/chat.md, and those in docs/confinement.md of what isn't confined, stand between two
comments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import ROOT

if TYPE_CHECKING:
    from ossia.cli.chat.commands.table import Command
    from ossia.tools.sandbox.job import Runs

CHAT_PAGE, CONFINEMENT_PAGE = ROOT / "docs" / "chat.md", ROOT / "docs" / "confinement.md"
_COMMANDS, _END = "<!-- commands -->", "<!-- end -->"


def with_commands(text: str) -> str:
    """`text` with the table of the chat's commands between `<!-- commands -->` and `<!-- end -->`."""
    from ossia.cli.chat.commands.table import GROUPS

    rows = ["| command | |", "|---|---|"]
    rows += [_row(one) for _, group in GROUPS for one in group]
    return _between(text, _COMMANDS, rows)


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
    CHAT_PAGE.write_text(with_commands(CHAT_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    CONFINEMENT_PAGE.write_text(with_gaps(CONFINEMENT_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {CHAT_PAGE.name} and {CONFINEMENT_PAGE.name}")
