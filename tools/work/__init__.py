"""Tools for work in a folder: read, write, search and patch files, run commands. A module for each tool.

Begin with `read_file`, the shortest one.
"""

from __future__ import annotations

from tools.spec import Tool
from tools.work.apply_patch import ApplyPatch
from tools.work.grep import Grep
from tools.work.list_dir import ListDir
from tools.work.read_file import ReadFile
from tools.work.write_file import WriteFile

__all__ = ["ApplyPatch", "Grep", "ListDir", "ReadFile", "WriteFile", "workspace_tools"]


def workspace_tools(*, max_tokens: int = 6_000) -> tuple[Tool, ...]:
    """The tools for the workspace's files: all but `shell`. `max_tokens`: of one result of `read_file`."""
    return (ReadFile(max_tokens=max_tokens), ListDir(), Grep(), WriteFile(), ApplyPatch())
