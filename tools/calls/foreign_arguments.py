"""Arguments meant for other programs' tools, as gpt-oss learned them → the arguments of our tools."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from ossia.tools.calls.patch_commands import BEGIN, command_patch

EXEC, PATCH_TOOL = "container.exec", "repo_browser.apply_patch"
_FOLDER = ("dir", "directory", "folder", "dir_path", "directory_path")
_FILE = ("file_path", "file", "filename", "filepath", "target_file")

# Other names for our arguments, as models and other programs write them. Used only if ours isn't given and the tool has
# no argument of that name.
_OTHER_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    EXEC: {
        "command": ("cmd", "commands", "script", "code", "input", "bash"),
        "workdir": ("cwd", "working_directory"),
        "timeout": ("timeout_ms",),
    },
    "repo_browser.open_file": {
        "path": _FILE,
        "line_start": ("start_line", "start", "offset", "from_line", "line"),
        "line_end": ("end_line", "end", "to_line"),
    },
    "repo_browser.list_dir": {"path": (*_FOLDER, *_FILE)},
    "repo_browser.print_tree": {"path": (*_FOLDER, *_FILE)},
    "repo_browser.search": {
        "query": ("pattern", "regex", "search", "q", "text"),
        "path": (*_FOLDER, *_FILE),
        "max_results": ("limit", "topn"),
    },
    PATCH_TOOL: {"patch": ("input", "diff", "patch_text", "text")},
}
_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "repo_browser.list_dir": {"path": ""},
    "repo_browser.print_tree": {"path": "", "depth": 2},
    "repo_browser.search": {"path": ""},
}
"""For arguments that models leave out although they are required."""


def from_other_tools(name: str, value: object, schema: Mapping[str, object]) -> object:
    """The arguments of one of our tools by its own names; those of any other tool as they are.

        from_other_tools("container.exec", {"cmd": "ls -l"}, …)      →  {"command": ["bash", "-lc", "ls -l"]}
    """
    if name not in _OTHER_NAMES:
        return value
    if name == PATCH_TOOL:
        patch = _one_patch(value)
        return value if patch is None else {"patch": patch}
    if isinstance(value, list) and name == EXEC:
        value = {"command": value}
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties")
    own = properties if isinstance(properties, Mapping) else {}
    args = dict(value)
    for ours, others in _OTHER_NAMES[name].items():
        found = [other for other in others if other in args and other not in own]
        if ours not in args and found:
            given = args.pop(found[0])
            args[ours] = _as_timeout(given) if found[0] == "timeout_ms" else given
    if name == EXEC:
        args |= _as_words(args.get("command"), schema)
    return {**_DEFAULTS.get(name, {}), **args}


def _as_timeout(ms: object) -> object:
    """Milliseconds in a form that `timeout` takes for them: fewer than 1,000 would be seconds there."""
    try:
        number = float(ms) if isinstance(ms, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return ms
    return number / 1000 if number < 1000 else ms


def _one_patch(value: object) -> str | None:
    """The text of a patch in `{"anything": patch}` or `{"command": ["apply_patch", patch]}`; None: there isn't one."""
    if isinstance(value, dict):
        value = next(iter(value.values())) if len(value) == 1 else value.get("patch")
    words = value if isinstance(value, list) else [value]
    patches = [word for word in words if isinstance(word, str) and (BEGIN in word or len(words) == 1)]
    return patches[0] if len(patches) == 1 else None


def _as_words(command: object, schema: Mapping[str, object]) -> dict[str, object]:
    """A command that was written as one text, as the list that runs it; nothing to change: `{}`."""
    if isinstance(command, list) and len(command) == 1:
        command = command[0]
        if not isinstance(command, str) or not re.search(r"\s", command.strip()):
            return {}
    if not isinstance(command, str):
        return {}
    value: object = command
    with suppress(ValueError, RecursionError):  # it is no JSON: a line for a shell
        while isinstance(value, str) and value.lstrip().startswith(("[", "{", '"')):
            value = json.loads(value)
    if isinstance(value, dict):
        return cast("dict[str, object]", from_other_tools(EXEC, value, schema))
    is_words = isinstance(value, list) and value and all(isinstance(word, str) for word in value)
    return {"command": value if is_words else ["bash", "-lc", command]}


def patch_in(name: str, args: object) -> str | None:
    """A patch that was sent to `container.exec` as a command, for `repo_browser.apply_patch`.

    None for any other command; nothing else may be in it than `apply_patch` and `cd` to a folder.
    """
    asked = args if name == EXEC and isinstance(args, dict) else {}
    words = asked.get("command")
    if not isinstance(words, list) or not words:
        return None
    return command_patch([str(word) for word in words], str(asked.get("workdir") or ""))
