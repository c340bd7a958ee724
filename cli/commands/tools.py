"""`ossia tools`: the tools that are on, with their descriptions for the model; a tool called by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from ossia.cli.commands import group
from ossia.cli.settings.table import with_flags

app = group("Show the tools that are on, or call one by hand.")


@app.command("list")
@with_flags("tools")
def list_(given: dict[str, object]) -> None:
    """Print the tools that are on.

    For each: its source, whether its calls need approval, and the exact text for the model.
    """
    from ossia.cli.commands.tools_list import print_tools

    print_tools(given)


@app.command()
@with_flags("tools")
def call(
    given: dict[str, object],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The tool, as in browser.search.")] = None,
    arguments: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="Its arguments; for python, the code. [default: none]")
    ] = None,
    script: Annotated[
        str | None, typer.Option(metavar="FILE|-", help='A file of calls, one per line: {"name": …, "arguments": …}.')
    ] = None,
) -> None:
    """Call a tool by hand, as the model would.

    Prints exactly what the model would read, errors included. Takes every other flag of `ossia run`, too.
    """
    from ossia.cli.commands.tools_call import call_once, call_script

    if script is not None and name is not None:
        raise typer.BadParameter("use NAME or --script, not both", param_hint="--script")
    if script is not None:
        raise typer.Exit(call_script(script, given))
    if name and name.strip():
        raise typer.Exit(call_once(name, arguments or "", given))
    raise typer.BadParameter("give the name of a tool, or --script FILE", param_hint="NAME")
