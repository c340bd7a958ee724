"""A call in people's words, on one line: `Run pytest -q`, `Read notes.md`, `files: read notes.md`.

A tool's preview and the row of a recorded call, whose tool may be off, say the same. All text here is as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from ossia.tools.calls.arguments import from_other_tools
from ossia.tools.calls.names import work_tool
from ossia.tools.present import COMMAND

MAX_CHARS = 1_000
"""Of one line: more than any row holds."""
_VALUE_CHARS = 60
_CODE = ("code", "script", "input")  # the keys of code that came as JSON
_JSON_CHARS = 200_000  # of arguments; longer ones aren't read
HEREDOC = re.compile(r"<<-?[ \t]*['\"\\]?([\w.-]+)['\"]?")
"""The beginning of a here-document, with the line that ends it."""
_BLANKS = re.compile(r"[ \t\n]+")
_JOINS = re.compile(r"(?:[;&|{(]|\b(?:then|do|else))\s*\Z")
"""The end of a line whose command goes on in the next one."""
_PATCHED = re.compile(
    r"^\*\*\* (Update|Add|Delete) File: (.+?)[ \t]*$(?:\n\*\*\* Move to: (.+?)[ \t]*$)?", re.MULTILINE
)
_VERBS = {"Update": "edit", "Add": "new", "Delete": "delete"}
_NAMED = 4  # files of each kind
_PLACE = frozenset({"path", "file", "file_path", "filename", "folder", "directory", "uri"})
_NOUNS = frozenset({"text", "file", "directory", "dir", "folder", "path", "contents"})
_LIKE_A_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|[^\W_]+")


def saying(name: str, arguments: object) -> str:
    """The words for a call. `arguments`: parsed, or the text as the model wrote it.

        saying("bash", {"command": ["bash", "-lc", "pytest -q"]})              # "Run pytest -q"
        saying("functions.files__read_file", '{"path": "notes.md"}')           # "files: read notes.md"
        saying("functions.get_weather", {"city": "Oslo"})                      # "get_weather(city="Oslo")"
    """
    tool = work_tool(name) or name
    args = from_other_tools(tool, parsed(arguments) if isinstance(arguments, str) else arguments, {})
    text = arguments if isinstance(arguments, str) else ""
    if tool == "python":
        given = args if isinstance(args, Mapping) else {}
        return python_line(next((code for key in _CODE if isinstance(code := given.get(key), str)), text))
    if tool == "repo_browser.apply_patch":
        return patch_line(patched(str(args.get("patch", text)) if isinstance(args, Mapping) else text))
    if tool == "container.exec" and (command := COMMAND.short(args)) is not None:
        return command_line(command)
    if isinstance(args, Mapping):
        if words := _of_built_in(tool, args):
            return words
        server, is_mcp, remote = name.removeprefix("functions.").partition("__")
        if is_mcp and name.startswith("functions."):
            return mcp_line(server, remote, args)
        if name.startswith("functions."):
            return function_line(name.removeprefix("functions."), args)
    return f"{name} {one_line(text)}".rstrip()


def command_line(command: str) -> str:
    """`"Run pytest -q"`; lines joined, here-documents as their length."""
    return f"Run {one_line_of_script(command)}"


def python_line(code: str) -> str:
    """`"Run Python: print(6*7)"`; of several lines, the first telling one, and their number."""
    lines = [line for line in code.strip().splitlines() if line.strip() and not line.startswith("```")]
    shown = next((line for line in lines if not re.match(r"(?:import|from)\b|%", line.strip())), "")
    shown = one_line(shown or lines[0]) if lines else ""
    return f"Run Python{f': {shown}' if shown else ''}" + (f" … ({len(lines)} lines)" if len(lines) > 1 else "")


def read_line(path: str, start: object = None, end: object = None) -> str:
    """`"Read notes.md"`, `"Read notes.md, lines 1–200"`."""
    first = start if isinstance(start, int) and start > 1 else 1
    last = end if isinstance(end, int) and end >= first else None
    part = f", lines {first}–{last}" if last else f", from line {first}" if first > 1 else ""
    return f"Read {path}{part}"


def list_line(path: str) -> str:
    """`"List src"`; the workspace itself is `.`."""
    return f"List {path or '.'}"


def search_line(query: str, where: str = "") -> str:
    """`'Search "blob" in src'`, `'Search the web for "capybara"'`."""
    if where == "web":
        return f'Search the web for "{query}"'
    return f'Search "{query}"' + (f" in {where}" if where not in ("", ".") else "")


def find_line(pattern: str, where: str = "") -> str:
    """`'Find "swims" in Capybara'`."""
    return f'Find "{pattern}"' + (f" in {where}" if where else "")


def mcp_line(server: str, tool: str, args: object) -> str:
    """The server, then the tool in its own words, each once: `"files: read notes.md"`."""
    words = [word.lower() for word in _LIKE_A_WORD.findall(tool)] or [tool]
    words = words[1:] if len(words) > 1 and words[0] == server.lower() else words
    given = args if isinstance(args, Mapping) else {}
    if len(given) == 1 and isinstance(only := next(iter(given.values())), str):
        while len(words) > 1 and words[-1] in _NOUNS and not _PLACE.isdisjoint(given):
            words.pop()
        shown = only if len(only) <= _VALUE_CHARS else f"{only[: _VALUE_CHARS - 1]}…"
    else:
        shown = _pairs(given)
    return f"{server}: {' '.join(words)} {shown}".rstrip()


def function_line(name: str, args: Mapping[str, object]) -> str:
    """`'get_weather(city="Oslo")'`."""
    return f"{name}({_pairs(args)})"


def patch_line(files: Sequence[tuple[str, str, int, int]]) -> str:
    """The changes of files: `"Edit report.py +1 −1 · new CHANGES.md +4"`.

    A file is `(verb, name, lines added, removed)`, the verb "delete", "rename", "edit" or "new": in this order they are
    named, since what is lost comes first.
    """
    parts = []
    for verb in ("delete", "rename", "edit", "new"):
        of_kind = [file for file in files if file[0] == verb]
        names = [f"{name}{f' +{added}' if added else ''}{f' −{gone}' if gone else ''}"
                 for _, name, added, gone in of_kind[:_NAMED]]  # fmt: skip
        more = f" and {len(of_kind) - _NAMED} more" if len(of_kind) > _NAMED else ""
        parts += [f"{verb} {', '.join(names)}{more}"] if names else []
    line = " · ".join(parts) or "edit nothing"
    return line[0].upper() + line[1:]


def patched(patch: str) -> list[tuple[str, str, int, int]]:
    """The files in a patch as a model wrote it, without the number of their lines, for `patch_line`."""
    return [
        ("rename", f"{name} to {new}", 0, 0) if new else (_VERBS[verb], name, 0, 0)
        for verb, name, new in _PATCHED.findall(patch)
    ]


def one_line(text: str) -> str:
    """The text with each run of blanks and line ends as one blank; beyond `MAX_CHARS` it is cut with an ellipsis."""
    flat = _BLANKS.sub(" ", text[: 4 * MAX_CHARS]).strip(" ")
    return flat if len(flat) <= MAX_CHARS and len(text) <= 4 * MAX_CHARS else f"{flat[: MAX_CHARS - 1]}…"


def one_line_of_script(script: str) -> str:
    """A script on one line: here-documents as their length, lines joined by `;`, comments left out.

    one_line_of_script("cat > a <<'E'\\nx\\nE\\nls")    # "cat > a <<'E' (1 line); ls"
    """
    lines = iter(script.strip(" \t\n").replace("\\\n", " ").split("\n"))
    shown = ""
    for line in lines:
        part = line.strip(" \t")
        if found := HEREDOC.search(part):
            size = sum(1 for _ in takewhile(lambda below: below.strip() != found[1], lines))
            part += f" ({size} line{'' if size == 1 else 's'})"
        if part and (part[0] != "#" or "\n" not in script) and len(shown) <= MAX_CHARS:
            shown += f"{_joint(shown)}{part}"
    return one_line(shown or script)


def _joint(before: str) -> str:
    """The sign for a line end: `;`, but within quotes and behind an operator only a blank."""
    inside = before.count("'") % 2 or before.count('"') % 2
    return " " if inside or _JOINS.search(before[-20:]) else "; " if before else ""


def parsed(arguments: str) -> object:
    """The JSON object of a call's arguments; None: they aren't one, or are very long."""
    try:
        return json.loads(arguments) if len(arguments) <= _JSON_CHARS and arguments.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _of_built_in(tool: str, args: Mapping[str, object]) -> str:
    """The words for a look at files or pages; "" for any other."""
    path, query = args.get("path"), args.get("query")
    match tool:
        case "repo_browser.open_file" if isinstance(path, str):
            return read_line(path, args.get("line_start"), args.get("line_end"))
        case "repo_browser.list_dir" | "repo_browser.print_tree" if isinstance(path, str):
            return list_line(path)
        case "repo_browser.search" if isinstance(query, str):
            return search_line(query, path if isinstance(path, str) else "")
        case "browser.search" if isinstance(query, str):
            return search_line(query, str(args.get("source") or ""))
        case "browser.open":
            where = args.get("id")
            return f"Open {where}" if isinstance(where, str) else "Open a link" if where else "Read on"
        case "browser.find":
            return find_line(str(args.get("pattern", "")))
    return ""


def _pairs(args: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={_short(value)}" for key, value in args.items())


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"
