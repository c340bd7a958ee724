"""The shell commands besides the chat: `ossia run`, `ossia models`, `ossia docs` and others, a module each.

`cli.app` lists them. A module named after a command reads its flags; one that ends in `_report`, `_list` or `_call`
does its work. Here is what they share.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import typer

from cli.commands.groups import Group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cli.exits import ExitError


def group(about: str) -> typer.Typer:
    """A command that holds others, and prints its help when none of them is named."""
    return typer.Typer(cls=Group, help=about, callback=_print_help, invoke_without_command=True, rich_markup_mode=None)


def _print_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def exit_error(message: str, code: Literal["USAGE", "FAILED", "ENGINE"] = "USAGE") -> ExitError:
    """The error that ends a command with one line; `code` is the name of its `ExitCode`."""
    from cli.exits import ExitCode, ExitError

    return ExitError(message, ExitCode[code])


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Within the block, a file that can't be written becomes an error of one line."""
    try:
        yield path
    except OSError as error:
        raise exit_error(f"{path}: can't be written: {error.strerror}", "FAILED") from error
