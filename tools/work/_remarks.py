"""Remarks on a command's result, for the model: what git could do, which files changed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ossia.tools.sandbox import Confinement
from ossia.tools.sandbox.job import Repository
from ossia.tools.spec import ToolResult
from ossia.tools.work._command import Command

_NOT_REPLACED = re.compile(r"(?:unable to (?:unlink|create)|[Cc]annot (?:unlink|create)).*Permission denied")
_SETTINGS_LOCKED = re.compile(r"^error: could not lock config file ", re.MULTILINE)
_NAMES_GIT, _GIT_FAILED = re.compile(r"\bgit\b"), re.compile(r"^(?:fatal|error): ", re.MULTILINE)


def with_git(result: ToolResult, repository: Repository | str | None, command: Command, root: Path) -> ToolResult:
    """The result; if git failed in it, with what it can do here."""
    if repository is None and _SETTINGS_LOCKED.search(result.text):
        line = "git's settings, remotes among them, stay as they are: only the user can change them"
        return replace(result, text=f"{result.text}\n[{line}]")
    failed = _GIT_FAILED.search(result.text) or result.error
    if repository is None or not failed or not _NAMES_GIT.search(command.shown):
        return result
    above = "" if os.path.lexists(root / ".git") else "; it can be changed in a workspace that is the whole repository"
    only_read = f"can only be read here, not changed{above}"
    limit = f"can't be read here: {repository}" if isinstance(repository, str) else only_read
    return replace(result, text=f"{result.text}\n[git's folder {limit}]")


def with_the_top(result: ToolResult, confinement: Confinement) -> ToolResult:
    """The result; with the reason if git couldn't replace a file where Landlock lets nobody."""
    if confinement.name != "landlock" or not _NOT_REPLACED.search(result.text):
        return result
    why = "Landlock makes, replaces and deletes no files directly at the top of the workspace; with bubblewrap git can"
    return replace(result, text=f"{result.text}\n[{why}]", notices=(*result.notices, why))


def with_notices(result: ToolResult, notices: Sequence[str]) -> ToolResult:
    """The result, with what the command did to files that run or instruct later tools: for the model and the user."""
    lines = "".join(f"\n[{line}]" for line in notices)
    return replace(result, text=result.text + lines, notices=(*result.notices, *notices)) if notices else result
