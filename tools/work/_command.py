"""The command of a call of `container.exec`, read from its arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ossia.tools.approval.shell_words import one_line_of, script_of
from ossia.tools.calls.patch_commands import applies_a_patch
from ossia.tools.safe_files import locate
from ossia.tools.spec import ToolFailed
from ossia.tools.work._folder import as_mapping

DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 60.0, 600.0
_SECONDS_BELOW = 1_000
"""A `timeout` below this is meant as seconds: models write 10 as well as 10000."""
_MAX_BYTES = 100_000
"""Linux allows 128 KiB for one argument of a command."""
_IS_PATCH = re.compile(r"\s*(?:\w+\.)?apply_?patch\b", re.IGNORECASE)
_IS_JSON = re.compile(r"""\s*(?:\{\s*"[^"]*"\s*:|\["|\[\s*"[^"]*"\s*,)""")
"""The beginning of a call as JSON, which is no line for a shell."""
_ASKS = re.compile(r"[:?>)\]$#] \n?\Z|[:?]\Z")
"""The end of a question, or a prompt: it ends with a blank, or no line."""
_REPLS = re.compile(r"(?:.*/)?(?:python|node|sqlite3|bash|sh|bc)[\d.]*")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run: `text` for a shell where the call was `["bash", "-lc", text]`, else the `words` of a program.

    `folder`: its real name in the workspace. `-l` is taken as `-c`: there are no profile files of the user's.
    """

    words: tuple[str, ...]
    text: str | None
    folder: str
    timeout_s: float

    @property
    def shown(self) -> str:
        """As a person reads it and rules match it, as one line. To a rule `cd x && …` is never simple."""
        line = one_line_of(self.words)
        return line if self.folder == "." else f"cd {shlex.quote(self.folder)} && {line}"

    @classmethod
    def of(cls, args: object, root: Path) -> Command:
        """The command of a call in a workspace. Raises `ToolFailed` for one that can't run."""
        asked = as_mapping(args)
        words = cast(Sequence[str], asked["command"])
        text = script_of(words)
        if not (words[0] if text is None else text).strip():
            raise ToolFailed("Error: `command` is empty: give a program and its arguments, or bash, -lc and a command")
        if words[0].startswith("-"):
            raise ToolFailed(f"Error: {words[0]!r} is no program: begin `command` with one")
        if _IS_PATCH.match(text or words[0]) or applies_a_patch(words):
            raise ToolFailed(
                "Error: apply_patch is not a program: call the tool repo_browser.apply_patch with the patch itself, "
                "from `*** Begin Patch` to `*** End Patch`, as its argument, and run other commands by themselves"
            )
        if _IS_JSON.match(text or words[0]):
            raise ToolFailed("Error: `command` holds JSON as a text: send the list of its words, not quoted")
        if any("\0" in word for word in words):
            raise ToolFailed("Error: `command` holds a null character: send plain text")
        try:
            size = sum(len(word.encode()) + 1 for word in words)
        except UnicodeEncodeError:
            raise ToolFailed("Error: `command` holds a lone surrogate, half a character: send plain text") from None
        if size > _MAX_BYTES:
            raise ToolFailed(
                f"Error: `command` may have at most {_MAX_BYTES} bytes, it has {size}: write a script with "
                "repo_browser.apply_patch and run that"
            )
        place = locate(root, str(asked.get("workdir", "")))
        if place.kind != "folder":
            raise ToolFailed(f"Error: workdir {asked['workdir']!r} is no folder of the workspace. Leave it out.")
        return cls(tuple(words), text, place.name, _timeout_s(asked.get("timeout")))


def _timeout_s(timeout: object) -> float:
    if not isinstance(timeout, int | float) or not timeout > 0:  # or nan
        return DEFAULT_TIMEOUT_S
    if timeout >= MAX_TIMEOUT_S * 1000:  # before dividing: a whole number of 400 digits is no float
        return MAX_TIMEOUT_S
    return min(timeout if timeout < _SECONDS_BELOW else timeout / 1000, MAX_TIMEOUT_S)


def remark_on(output: str, *, left: str, words: Sequence[str]) -> str:
    """A line for the model about a command that ended by itself: what ended with it, or wanted an answer; "" if none.

    `left`: what it left running; `words`: of a program that no shell ran.

        remark_on("Proceed? [Y/n] ", left="", words=())    # "[nobody can answer: its input is empty, and …]"
    """
    if left:
        return f"[ended with the command: {left}. A server and its client belong in one command]"
    if _ASKS.search(output) or (not output and len(words) == 1 and _REPLS.fullmatch(words[0])):
        return "[nobody can answer: the command's input is empty, and there is no terminal]"
    return ""
