"""The shell commands besides the chat: `ossia run`, `ossia models`, `ossia docs` and others, a module each.

`cli.app` lists them. This module is their common part: groups of commands, and how words on the command line are read.
"""

from __future__ import annotations

import shlex
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from typer.core import TyperCommand, TyperGroup

from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.paths import expanded, is_folder
from ossia.cli.terminal.keyboard import plain_keys

UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""The error of a bad command line. typer exports only its subclass `BadParameter`."""

Json = Annotated[bool, typer.Option("-j", "--json", help="Print one line of JSON.")]
"""The flag of commands that print a document."""

_MAX_BYTES = 256 << 20
_SHOWN_CHARS = 200  # of a question that was typed without quotes
_OTHER_NAMES = {
    "remove": ("rm", "unset"), "delete": ("rm", "unset"), "del": ("rm", "unset"), "rm": ("unset",), "clear": ("rm",),
    "list": ("show",), "ls": ("list", "show"), "cat": ("show",), "view": ("show",), "get": ("show",),
    "find": ("search",), "download": ("pull",), "install": ("setup",),
}  # fmt: skip


class Group(TyperGroup):
    """A group of commands. `ossia mcp remove` is `ossia mcp rm`, and the like."""

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        names = (cmd_name, *_OTHER_NAMES.get(cmd_name, ()))
        return next(filter(None, (super(Group, self).get_command(ctx, name) for name in names)), None)


class Root(Group):
    """`ossia` itself. `ossia "why is the sky blue?"` is `ossia run "why is the sky blue?"`, with the same flags."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        try:
            rest = self.make_parser(ctx).parse_args(list(args))[1]  # from the first word on that is no option
        except UsageError as error:
            own = {name for param in self.commands["run"].params for name in param.opts}
            if not hasattr(error, "possibilities") or getattr(error, "option_name", "") not in own:
                raise
            if _is_path(ctx, args[0]):
                return self.parse_args(ctx, ["--workspace", *args])
            return super().parse_args(ctx, ["run", *args])  # `-f` or `-t`, which only a question has
        before, first = args[: len(args) - len(rest)], next(iter(rest), "")
        if first not in self.commands and _is_path(ctx, first):
            return self.parse_args(ctx, [*before, "--workspace", first, *rest[1:]])
        if first == "chat":
            return self.parse_args(ctx, [*before, *rest[1:]])
        if first == "version":
            args = ["--version"]
        elif first == "help" and len(rest) > 2:  # of a command within a group
            args = [*rest[1:], "--help"]
        elif any(char.isspace() for char in first):
            args = ["run", *args]
        elif first and first not in self.commands:
            groups = {name: getattr(command, "commands", {}) for name, command in self.commands.items()}
            within = [f"`ossia {name} {first}`" for name, commands in groups.items() if first in commands]
            if within:
                ctx.fail(f"No such command {first!r}. Did you mean {' or '.join(within)}?")
            # A misspelt command must not start a model; "hello" is no misspelt "help".
            if not get_close_matches(first.lower(), [*groups.keys() - {"help"}, *_OTHER_NAMES]):
                args = ["run", *args]
        return super().parse_args(ctx, args)


class _Later(UserDict[str, Any]):
    """Commands by name, each made when it is looked at first."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(made := self.data[name], partial):
            made = self.data[name] = made()
        return made


def command_of(app: typer.Typer) -> TyperGroup:
    """Typer's command for `app`. Those below it are made when needed: all of them take 50 ms."""
    from typer.main import get_command_from_info, get_command_name, get_group, get_group_from_info

    own, below = app.registered_commands, app.registered_groups
    app.registered_commands, app.registered_groups = [], []
    command = get_group(app)
    app.registered_commands, app.registered_groups = own, below
    how: dict[str, Any] = {"pretty_exceptions_short": app.pretty_exceptions_short, "rich_markup_mode": None}
    later: dict[str, Any] = {
        one.name or get_command_name(getattr(one.callback, "__name__", "")): partial(get_command_from_info, one, **how)
        for one in own
    }
    later |= {str(one.name): partial(get_group_from_info, one, suggest_commands=True, **how) for one in below}
    command.commands = _Later(later)  # a mapping, as typer wants it
    return command


def _is_path(ctx: typer.Context, word: str) -> bool:
    """True for a folder named as a path, as in `ossia .`; a usage error for one by its bare name, or no folder."""
    path, is_one_word = expanded(word), not any(char.isspace() for char in word)
    begins = word in (".", "..", "~") or word.startswith(("./", "../", "~/", "/"))
    is_named = begins or Path(word).name != word
    try:
        found = bool(word) and (is_named or is_one_word) and is_folder(path)
    except ExitError:  # a long question
        return False
    ask = f"to ask a question: ossia run {shlex.quote(word)}"
    if found and not is_named:
        ctx.fail(f"{word} is a folder: ossia ./{shlex.quote(word)} works in it; {ask}")
    if begins and is_one_word and not found:
        wrong = "is a file, not a folder: ossia -w FOLDER works in one" if path.exists() else "doesn't exist"
        ctx.fail(f"{word} {wrong}; {ask}")
    return found


class Question(TyperCommand):
    """`ossia run`, whose question is one argument."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.allow_extra_args = True
        more = super().parse_args(ctx, args)
        if more and not ctx.resilient_parsing:
            asked = shlex.quote(" ".join([str(ctx.params["prompt"]), *more])[:_SHOWN_CHARS])
            ctx.fail(f"a question of several words needs quotes: ossia run {asked}")
        return more


def group(about: str, alone: Callable[[], None] | None = None) -> typer.Typer:
    """A command that holds others. When none of them is named it calls `alone`, or prints its help."""

    def callback(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            alone() if alone else typer.echo(context.get_help())

    return typer.Typer(cls=Group, help=about, callback=callback, invoke_without_command=True, rich_markup_mode=None)


def exit_error(message: str, code: Literal["USAGE", "FAILED", "ENGINE"] = "USAGE") -> ExitError:
    """The error that ends a command with one line; `code` is the name of its `ExitCode`."""
    return ExitError(message, ExitCode[code])


def read_text(name: str) -> str:
    """The text of a file, or with `-` of standard input. Raises ExitError."""
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
