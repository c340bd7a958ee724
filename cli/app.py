"""The commands, mounted, and the message about a command line that can't be read.

The modules of the commands import only typer and the standard library at their top. That keeps `ossia --help` under a
quarter of a second; a test looks at what it loaded.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from ossia import __version__
from ossia.cli import commands
from ossia.cli.commands import cache, config, docs, harmony, mcp, models, python, sessions, skills, tools
from ossia.cli.commands.acp import acp
from ossia.cli.commands.batch import batch
from ossia.cli.commands.demo import demo
from ossia.cli.commands.doctor import doctor
from ossia.cli.commands.eval import evaluate
from ossia.cli.commands.help import help_
from ossia.cli.commands.logs import logs
from ossia.cli.commands.run import run
from ossia.cli.commands.serve import serve
from ossia.cli.commands.trust import trust
from ossia.cli.commands.undo import undo
from ossia.cli.completion.command import completion
from ossia.cli.settings.table import SETTINGS, with_flags
from ossia.cli.terminal.first_paint import painted

_SHOWN_SESSIONS = 10

app = typer.Typer(
    cls=commands.Root,
    rich_markup_mode=None,  # rich's help takes 0.1 s more to start
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(invocation: typer.Context, asked: bool) -> None:
    if asked and not invocation.resilient_parsing:
        typer.echo(f"ossia {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
@with_flags("chat")
def ossia(
    invocation: typer.Context,
    given: dict[str, object],
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    latest: Annotated[
        bool, typer.Option("-c", "--continue", help="Continue this folder's last session, or else the last of all.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option("-r", "--resume", metavar="ID|TEXT", help="Continue a session: its id, or part of its title."),
    ] = None,
) -> None:
    """Chat with a gpt-oss model, on your own machine.

    `ossia .` or `ossia DIR` works in that folder. Takes every flag of `ossia run`; if stdin or stdout isn't a terminal,
    this is `ossia run`.
    """
    if invocation.invoked_subcommand is not None:
        early = [SETTINGS[name].long_flag for name, value in given.items() if value not in (None, [])]
        early += [flag for flag, value in (("--continue", latest), ("--resume", resume)) if value]
        if early:
            raise commands.UsageError(f"{early[0]} must come after {invocation.invoked_subcommand}")
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from ossia.cli.oneshot.once import Wanted, run_once
        from ossia.cli.runtime.session import Resume

        raise typer.Exit(run_once(Wanted(resume=Resume(latest, resume)), given))
    with painted(f"ossia {__version__}"):
        from ossia.cli.chat.app import chat, plain_chat
        from ossia.cli.runtime.session import Resume

        talk = plain_chat if os.environ.get("TERM") == "dumb" else chat  # that can only print lines
        code = talk(given, Resume(latest, resume))
    raise typer.Exit(code)


app.command(cls=commands.Question)(run)
app.command()(batch)
app.command(context_settings={"allow_extra_args": True})(acp)  # its login: `ossia acp models pull …`
app.command()(serve)
app.command()(demo)
app.command("eval")(evaluate)
app.command()(logs)
app.command()(doctor)
app.command()(trust)
app.command()(undo)
app.add_typer(config.app, name="config")
app.add_typer(models.app, name="models")
app.add_typer(sessions.app, name="sessions")
app.add_typer(cache.app, name="cache")
app.add_typer(docs.app, name="docs")
app.add_typer(tools.app, name="tools")
app.add_typer(skills.app, name="skills")
app.add_typer(mcp.app, name="mcp")
app.add_typer(python.app, name="python")
app.add_typer(harmony.app, name="harmony")
app.command(context_settings={"allow_extra_args": True})(completion)  # the line that a script asks about
app.command("help")(help_)

command = commands.command_of(app)


def explain_usage(error: typer.BadParameter) -> tuple[str, list[str]]:
    """The line about a usage error, and rows to print below it."""
    path = error.ctx.command_path if error.ctx else "ossia"
    option = getattr(error, "option_name", "")
    known = getattr(error, "possibilities", None) is None  # else there is no such option
    if option in ("-r", "--resume") and known:
        rows = _last_sessions()
        which = "these were used last:" if rows else "no session is stored yet"
        return f"--resume needs the id of a session, or part of its title; {which}", rows
    chats = [one.long_flag for one in SETTINGS.values() if "run" not in one.flag.listed]
    if path == "ossia run" and option in chats:
        instead = "; --show-thinking shows the thinking here" if option == "--think" else ""
        return f"{option} is a flag of the chat (`ossia` without a question), not of `ossia run`{instead}", []
    said, like = error.format_message(), getattr(error, "possibilities", None)
    if like:
        said = f"{error.message}. Did you mean {' or '.join(like)}?"
    ask = '; to ask a question: ossia run "…"' if path == "ossia" and said.startswith("No such command") else ""
    asked = path in ("ossia", "ossia run") and not option.strip("-")[:1].isalpha()  # "-5 * 8"
    if asked and said.startswith("No such option"):
        ask = "; a question that begins with a minus goes after --, as in: ossia run -- '-5 * 8'"
    return f"{said} (see `{path} --help`{ask})", []


def _last_sessions() -> list[str]:
    """The sessions to choose from, the last one first; empty if they can't be read."""
    from ossia.agent.errors import AgentError

    with suppress(AgentError), sessions.opened_sessions() as store:
        return [sessions.row_of(info) for info in store.list(limit=_SHOWN_SESSIONS)]
    return []
