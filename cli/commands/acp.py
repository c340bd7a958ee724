"""`ossia acp`: ossia in an editor."""

from __future__ import annotations

import typer

from ossia.cli.settings.table import with_flags


@with_flags("acp")
def acp(given: dict[str, object], invocation: typer.Context) -> None:
    """Serve an editor (Agent Client Protocol). docs/editors.md."""
    match invocation.args:
        case []:
            from ossia.cli.acp.server import serve

            serve(given)
        case ["models", "pull", name]:  # the client's login: it adds this to its command
            from ossia.cli.commands.models_files import pull_model

            pull_model(name)
        case [word, *_]:
            raise typer.BadParameter(f"no argument is expected, not {word!r}")
