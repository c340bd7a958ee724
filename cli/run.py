"""`ossia run`: one question, one answer."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.flags import with_run_flags


@with_run_flags
def run(
    given: dict[str, object],
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="The question. Piped input is added after it.")
    ] = None,
) -> None:
    """Ask once. The answer goes to stdout, everything else to stderr."""
    from cli.once import run_once

    raise typer.Exit(run_once(prompt, given))
