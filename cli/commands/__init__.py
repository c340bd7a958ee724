"""The shell commands besides the chat: `ossia run`, `ossia models`, `ossia docs` and others, a module each.

`cli.app` lists them. A module named after a command reads its flags; one that ends in `_report`, `_list` or `_call`
does its work. Here is what they share.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

import typer

from ossia.cli.commands.groups import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ossia.cli.exits import ExitError

_MAX_BYTES = 256 << 20


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


def read_text(name: str) -> str:
    """The text of a file, or with `-` of standard input. Raises ExitError."""
    from ossia.cli.paths import expanded
    from ossia.cli.terminal.keyboard import plain_keys

    source = input_name(name)
    try:
        with plain_keys(), nullcontext(sys.stdin.buffer) if name == "-" else expanded(name).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise exit_error(f"{source}: larger than {_MAX_BYTES >> 20} MB")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise exit_error(f"{source}: not UTF-8 text (byte {error.start} is {byte:#04x})") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise exit_error(f"{source}: can't be read: {reason}") from None


def input_name(name: str) -> str:
    """A file's name in an error: `-` is standard input."""
    return "standard input" if name == "-" else name


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Within the block, a file that can't be written becomes an error of one line."""
    try:
        yield path
    except OSError as error:
        raise exit_error(f"{path}: can't be written: {error.strerror}", "FAILED") from error
