"""Patterns for a command with any arguments: of programs that no argument turns into another, or makes show a file.

Files that hold secrets are asked about by name, and `cat *` would be an answer for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_ALONE: Final = frozenset({"black", "du", "echo", "ls", "pwd", "pytest", "sha256sum", "stat", "wc"})
_SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = {
    "git": frozenset({"blame", "diff", "log", "ls-files", "shortlog", "show", "status"}),
    "ruff": frozenset({"check", "format"}),
}
"""Not `git grep`: its `-O` names a program. Nor make, npm, cargo, go, find, sort, sed, rg and mypy: an argument of
theirs can be a command, or name a program."""
_MODULES: Final = frozenset({"compileall", "json.tool", "py_compile", "pytest", "unittest"})
_FOLDER = re.compile(r"\.?venv/bin/")
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")


def prefix_of(words: Sequence[str]) -> str:
    """The pattern for the same command with any arguments; "" if these could make it run any other command.

    Tests run the files that they are given, but nothing that stands in the arguments.

        prefix_of(["python3", "-m", "unittest", "tests.test_a"])   →  "python3 -m unittest *"
        prefix_of(["python3", "a.py"])                             →  ""
    """
    fixed = 2 if tuple(words[:2]) == ("uv", "run") else 0
    program, *arguments = words[fixed:] or [""]
    program = _FOLDER.sub("", program, count=1) if _FOLDER.match(program) else program
    if program in _ALONE:
        fixed += 1
    elif arguments and arguments[0] in _SUBCOMMANDS.get(program, ()):
        fixed += 2
    elif _PYTHON.fullmatch(program) and arguments[:1] == ["-m"] and arguments[1:2] and arguments[1] in _MODULES:
        fixed += 3
    else:
        return ""
    return f"{' '.join(words[:fixed])} *"
