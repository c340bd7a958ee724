"""`functions.list_dir`: the names in a folder of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tools.safe_files import locate, opened_folder
from tools.spec import Preview, Stop, ToolContext, ToolFailed, ToolResult
from tools.text import escaped
from tools.work._folder import FileTool, as_mapping, workspace_of
from tools.workspace import Workspace

CLOSED = frozenset(
    {
        *(".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".cache"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".gradle", ".terraform", ".next", "site-packages"),
    }
)
"""Folders of generated or foreign files: not listed unless asked for by name."""

MAX_DEPTH = 8
_MAX_SCANNED = 20_000
_PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
_DESCRIPTION = (
    "Lists the files in a directory. The path counts from the workspace (default: the workspace itself); folders end "
    "in '/'; depth (default 1) is how many levels are listed."
)


class ListDir(FileTool):
    """Gives the names in a folder, one a line, sorted; folders end in `/`, links show where they lead.

    With `depth`, also what lies below, by its path from that folder; never through links, nor into `.git` and the like.
    At most `max_names` of them; a last line in brackets says that there are more.
    """

    def __init__(self, *, max_names: int = 500) -> None:
        super().__init__("functions.list_dir", _DESCRIPTION, _PARAMETERS)
        self._max_names = max_names

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        path = str(as_mapping(args).get("path", "."))
        place = locate(workspace_of(context).root, path)
        if place.kind == "missing":
            raise ToolFailed(f"Error: there is no folder {path!r}. List one above it.")
        if place.kind != "folder":
            raise ToolFailed(f"Error: {path!r} is not a folder. Use read_file.")
        return Preview(f"list {place.name}", subjects=place.subjects, plan=place.name)

    def _result(self, args: object, plan: str, workspace: Workspace, context: ToolContext) -> ToolResult:
        asked: Any = as_mapping(args)
        depth = min(int(asked.get("depth", 1)), MAX_DEPTH)
        names = list(islice(_names(workspace.root, plan, depth, context.stop), self._max_names + 1))
        if len(names) > self._max_names:
            names[-1] = f"[more than {self._max_names:,} names: list a folder below, or use grep]"
        return ToolResult("\n".join(names) or "(empty folder)", brings=workspace.brings)


def _names(root: Path, folder: str, depth: int, stop: Stop, front: str = "") -> Iterator[str]:
    try:
        with opened_folder(root, folder) as descriptor:
            entries, more = _entries(descriptor)
    except OSError as error:
        if not front:
            raise ToolFailed(f"Error: {folder!r} can't be listed: {error.strerror}.") from error
        yield f"{front}[can't be listed: {error.strerror}]"
        return
    except ToolFailed:
        if not front:
            raise
        return  # it became a link meanwhile
    for name, is_folder, target in entries:
        if stop.stopped:
            return
        yield f"{escaped(front + name)}{'/' if is_folder else ''}{f' -> {escaped(target)}' if target else ''}"
        if is_folder and depth > 1 and name not in CLOSED:
            yield from _names(root, f"{folder}/{name}", depth - 1, stop, f"{front}{name}/")
    if more:
        yield f"{front}[more than {_MAX_SCANNED:,} names]"


def _entries(descriptor: int) -> tuple[list[tuple[str, bool, str]], bool]:
    """The names in a folder, each with whether it is a folder and where it leads as a link; and if there are more."""
    with os.scandir(descriptor) as scan:
        found = list(islice(scan, _MAX_SCANNED + 1))
    entries = []
    for entry in sorted(found[:_MAX_SCANNED], key=lambda entry: entry.name):
        target = ""
        if entry.is_symlink():
            try:
                target = os.readlink(entry.name, dir_fd=descriptor)
            except OSError:  # it is no longer a link
                target = "?"
        entries.append((entry.name, entry.is_dir(follow_symlinks=False), target))
    return entries, len(found) > _MAX_SCANNED
