"""The common parts of the tools for work in a folder."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, cast

from ossia.tools.present import JSON, Present
from ossia.tools.spec import Effect, Preview, ToolContext, ToolFailed, ToolOutput, ToolResult, ToolSpec
from ossia.tools.work.result import formed
from ossia.tools.workspace import Workspace

SECTION = """\
The files of the workspace, the folder that the user works in. Paths are relative to it; "" is the folder itself."""
"""The text above the tools of `repo_browser` in the prompt. Of gpt-oss's own tools only names and parameters are
known, not the words that described them: these are ours."""


class FileTool:
    """A tool for the workspace's files: its result comes at once, made from the `plan` of its preview."""

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, object],
        effect: Effect = "read",
        present: Present = JSON,
    ) -> None:
        self.spec = ToolSpec(
            f"repo_browser.{name}",
            description,
            parameters,
            effects=frozenset({effect}),
            trained=True,
            section=SECTION,
            provenance="built-in",
            result_taints=None if effect == "read" else frozenset(),  # a patch that fits quotes only itself
            present=present,
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        raise NotImplementedError

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        yield from ()
        plan = (context.preview or self.preview(args, context=context)).plan
        return self._result(args, plan, workspace_of(context), context)

    def _result(self, args: object, plan: Any, workspace: Workspace, context: ToolContext) -> ToolResult:
        raise NotImplementedError

    def close(self) -> None:
        pass


def answer(output: str, workspace: Workspace) -> ToolResult:
    """A result in its form, with text of the workspace."""
    return ToolResult(formed(output, workspace.root))


def workspace_of(context: ToolContext) -> Workspace:
    """The workspace of a call. Raises `ToolFailed` without one."""
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
