"""`ossia cache`: the KV caches that are kept on disk, so that a model needn't read the same text again."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.groups import Group

app = typer.Typer(cls=Group, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    """Show or remove the KV caches kept on disk: show, rm.

    A KV cache is what a model computes of the text it reads. Those of stored sessions and of what prompts begin with
    are kept, so that the text needn't be read again. Only you can read them. --private keeps none.
    """
    if context.invoked_subcommand is None:
        show()


@app.command()
def show(json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False) -> None:
    """List them: kind, tokens, size, last use, whether it holds text of yours, model."""
    from cli.commands.cache_report import kept, print_kept

    print_kept(kept(), json=json)


@app.command()
def rm() -> None:
    """Remove all of them. Sessions stay; their prompts are read once more."""
    from cli.commands.cache_report import print_removed, remove

    print_removed(remove())
