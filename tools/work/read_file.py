"""`functions.read_file`: the text of a file of the workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.approval import sensitive
from tools.safe_files import Place, locate, read_bytes
from tools.spec import Preview, ToolContext, ToolFailed, ToolResult
from tools.text import fitting
from tools.work._folder import FileTool, as_lines, as_mapping, count, workspace_of
from tools.work.text import decode, describe
from tools.workspace import Workspace

_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "start": {"type": "integer"},
        "limit": {"type": "integer", "minimum": 1},
    },
    "required": ["path"],
    "additionalProperties": False,
}
_DESCRIPTION = (
    "Reads a text file. The path counts from the workspace; start is the first line to read (from 1), limit how many."
)


class ReadFile(FileTool):
    """Gives a text file as it is, or `limit` lines of it from line `start`.

    At most `max_tokens`, in whole lines; a last line in brackets says what is missing and how to go on, e.g.
    `[lines 1-400 of 1,234; go on with start=401]`. CRLF is shown as a plain line end. Binary files are refused.
    """

    def __init__(self, *, max_tokens: int = 6_000) -> None:
        super().__init__("functions.read_file", _DESCRIPTION, _PARAMETERS)
        self._max_tokens = max_tokens

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        path = str(as_mapping(args)["path"])
        place = locate(workspace_of(context).root, path)
        _require_file(place, path)
        caution = sensitive.of_reading(*place.subjects)
        return Preview(f"read {place.name}", subjects=place.subjects, caution=caution, plan=place.name)

    def _result(self, args: object, plan: str, workspace: Workspace, context: ToolContext) -> ToolResult:
        text = _text(workspace.root, plan)
        asked: Any = as_mapping(args)
        lines = as_lines(text.replace("\r\n", "\n"))
        shown = _shown(lines, int(asked.get("start", 1)), asked.get("limit"), self._max_tokens, context.count_tokens)
        return ToolResult(shown or "(empty file)", brings=workspace.brings)


def _require_file(place: Place, given: str) -> None:
    if place.kind == "missing":
        raise ToolFailed(f"Error: there is no file {given!r}. list_dir shows what is there.")
    if place.kind == "folder":
        raise ToolFailed(f"Error: {given!r} is a folder. Use list_dir.")
    if place.kind == "other":
        raise ToolFailed(f"Error: {given!r} is no plain file (a pipe, a device), and isn't read.")


def _text(root: Path, name: str) -> str:
    try:
        data = read_bytes(root, name).data
    except FileNotFoundError:
        raise ToolFailed(f"Error: {name!r} is gone. list_dir shows what is there.") from None
    text = decode(data)
    if text is None:
        raise ToolFailed(f"Error: {name!r} is {describe(data)}. read_file reads text only.")
    if text.encoding == "latin-1":
        return f"{text.text}\n[{name} isn't valid UTF-8; read as Latin-1]\n"
    return text.text


def _shown(
    lines: list[str], start: int, limit: int | None, max_tokens: int, count_tokens: Callable[[str], int]
) -> str:
    first = max(start, 1) - 1
    if first and first >= len(lines):
        raise ToolFailed(f"Error: the file has {count(len(lines), 'line')}, so there is no line {start}.")
    wanted = lines[first:] if limit is None else lines[first : first + int(limit)]
    shown = "".join(wanted)
    chars = fitting(shown, max_tokens, count_tokens)
    if chars == len(shown) and first + len(wanted) == len(lines):
        return shown
    whole = shown[:chars].count("\n") if chars < len(shown) else len(wanted)
    if not whole:  # not one line fits
        missing = len(wanted[0]) - chars
        rest = f"; go on with start={first + 2}" if first + 1 < len(lines) else ""
        return f"{shown[:chars]}\n[{missing:,} more characters of line {first + 1} of {len(lines):,}{rest}]"
    text = "".join(wanted[:whole])
    last = first + whole
    rest = f"; go on with start={last + 1}" if last < len(lines) else ""
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}[lines {first + 1}-{last} of {len(lines):,}{rest}]"
