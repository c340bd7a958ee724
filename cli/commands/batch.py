"""`ossia batch`: many questions from a file."""

from __future__ import annotations

from typing import Annotated

import typer

from ossia.cli.settings.table import with_flags


@with_flags("batch")
def batch(
    given: dict[str, object],
    source: Annotated[
        str, typer.Argument(metavar="IN", help='A JSON line per question, "text" or {"prompt": …}; - is stdin.')
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="Write the answers here; go on after an interruption. [default: -, stdout]",
        ),
    ] = None,
    parallel: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Answer N questions at once.")] = 1,
    schema: Annotated[
        str | None, typer.Option(metavar="FILE|JSON|LINE", help="Answer in JSON by this schema and nothing else.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Ask again the lines that failed in OUT.")] = False,
) -> None:
    """Answer many questions: a line of JSON each, in their order. The same command goes on where it ended."""
    from ossia.cli.batch.batch import batch as answered

    raise typer.Exit(answered(source, out, given, parallel=parallel, schema=schema, retry=retry))
