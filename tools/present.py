"""A tool's calls as a person reads and edits them; also recorded calls, whose tool may be off."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from ossia.tools.approval.shell_words import one_line_of
from ossia.tools.calls.names import work_tool


@dataclass(frozen=True, slots=True)
class Present:
    """The form of a tool's calls.

    `argument`: the one that is read and edited alone, as a text in `language`; "": the arguments are such a text; None:
    they are read and edited as JSON. `suffix`: that of a file to edit it in. `is_command`: the argument holds the words
    of a command, and the text is a line for a shell.

        COMMAND.text({"command": ["bash", "-lc", "pytest -q"]})                       # "pytest -q"
        COMMAND.edited({"command": ["ls"], "timeout": 9}, "ls -l")                    # {"command": ["bash", "-lc", …
        COMMAND.short({"command": ["ls"], "workdir": "a b"})                          # "cd 'a b' && ls"
    """

    argument: str | None = None
    language: str = "json"
    suffix: str = ".json"
    is_command: bool = False

    def text(self, args: object) -> str | None:
        """The text of a call's arguments (parsed); None if they have to be read as JSON."""
        value = args if self.argument == "" else args.get(self.argument) if isinstance(args, Mapping) else None
        if self.is_command and isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return one_line_of(value)
        return value if isinstance(value, str) else None

    def edited(self, args: object, text: str) -> object:
        """The arguments with another text."""
        value = ["bash", "-lc", text] if self.is_command else text
        return {**args, self.argument: value} if self.argument and isinstance(args, Mapping) else value

    def short(self, args: object) -> str | None:
        """A command on one line, with its folder; None without a command."""
        command = self.text(args) if self.is_command else None
        folder = args.get("workdir") if isinstance(args, Mapping) else None
        return f"cd {shlex.quote(folder)} && {command}" if command and folder and isinstance(folder, str) else command


CODE = Present("", "python", ".py")
COMMAND = Present("command", "bash", ".sh", is_command=True)
PATCH = Present("patch", "diff", ".patch")
JSON = Present()
_RECORDED = {"python": CODE, "container.exec": COMMAND, "repo_browser.apply_patch": PATCH}


def present_of(name: str) -> Present:
    """The form of a recorded call, by its name as the model wrote it (`"bash"` is `container.exec`)."""
    return _RECORDED.get(work_tool(name) or name, JSON)
