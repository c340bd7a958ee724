"""What the tools for work in a folder have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tools.spec import ToolContext, ToolFailed
from tools.workspace import Workspace


def workspace_of(context: ToolContext) -> Workspace:
    """The workspace of a call. Raises `ToolFailed` if there is none."""
    if context.workspace is None:
        raise ToolFailed("Error: there is no workspace. Tell the user that this needs --workspace DIR.")
    return context.workspace


def as_mapping(args: object) -> Mapping[str, object]:
    """The arguments, validated by a schema."""
    assert isinstance(args, Mapping), "the toolbox has validated them"
    return cast(Mapping[str, object], args)


def as_lines(text: str) -> list[str]:
    r"""Lines with their ends; only `\n` ends one."""
    pieces = text.split("\n")
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def count(number: int, noun: str) -> str:
    """`count(1, "line")` is `"1 line"`, `count(1200, "line")` is `"1,200 lines"`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
