"""How a word after `ossia` becomes a command: other programs' names for one, and questions typed without `run`."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""What a bad command line raises. typer exports only its subclass `BadParameter`."""

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
            if getattr(error, "possibilities", None) is None or getattr(error, "option_name", "") not in own:
                raise
            return super().parse_args(ctx, ["run", *args])  # `--schema`, which only a question has
        before, first = args[: len(args) - len(rest)], next(iter(rest), "")
        groups = {name: getattr(command, "commands", {}) for name, command in self.commands.items()}
        if first == "chat":
            return self.parse_args(ctx, [*before, *rest[1:]])
        if first == "version":
            args = ["--version"]
        elif first == "help":
            args = [*rest[1:], "--help"]
            if rest[1:] and rest[1] not in groups:
                ctx.fail(f"No such command {rest[1]!r}.")
        elif first and first not in groups:
            within = [f"`ossia {name} {first}`" for name, commands in groups.items() if first in commands]
            if within:
                ctx.fail(f"No such command {first!r}. Did you mean {' or '.join(within)}?")
            # A misspelt command must not start a model.
            if any(char.isspace() for char in first) or not get_close_matches(first.lower(), [*groups, *_OTHER_NAMES]):
                args = ["run", *args]
        return super().parse_args(ctx, args)


class Question(TyperCommand):
    """`ossia run`, whose question is one argument."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.allow_extra_args = True
        more = super().parse_args(ctx, args)
        if more:
            asked = shlex.quote(" ".join([str(ctx.params["prompt"]), *more])[:_SHOWN_CHARS])
            ctx.fail(f"a question of several words needs quotes: ossia run {asked}")
        return more
