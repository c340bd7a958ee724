"""What is said of a command line that can't be read: what is wrong with it, and what was probably meant."""

from __future__ import annotations

import time
from contextlib import suppress

import typer

from ossia.agent.errors import AgentError
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.commands.sessions_report import row_of
from ossia.cli.settings.table import SETTINGS

_SHOWN = 10


def told_of(error: typer.BadParameter) -> tuple[str, list[str]]:
    """The line about a usage error, and rows to print below it."""
    path = error.ctx.command_path if error.ctx else "ossia"
    option = getattr(error, "option_name", "")
    known = getattr(error, "possibilities", None) is None  # else there is no such option
    if option == "--resume" and known:
        rows = _sessions()
        which = "these were used last:" if rows else "no session is stored yet"
        return f"--resume needs the id of a session, or part of its title; {which}", rows
    chats = [one.long_flag for one in SETTINGS.values() if "run" not in one.flag.listed]
    if path == "ossia run" and option in chats:
        instead = "; --show-thinking shows the thinking here" if option == "--think" else ""
        return f"{option} is a flag of the chat (`ossia` without a question), not of `ossia run`{instead}", []
    said = error.format_message()
    ask = '; to ask a question: ossia run "…"' if path == "ossia" and said.startswith("No such command") else ""
    if path == "ossia run" and said.startswith("No such option") and not option.strip("-")[:1].isalpha():  # "-5 * 8"
        ask = "; a question that begins with a minus goes after --, as in: ossia run -- '-5 * 8'"
    return f"{said} (see `{path} --help`{ask})", []


def _sessions() -> list[str]:
    """The sessions to choose from, the last one first; none where they can't be read."""
    with suppress(AgentError):
        store = SessionStore(paths.sessions_file(), now=time.time)
        try:
            return [row_of(info) for info in store.list(limit=_SHOWN)]
        finally:
            store.close()
    return []
