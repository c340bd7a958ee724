"""Tools for work in a folder, those that gpt-oss was trained with: look, search, patch, run. Begin with `open_file`.

A module for each tool; `exec` is `container.exec`, the others are `repo_browser.*`. `result` is the form of answers.
"""

from __future__ import annotations

from pathlib import Path

from ossia.tools.spec import Tool
from ossia.tools.work.apply_patch import ApplyPatch
from ossia.tools.work.list_dir import ListDir, PrintTree
from ossia.tools.work.open_file import OpenFile
from ossia.tools.work.search import Search

__all__ = ["ApplyPatch", "ListDir", "OpenFile", "PrintTree", "Search", "workspace_tools"]


def workspace_tools(*, skills: Path | None = None) -> tuple[Tool, ...]:
    """The tools for the workspace's files: all but `container.exec`. `skills`: the folder of the user's own."""
    return (PrintTree(), ListDir(), Search(), OpenFile(skills), ApplyPatch())
