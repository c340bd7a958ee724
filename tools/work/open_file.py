"""`repo_browser.open_file`: the text of a file of the workspace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ossia.tools.approval import sensitive
from ossia.tools.decoding import decode, describe, universal
from ossia.tools.safe_files import Place, locate, read_bytes
from ossia.tools.saying import read_line
from ossia.tools.skills import OF_USER
from ossia.tools.spec import Preview, ToolContext, ToolFailed, ToolResult
from ossia.tools.work._folder import FileTool, answer, as_lines, as_mapping, count, workspace_of
from ossia.tools.work.result import MAX_CHARS, lines_that_fit, share
from ossia.tools.workspace import Workspace

_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line_start": {"type": "integer"},
        "line_end": {"type": "integer"},
        "line_numbers": {"type": "boolean"},
    },
    "required": ["path"],
    "additionalProperties": False,
}
_DESCRIPTION = "Opens a text file, whole or from line_start to line_end (from 1, both included)."


class OpenFile(FileTool):
    """Gives a text file as it is, or its lines from `line_start` to `line_end`; with `line_numbers`, each numbered.

    Of more than 10,000 characters, or 7,500 tokens, the middle is left out, in whole lines; a line in brackets says
    which, e.g. `[lines 181-560 of 640 are left out: open them with line_start=181]`. CRLF and CR are shown as plain
    line ends. Binary files are refused. `skills` is a second folder that it reads: of the user's own skills, by its
    absolute path or as `~/.agents/skills/…`.
    """

    def __init__(self, skills: Path | None = None) -> None:
        super().__init__("open_file", _DESCRIPTION, _PARAMETERS)
        self._skills = skills

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        path = str(as_mapping(args)["path"])
        root, below = self._skill(path) or (workspace_of(context).root, path)
        place = locate(root, below)
        _require_file(place, path)
        caution = sensitive.of_reading(*place.subjects)
        subjects = place.subjects if below is path else tuple(f"~/{OF_USER}/{name}" for name in place.subjects)
        given = as_mapping(args)
        summary = read_line(subjects[0], given.get("line_start"), given.get("line_end"))
        return Preview(summary, subjects=subjects, caution=caution, plan=(root, place.name))

    def _skill(self, path: str) -> tuple[Path, str] | None:
        """The folder of the user's skills, and the path in it, for a path that leads there."""
        if self._skills is None:
            return None
        for front in (f"~/{OF_USER}/", f"{self._skills}/", f"{(real := self._skills.resolve())}/"):
            if path.startswith(front):
                return real, path.removeprefix(front)
        return None

    def _result(self, args: object, plan: tuple[Path, str], workspace: Workspace, context: ToolContext) -> ToolResult:
        text = _text(*plan)
        asked: Any = as_mapping(args)
        lines = as_lines(universal(text))
        start, end = max(asked.get("line_start", 1), 1), asked.get("line_end")
        if start > max(len(lines), 1):
            raise ToolFailed(f"Error: the file has {count(len(lines), 'line')}, so there is no line {start}.")
        if end is not None and 0 <= end < start:
            raise ToolFailed(f"Error: line_end is {end}, before line_start, which is {start}.")
        wanted = lines[start - 1 : len(lines) if end is None or end < 0 else end]
        if asked.get("line_numbers"):
            wanted = [f"{number:>6}\t{line}" for number, line in enumerate(wanted, start)]
        return answer(_shown(wanted, start, len(lines), share(context.count_tokens)), workspace)


def _require_file(place: Place, given: str) -> None:
    if place.kind == "missing":
        raise ToolFailed(f"Error: there is no file {given!r}. repo_browser.list_dir shows what is there.")
    if place.kind == "folder":
        raise ToolFailed(f"Error: {given!r} is a folder. Use repo_browser.list_dir.")
    if place.kind == "other":
        raise ToolFailed(f"Error: {given!r} is no plain file (a pipe, a device), and isn't read.")


def _text(root: Path, name: str) -> str:
    try:
        data = read_bytes(root, name).data
    except FileNotFoundError:
        raise ToolFailed(f"Error: {name!r} is gone. repo_browser.list_dir shows what is there.") from None
    text = decode(data)
    if text is None:
        raise ToolFailed(f"Error: {name!r} is {describe(data)}. repo_browser.open_file opens text only.")
    end = "" if not text.text or text.text.endswith(("\n", "\r")) else "\n"
    return f"{text.shown}{end}[{name}: {text.remark}]\n" if text.remark else text.shown


def _shown(lines: Sequence[str], first: int, of: int, taken: Callable[[str], int]) -> str:
    """The lines; without those in the middle if they are too long. `first`: the number of the first one, from 1."""
    whole = "".join(lines)
    if taken(whole) <= MAX_CHARS:
        return whole
    head = lines_that_fit(lines, MAX_CHARS * 3 // 4, taken)
    tail = lines_that_fit(reversed(lines[head:]), MAX_CHARS // 4, taken)
    if not head and taken(lines[0]) <= MAX_CHARS:
        head, tail = 1, 0
    if not head:  # not one line fits
        kept = _longest(lines[0], taken)
        rest = f"; go on with line_start={first + 1}" if len(lines) > 1 else ""
        more = f"[{len(lines[0]) - kept:,} more characters of line {first} of {of:,}{rest}]"
        return f"{lines[0][:kept]}\n{more}\n"
    missing = f"{first + head}-{first + len(lines) - tail - 1}"
    gap = f"[lines {missing} of {of:,} are left out: open them with line_start={first + head}]\n"
    return "".join([*lines[:head], gap, *lines[len(lines) - tail :]])


def _longest(line: str, taken: Callable[[str], int]) -> int:
    """The number of characters that are shown of a line that is too long: as many as fit, or a little less."""
    kept = MAX_CHARS
    while (size := taken(line[:kept])) > MAX_CHARS:
        kept = min(kept * MAX_CHARS // size, kept - 1)
    return kept
