"""The shell commands besides the chat: `ossia run`, `ossia models`, `ossia docs` and others, a module each.

`cli.app` lists them. A module named after a command reads its flags; one that ends in `_report`, `_list` or `_call`
does its work. Here is what they share.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import typer

from ossia.cli.commands.groups import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ossia.cli.exits import ExitError


def group(about: str, alone: Callable[[], None] | None = None) -> typer.Typer:
    """A command that holds others. When none of them is named it calls `alone`, or prints its help."""

    def callback(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            alone() if alone else typer.echo(context.get_help())

    return typer.Typer(cls=Group, help=about, callback=callback, invoke_without_command=True, rich_markup_mode=None)


def exit_error(message: str, code: Literal["USAGE", "FAILED", "ENGINE"] = "USAGE") -> ExitError:
    """The error that ends a command with one line; `code` is the name of its `ExitCode`."""
    from ossia.cli.exits import ExitCode, ExitError

    return ExitError(message, ExitCode[code])


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Within the block, a file that can't be written becomes an error of one line."""
    try:
        yield path
    except OSError as error:
        raise exit_error(f"{path}: can't be written: {error.strerror}", "FAILED") from error
