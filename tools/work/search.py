"""`repo_browser.search`: the lines of the workspace's files that a regular expression matches."""

from __future__ import annotations

import importlib.util
import json
import os
import posixpath
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ossia.tools import decoding
from ossia.tools.approval import sensitive
from ossia.tools.names import escaped
from ossia.tools.safe_files import MAX_FILE_BYTES, Place, locate, opened_folder
from ossia.tools.saying import search_line
from ossia.tools.spec import Preview, Stop, ToolContext, ToolFailed, ToolResult, interrupted
from ossia.tools.text import trim
from ossia.tools.work import _search_inside
from ossia.tools.work._folder import FileTool, answer, as_mapping, count, workspace_of
from ossia.tools.work.list_dir import CLOSED
from ossia.tools.work.result import MAX_CHARS, share
from ossia.tools.workspace import Workspace

_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "query": {"type": "string", "minLength": 1, "maxLength": 1000},
        "max_results": {"type": "integer", "minimum": 1},
    },
    "required": ["path", "query"],
    "additionalProperties": False,
}
_DESCRIPTION = "Searches the files below a folder, or one file, for a regular expression; gives file:line:text."
_DEFAULT_HITS, _MAX_HITS = 50, 1_000
_MAX_MEMORY_BYTES = 1 << 30
_MAX_LINE_CHARS = 300


class Search(FileTool):
    """Gives `path:line:text` for each matching line, sorted by path; 50 of them unless `max_results` says otherwise.

    The expression is Python's; what isn't one is looked for as it stands. It runs in a separate process (`python`) that
    is killed after `timeout_s`; what was found until then is returned. Links are never followed. Binary files, `.git`,
    folders such as `node_modules`, caches and files that often hold secrets are skipped, unless `path` names them.
    `.gitignore` is not read.
    """

    def __init__(self, *, timeout_s: int = 20, python: str = sys.executable) -> None:
        super().__init__("search", _DESCRIPTION, _PARAMETERS)
        self._timeout_s = timeout_s
        self._command = (python, "-I", "-S", "-X", "utf8", _search_inside.__file__)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        asked = as_mapping(args)
        query, path = str(asked["query"]), str(asked["path"])
        place = locate(workspace_of(context).root, path)
        if place.kind not in ("file", "folder"):
            there = "there is no" if place.kind == "missing" else "no plain file is at"
            raise ToolFailed(f"Error: {there} {path!r}. repo_browser.list_dir shows what is there.")
        caution = f"it searches {place.name}, which often holds secrets" if _is_secret(place) else ""
        inside = place.kind == "folder"
        summary = search_line(query, place.name)
        return Preview(summary, subjects=place.subjects, inside=inside, caution=caution, plan=place)

    def _result(self, args: object, plan: Place, workspace: Workspace, context: ToolContext) -> ToolResult:
        asked: Any = as_mapping(args)
        job = self._job(asked["query"], min(asked.get("max_results", _DEFAULT_HITS), _MAX_HITS), plan)
        hits, end = self._search(job, workspace.root, plan, context.stop)
        shown = [f"{escaped(path)}:{number}:{line}" for path, number, line in hits]
        remarks = [f"[{interrupted(context.stop)}]"] if context.stop.stopped else self._remarks(job, hits, end)
        found = "\n".join(shown)
        found = trim(found, max_tokens=MAX_CHARS, count_tokens=share(context.count_tokens))
        return answer("\n".join(filter(None, (found, *remarks))), workspace)

    def _job(self, query: str, max_hits: int, place: Place) -> dict[str, object]:
        found = importlib.util.find_spec("webencodings")
        return {
            "pattern": query,
            "secret": "(?!)" if place.kind == "file" or _is_secret(place) else sensitive.SECRET.pattern,
            "closed": sorted(CLOSED),
            "timeout_s": self._timeout_s,
            "max_hits": max_hits,
            "max_line_chars": _MAX_LINE_CHARS,
            "max_file_bytes": MAX_FILE_BYTES,
            "max_memory_bytes": _MAX_MEMORY_BYTES,
            "decoding": decoding.__file__,
            "packages": [str(Path(found.origin).parent.parent)] if found and found.origin else [],
        }

    def _search(
        self, job: dict[str, object], root: Path, place: Place, stop: Stop
    ) -> tuple[list[tuple[str, int, str]], dict[str, Any] | None]:
        """The hits, and the closing summary of the process; None if it was killed before that."""
        only = posixpath.basename(place.name) if place.kind == "file" else ""
        folder_name = posixpath.dirname(place.name) if only else place.name
        front = f"{folder_name}/" if folder_name not in ("", ".") else ""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(opened_folder(root, folder_name))
            except OSError as error:
                raise ToolFailed(f"Error: {folder_name!r} can't be searched: {error.strerror}.") from error
            text = json.dumps({**job, "only": only, "front": front, "folder": folder})
            process = stack.enter_context(
                subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(folder,),
                    cwd=os.sep,
                    env={"LANG": "C.UTF-8"},
                    start_new_session=True,
                )
            )
            stack.callback(process.kill)
            stack.callback(stop.on_stop(process.kill))
            with suppress(subprocess.TimeoutExpired):
                output, _ = process.communicate(text.encode(), timeout=self._timeout_s)
                hits, end = _read(output)
                if end is None and not stop.stopped:
                    problem = f"the search broke off (status {process.returncode})"
                    raise ToolFailed(f"Error: {problem}. Narrow it down by path, or use a simpler expression.")
                return hits, end
            process.kill()
            output, _ = process.communicate()
            return _read(output)

    def _remarks(self, job: Mapping[str, object], hits: list[Any], end: dict[str, Any] | None) -> list[str]:
        if end is None:
            return [f"[stopped after {self._timeout_s} s: narrow it down by path, or use a simpler expression]"]
        remarks = [] if hits else [f"No matches in {count(end['files'], 'file')}."]
        if end["literal"]:
            remarks.append(f"[no regular expression ({end['literal']}): looked for as it stands]")
        if end["problem"]:
            remarks.append(f"[stopped: {end['problem']}]")
        if end["cut"]:
            remarks.append(f"[more than {job['max_hits']} matches: narrow it down, or give max_results]")
        number, names = end["passed"]["guessed"]
        if number:
            more = f" and {number - len(names)} more" if number > len(names) else ""
            remarks.append(f"[not UTF-8, read by guess or in part: {', '.join(map(escaped, names))}{more}]")
        for kind, what in (("secret", "often holds secrets"), ("large", "too large"), ("closed", "not looked into")):
            number, names = end["passed"][kind]
            if number and not (kind == "closed" and hits):
                more = f" and {number - len(names)} more" if number > len(names) else ""
                remarks.append(f"[skipped ({what}): {', '.join(map(escaped, names))}{more}]")
        return remarks


def _is_secret(place: Place) -> bool:
    name = place.name if place.kind == "file" else f"{place.name}/x"  # everything below .ssh is secret
    return bool(sensitive.of_reading(name))


def _read(output: bytes) -> tuple[list[tuple[str, int, str]], dict[str, Any] | None]:
    hits: list[tuple[str, int, str]] = []
    end = None
    for line in output.split(b"\n")[:-1]:  # a line cut off by a kill has no line end
        said = json.loads(line)
        if "hit" in said:
            path, number, text = said["hit"]
            hits.append((path, number, text))
        else:
            end = said["end"]
    return hits, end
