"""The arguments of a call: parsed as models write them, fitted to the tool's schema, and validated by it.

Arguments meant for other programs' tools, as gpt-oss learned them, become those of the built-in tools.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from ossia.tools.calls.checked import CheckTooLong, faults
from ossia.tools.calls.coerce import MAX_CHARS, Misfit, NotJsonError, first_value, fitted, innermost, mapping, unfenced
from ossia.tools.calls.names import resolve_name
from ossia.tools.calls.patch_commands import BEGIN, command_patch
from ossia.tools.spec import ToolFailed, ToolSpec

NO_ARGUMENTS: Mapping[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of a tool without arguments."""
_SHOWN_CHARS = 600
_WRAPPER_NAMES = frozenset({"name", "tool", "function", "recipient"})
_WRAPPERS = ("parameters", "arguments", "args", "kwargs", "input")
_IS_SHELL = re.compile(r"""\[\[?\s(?!\s*["'][^"']*["']\s*(?:,|\]?\Z))|\{\s(?!\s*(?:["']|\w+\s*:))""")
"""A line for a shell, `[ -f a ] && …` or `{ ls; }`, and no broken JSON, where a text and a comma or a colon follow."""
_IS_TEST = re.compile(r"\[\s[^\],]*\s\]\s*(?:&&|\|\|)")
"""`[ "$x" ] && …`: its beginning would be JSON."""
EXEC, PATCH_TOOL = "container.exec", "repo_browser.apply_patch"
_FOLDER = ("dir", "directory", "folder", "dir_path", "directory_path")
_FILE = ("file_path", "file", "filename", "filepath", "target_file")
# Other names of arguments, as models and other programs write them. Used only if the right one isn't given and the tool
# has no argument of the other name.
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


class ArgumentReader:
    """Reads the arguments of one tool's calls."""

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec
        self._schema = spec.parameters or NO_ARGUMENTS

    def read(self, text: str) -> object:
        """The arguments in the tool's form: a dict, or `text` itself for a tool that takes raw text.

        Mistakes that models are known to make are repaired: a Markdown fence, junk after the first JSON value
        (`{"n": 2}]`), a wrapper that names the tool again, trailing commas, single quotes, `"3"` for 3, other names of
        an argument, bare text for a tool that takes one text. No text at all is `{}`. Raises `ToolFailed`, which tells
        the model what was expected.
        """
        spec = self._spec
        if len(text) > MAX_CHARS:
            raise ToolFailed(f"Error: the arguments of {spec.name} are too long ({len(text)} characters). Send less.")
        if spec.input == "text":
            return text
        try:
            args = fitted(self._in_form(text), self._schema)
        except NotJsonError as error:
            raise ToolFailed(f"Error: the arguments of {spec.name}: {error}. Send one JSON object.") from None
        except Misfit as error:
            raise ToolFailed(f"Error: {spec.name}: {error}. Expected {self._expected()}") from None
        self._check(args)
        return args

    def _in_form(self, text: str) -> object:
        """The value in the text, unwrapped, with the tool's own names."""
        bare = unfenced(text)
        key = self._text_key()
        if key is not None and bare and not bare.startswith(("{", "[", '"')):
            return bare if key == "" else from_other_tools(self._spec.name, {key: bare}, self._schema)
        if key is None and "{" in bare and not bare.startswith(("{", "[", '"')):
            bare = bare[bare.index("{") :]
        try:
            value = bare if self._is_shell(bare) else self._unwrapped(self._decoded(bare or "{}"))
        except NotJsonError:
            if self._spec.name != EXEC or not _IS_SHELL.match(bare):
                raise
            value = bare
        if isinstance(value, str) and key:
            value = {key: value}
        if isinstance(value, dict | list):
            value = from_other_tools(self._spec.name, value, self._schema)
        if key == "" and isinstance(value, dict) and len(value) == 1:
            return next(iter(value.values()))  # `{"text": "…"}` when the text itself is wanted
        return value

    def _is_shell(self, text: str) -> bool:
        """True for a line for a shell that begins as JSON does: `[ "$x" ] && ls`, `"my program" -v`."""
        if self._spec.name != EXEC or not text.startswith('"'):
            return self._spec.name == EXEC and _IS_TEST.match(text) is not None
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text)
        except ValueError:
            return False
        return bool(text[end:].strip()) and not value.lstrip().startswith(("{", "["))

    def _decoded(self, text: str) -> object:
        """The JSON value in a text; if that is a text that holds the arguments as JSON, those."""
        value, inner = first_value(text), innermost(text)
        if self._schema.get("type") == "string" or (isinstance(value, str) and self._is_shell(value.strip())):
            return value
        of_words = self._spec.name in (EXEC, PATCH_TOOL)
        return inner if isinstance(inner, dict | list if of_words else dict) else value

    def _text_key(self) -> str | None:
        """The one argument that raw text stands for; "" if the arguments themselves are a text; else None."""
        if self._schema.get("type") == "string":
            return ""
        properties = mapping(self._schema.get("properties"))
        required = self._schema.get("required")
        keys = list(required) if isinstance(required, list | tuple) and required else list(properties)
        is_text = len(keys) == 1 and mapping(properties.get(keys[0])).get("type") == "string"
        return keys[0] if is_text or (keys and self._spec.name == EXEC) else None

    def _unwrapped(self, value: object) -> object:
        """The inner arguments of `{"name": …, "parameters": {…}}`, unless the tool has such arguments itself."""
        own = mapping(self._schema.get("properties"))
        if not isinstance(value, dict) or not own.keys().isdisjoint(_WRAPPERS) or self._spec.parameters is None:
            return value
        for key in _WRAPPERS:
            names = value.keys() - {key}
            if not names <= _WRAPPER_NAMES or not all(self._is_me(value[name]) for name in names):
                continue
            inner = value.get(key)
            if isinstance(inner, str) and (names or key == "arguments"):
                with suppress(NotJsonError):
                    inner = self._decoded(inner)
            if isinstance(inner, dict):
                return inner
        return value

    def _is_me(self, name: object) -> bool:
        """True if a wrapper's name means this tool, as a call's would: `"bash"` means `container.exec`."""
        return isinstance(name, str) and resolve_name(name, (self._spec.name,)) is not None

    def _check(self, args: object) -> None:
        try:
            fault = next(faults(args, self._schema), None)
        except CheckTooLong as error:
            raise ToolFailed(f"Error: the arguments of {self._spec.name} can't be checked: {error}") from None
        if fault is not None:
            place = "/".join(map(str, fault.absolute_path)) or "arguments"
            raise ToolFailed(
                f"Error: {place} of {self._spec.name}: {_short(fault.message)}. Expected {self._expected()}"
            )

    def _expected(self) -> str:
        return json.dumps(self._schema, ensure_ascii=False, default=str)[:_SHOWN_CHARS]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS // 2]} … {text[-_SHOWN_CHARS // 2 :]}"


# -- arguments meant for other programs --------------------------------------------------------------------------------


def from_other_tools(name: str, value: object, schema: Mapping[str, object]) -> object:
    """The arguments of a built-in tool by its own names; those of any other tool as they are.

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
    """The text of a patch in `{"anything": patch}` or `{"command": ["apply_patch", patch]}`; None without one."""
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
