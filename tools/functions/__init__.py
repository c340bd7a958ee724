"""Functions: those for work in a folder, the user's own, and those of MCP servers."""

from __future__ import annotations

from tools.functions.apply_patch import ApplyPatch
from tools.functions.grep import Grep
from tools.functions.list_dir import ListDir
from tools.functions.read_file import ReadFile
from tools.functions.write_file import WriteFile
from tools.spec import Tool

__all__ = ["ApplyPatch", "Grep", "ListDir", "ReadFile", "WriteFile", "workspace_tools"]


def workspace_tools(*, max_tokens: int = 6_000) -> tuple[Tool, ...]:
    """What reads and writes files of the workspace: all but `shell`. `max_tokens`: of one result of `read_file`."""
    return (ReadFile(max_tokens=max_tokens), ListDir(), Grep(), WriteFile(), ApplyPatch())
