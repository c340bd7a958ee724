"""`ossia cache`: what was read by a model and is kept, so that it needn't be read again."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    """Show what was read and needn't be read again, or remove it: show, rm.

    It is what prompts begin with, and stored sessions, as a model has them once it has read them. It lies in the cache
    folder, for you alone, and only saves time. --private keeps nothing there.
    """
    if context.invoked_subcommand is None:
        show()


@app.command()
def show(json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False) -> None:
    """Print what is kept: kind, tokens, size, last use, whether it holds text of yours, and the model."""
    from cli.cache_report import kept, print_kept

    print_kept(kept(), json=json)


@app.command()
def rm() -> None:
    """Remove all of it. Sessions stay; their prompts are read anew once."""
    from cli.cache_report import print_removed, remove

    print_removed(remove())
