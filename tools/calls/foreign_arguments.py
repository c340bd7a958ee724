"""Arguments meant for other programs' tools, as gpt-oss learned them → the arguments of our tools."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

_SHELL, PATCH_TOOL = "functions.shell", "functions.apply_patch"

# Other programs' names for our arguments. Used only if ours isn't given and the tool has no argument of that name.
_OTHER_NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    _SHELL: {"command": ("cmd", "script", "code", "input", "commands", "bash"), "timeout": ("timeout_s",)},
    "functions.read_file": {
        "path": ("file", "filename", "file_path", "filepath", "target_file"),
        "start": ("line_start", "start_line", "offset", "from_line", "line"),
        "limit": ("max_lines", "num_lines", "lines", "line_count"),
    },
    "functions.list_dir": {"path": ("dir", "directory", "folder", "dir_path", "directory_path")},
    "functions.grep": {
        "pattern": ("query", "regex", "search", "q", "text"),
        "path": ("dir", "directory", "folder", "file", "file_path"),
    },
    "functions.write_file": {
        "path": ("file", "filename", "file_path", "filepath", "target_file"),
        "content": ("contents", "text", "data", "file_text", "body"),
    },
}
_ENDS = ("line_end", "end_line", "end", "to_line")
_MS_FROM = 1000
"""A `timeout` of this or more is in milliseconds, as for container.exec; ours are seconds, at most 600."""

_RUNS = re.compile(r"(?:/(?:usr/)?bin/)?(?:ba|z|da|k)?sh")
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_HEREDOC = re.compile(r"""(?:apply_?patch)\s+<<-?\s*(['"]?)(\w+)\1[ \t]*\n(.*)\n\2\s*""", re.DOTALL)


def from_other_tools(name: str, value: object, schema: Mapping[str, object]) -> object:
    """The arguments of tool `name` by its own names: `{"cmd": ["bash", "-lc", "ls"]}` becomes `{"command": "ls"}`."""
    properties = schema.get("properties")
    own = properties if isinstance(properties, Mapping) else {}
    if name == PATCH_TOOL:
        patch = _one_patch(value)
        return value if patch is None else {"patch": patch} if "patch" in own else patch
    if isinstance(value, list):
        if name != _SHELL:
            return value
        value = {"command": value}
    if not isinstance(value, dict):
        return value
    args = dict(value)
    for ours, others in _OTHER_NAMES.get(name, {}).items():
        found = [other for other in others if other in args and other not in own]
        if ours in own and ours not in args and found:
            args[ours] = args.pop(found[0])
    if name == _SHELL:
        _mend_shell(args)
    elif name == "functions.read_file":
        _mend_range(args, own)
    return args


def _one_patch(value: object) -> str | None:
    """The text of a patch in `{"anything": patch}` or `{"command": ["apply_patch", patch]}`; None: there isn't one."""
    if isinstance(value, dict):
        value = next(iter(value.values())) if len(value) == 1 else value.get("patch")
    words = value if isinstance(value, list) else [value]
    patches = [word for word in words if isinstance(word, str) and (_BEGIN in word or len(words) == 1)]
    return patches[0] if len(patches) == 1 else None


def _mend_shell(args: dict[str, object]) -> None:
    command = args.get("command")
    if isinstance(command, str) and command.lstrip().startswith("["):
        command = _list_in(command) or command
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        args["command"] = _as_text(command)
    timeout = args.pop("timeout_ms", None)
    if timeout is None and isinstance(args.get("timeout"), int | float):
        given = args["timeout"]
        timeout = given if isinstance(given, int | float) and given >= _MS_FROM else None
    if isinstance(timeout, int | float):
        args["timeout"] = timeout / 1000
    if args.get("workdir") in (".", "./"):
        del args["workdir"]


def _list_in(text: str) -> list[object] | None:
    """The words of a command array that was written as text; None: it is a command that begins with a bracket."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and value and all(isinstance(word, str) for word in value) else None


def _as_text(words: list[str]) -> str:
    """The words as one command; the text itself if a shell was to run it."""
    if len(words) == 3 and _RUNS.fullmatch(words[0]) and words[1] in ("-c", "-lc", "-cl", "-ic", "-lic"):
        return words[2]
    if len(words) == 1:
        return words[0]
    if len(words) == 2 and words[0] in ("apply_patch", "applypatch"):
        return words[1]
    return shlex.join(words)


def _mend_range(args: dict[str, object], own: Mapping[str, object]) -> None:
    """Turn `line_end` into a number of lines."""
    end = next((key for key in _ENDS if key in args and key not in own), None)
    if end is None or "limit" not in own or "limit" in args:
        return
    last, start = args[end], args.get("start", 1)
    if isinstance(last, int) and isinstance(start, int) and last >= start:
        del args[end]
        args["limit"] = last - start + 1


def patch_in(name: str, args: object) -> str | None:
    """A patch sent to the shell in place of a command: bare, after `apply_patch`, or as its here-document; else None.

    Nothing else may be around it: `cd x && apply_patch …` is a command.
    """
    command = args.get("command") if name == _SHELL and isinstance(args, dict) else None
    if not isinstance(command, str):
        return None
    text = command.strip()
    heredoc = _HEREDOC.fullmatch(text)
    if heredoc:
        text = heredoc[3].strip()
    elif text.startswith(("apply_patch", "applypatch")):
        text = text.partition("patch")[2].strip()
        if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1].strip()
    return text if text.startswith(_BEGIN) and text.endswith(_END) else None
