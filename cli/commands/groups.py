"""How a word after `ossia` becomes a command: other programs' names for one, and questions typed without `run`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

if TYPE_CHECKING:
    import typer

_OTHER_NAMES = {
    "remove": "rm", "delete": "rm", "del": "rm", "ls": "list", "cat": "show", "view": "show", "get": "show",
    "find": "search", "download": "pull", "install": "setup",
}  # fmt: skip


class Group(TyperGroup):
    """A group of commands. `ossia mcp remove` is `ossia mcp rm`, and the like."""

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, _OTHER_NAMES.get(cmd_name, ""))


class Root(Group):
    """`ossia` itself. `ossia "why is the sky blue?"` is `ossia run "why is the sky blue?"`, with the same flags."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        first = next(iter(self.make_parser(ctx).parse_args(list(args))[1]), "")
        groups = {name: getattr(command, "commands", {}) for name, command in self.commands.items()}
        if first == "help":
            args = ["--help"]
        elif first and first not in groups:
            within = [f"`ossia {name} {first}`" for name, commands in groups.items() if first in commands]
            if within:
                ctx.fail(f"No such command {first!r}. Did you mean {' or '.join(within)}?")
            # A misspelt command must not start a model.
            if any(char.isspace() for char in first) or not get_close_matches(first.lower(), [*groups, *_OTHER_NAMES]):
                args = ["run", *args]
        return super().parse_args(ctx, args)
