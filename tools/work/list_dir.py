"""`repo_browser.list_dir` and `repo_browser.print_tree`: the names in a folder of the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ossia.tools.names import escaped
from ossia.tools.safe_files import locate, opened_folder
from ossia.tools.saying import list_line
from ossia.tools.spec import Preview, Stop, ToolContext, ToolFailed, ToolResult
from ossia.tools.work._folder import FileTool, answer, as_mapping, workspace_of
from ossia.tools.work.result import MAX_CHARS, lines_that_fit, share
from ossia.tools.workspace import Workspace

CLOSED = frozenset(
    {
        *(".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".cache"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".gradle", ".terraform", ".next", "site-packages"),
    }
)
"""Folders of generated or foreign files: not listed unless asked for by name."""

MAX_DEPTH = 8
_MAX_NAMES = 500
_MAX_SCANNED = 20_000
_PATH, _DEPTH = {"type": "string"}, {"type": "integer", "minimum": 1}
_LIST = "Lists a folder; depth is how many levels (1 if left out)."
_TREE = "Prints the tree of folders and files below a folder, depth levels deep."


class ListDir(FileTool):
    """Gives the names in a folder, one a line, sorted; folders end in `/`, links show where they lead.

    With `depth`, also what lies below, by its path from that folder; never through links, nor into `.git` and the like.
    At most 500 of them, and what fits in a result; a last line in brackets says that there are more.
    """

    def __init__(self) -> None:
        super().__init__("list_dir", _LIST, _schema("path"))

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        asked: Any = as_mapping(args)
        path = str(asked["path"])
        place = locate(workspace_of(context).root, path)
        if place.kind == "missing":
            raise ToolFailed(f"Error: there is no folder {path!r}. List one above it.")
        if place.kind != "folder":
            raise ToolFailed(f"Error: {path!r} is not a folder. Use repo_browser.open_file.")
        deeper = int(asked.get("depth", 1)) > 1
        return Preview(list_line(place.name), subjects=place.subjects, inside=deeper, plan=place.name)

    def _result(self, args: object, plan: str, workspace: Workspace, context: ToolContext) -> ToolResult:
        asked: Any = as_mapping(args)
        depth = min(int(asked.get("depth", 1)), MAX_DEPTH)
        found = islice(_entries_below(workspace.root, plan, depth, context.stop), _MAX_NAMES + 1)
        lines = [self._line(front, name) for front, name in found]
        more = len(lines) > _MAX_NAMES
        names = f"more than {_MAX_NAMES} names" if more else f"{len(lines)} names"
        lines = lines[: _MAX_NAMES]
        fits = lines_that_fit((f"{line}\n" for line in lines), MAX_CHARS, share(context.count_tokens))
        shown = f"the first {fits} of {names}" if fits < len(lines) else names if more else ""
        hint = [f"[{shown}: list a folder below, or use repo_browser.search]"] if shown else []
        return answer("\n".join([*lines[:fits], *hint]) or "(empty folder)", workspace)

    def _line(self, front: str, name: str) -> str:
        return f"{escaped(front)}{name}"


class PrintTree(ListDir):
    """As `ListDir`, but each name is indented below its folder's."""

    def __init__(self) -> None:
        FileTool.__init__(self, "print_tree", _TREE, _schema("path", "depth"))

    def _line(self, front: str, name: str) -> str:
        return "  " * front.count("/") + name


def _schema(*required: str) -> dict[str, object]:
    properties = {"path": _PATH, "depth": _DEPTH}
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def _entries_below(root: Path, folder: str, depth: int, stop: Stop, front: str = "") -> Iterator[tuple[str, str]]:
    """The entries of a folder, deeper levels after their folder: where (`"src/"`) and what (`"a.py"`, `"b -> c"`)."""
    try:
        with opened_folder(root, folder) as descriptor:
            entries, more = _entries(descriptor)
    except OSError as error:
        if not front:
            raise ToolFailed(f"Error: {folder!r} can't be listed: {error.strerror}.") from error
        yield front, f"[can't be listed: {error.strerror}]"
        return
    except ToolFailed:
        if not front:
            raise
        return  # it became a link meanwhile
    for name, is_folder, target in entries:
        if stop.stopped:
            return
        yield front, f"{escaped(name)}{'/' if is_folder else ''}{f' -> {escaped(target)}' if target else ''}"
        if is_folder and depth > 1 and name not in CLOSED:
            yield from _entries_below(root, f"{folder}/{name}", depth - 1, stop, f"{front}{name}/")
    if more:
        yield front, f"[more than {_MAX_SCANNED:,} names]"


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
