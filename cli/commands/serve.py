"""`ossia serve`: ossia for other programs, by OpenAI's APIs over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from ossia.cli.settings.table import with_flags


@with_flags("serve")
def serve(
    given: dict[str, object],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Listen here; beyond this machine only with a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Listen on this port; 0: any free one.")
    ] = 8321,
    token: Annotated[
        str | None,
        typer.Option(metavar="T", help="Require this token of clients; OSSIA_SERVE_TOKEN hides it from other users."),
    ] = None,
    parallel: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Answer N requests at the same time.")] = 1,
    idle: Annotated[
        str, typer.Option(metavar="TIME", help="Unload the model when unused for this long, e.g. 90s or 2h; 0: never.")
    ] = "15m",
    save: Annotated[
        bool, typer.Option("--save", help="Store the conversations: they continue after a restart.")
    ] = False,
    show: Annotated[
        str | None,
        typer.Option("--print", metavar="CLIENT", help="Print a client's settings: codex, openai, llm or curl."),
    ] = None,
) -> None:
    """Serve OpenAI's two APIs over HTTP, for other programs."""
    from ossia.cli.serve.serving import Served
    from ossia.cli.serve.serving import serve as run

    raise typer.Exit(run(given, Served(host, port, token, parallel, idle, save), show))
