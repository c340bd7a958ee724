"""`ossia cache`: the KV caches that are kept on disk, so that a model needn't read the same text again."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ossia.cli.commands.groups import Group
from ossia.cli.settings.flags import option

app = typer.Typer(cls=Group, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    """Show, remove or prepare the KV caches kept on disk: show, rm, warm.

    A KV cache is what a model computes of the text it reads. Those of stored sessions and of what prompts begin with
    are kept, so that the text needn't be read again. Only you can read them. --private keeps none.
    """
    if context.invoked_subcommand is None:
        show()


@app.command()
def show(json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False) -> None:
    """List them: kind, tokens, size, last use, whether it holds text of yours, model."""
    from ossia.cli.commands.cache_report import kept, print_kept

    print_kept(kept(), json=json)


@app.command()
def rm() -> None:
    """Remove all of them. Sessions stay; their prompts are read once more."""
    from ossia.cli.commands.cache_report import print_removed, remove

    print_removed(remove())


@app.command()
def warm(
    workspace: Annotated[str | None, option("workspace")] = None,
    trust: Annotated[bool | None, option("trust")] = None,
    model: Annotated[str | None, option("model")] = None,
    tools: Annotated[list[str] | None, option("tools")] = None,
    no_tools: Annotated[bool | None, option("no_tools")] = None,
    web: Annotated[str | None, option("web")] = None,
    effort: Annotated[str | None, option("effort")] = None,
    instructions: Annotated[str | None, option("instructions")] = None,
    private: Annotated[bool | None, option("private")] = None,
    quiet: Annotated[bool | None, option("quiet")] = None,
) -> None:
    """Read what today's prompts begin with, and keep it: for a timer or a login, at low priority.

    That is what a run begins with and, with --workspace, what one in that folder begins with. Give the flags that you
    run with. Ctrl-C keeps what is whole. It is refused with --private.
    """
    if hasattr(os, "nice"):
        os.nice(19)  # before any library starts threads
    from ossia.cli.commands.cache_warm import warm as warmed

    given: dict[str, object] = {
        "workspace": workspace, "trust": trust, "model": model, "tools": tools, "no_tools": no_tools, "web": web,
        "effort": effort, "instructions": instructions, "private": private, "quiet": quiet,
    }  # fmt: skip
    warmed(given)
