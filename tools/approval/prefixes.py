"""Patterns for a command with any arguments: of programs that run no other, and show and write no file named in them.

Files that hold secrets are asked about by name, and `cat *` would be an answer for all of them. Other programs show a
line of what they can't read (`git blame --contents`, `ruff check`): no pattern stands for a secret's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ossia.tools.approval.sensitive import of_reading

_ALONE: Final = frozenset({"black", "du", "echo", "ls", "pwd", "pytest", "sha256sum", "stat", "wc"})
_SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = {
    "git": frozenset({"blame", "diff", "log", "ls-files", "shortlog", "show", "status"}),
    "ruff": frozenset({"check", "format"}),
}
"""Not `git grep`: its `-O` names a program. Nor make, npm, cargo, go, find, sort, sed, rg and mypy: an argument of
theirs can be a command, or name a program."""
_MODULES: Final = frozenset({"compileall", "py_compile", "pytest", "unittest"})
_NOT_ANY: Final[Mapping[str, re.Pattern[str]]] = {
    "git": re.compile(r"--(?:output(?!-)|no-index).*"),
    "ruff": re.compile(r"-o.*|--output-file.*"),
    "pytest": re.compile(
        r"@.*|-(?!-)\w*[oc].*|--(?:basetemp|config-file|debug|junit-?xml|log-file|override-ini|px|rsyncdir|tx)(?:=.*)?"
    ),
    **dict.fromkeys(("du", "wc"), re.compile("--files0.*")),
}
"""Arguments that name a file to write, to empty or to show, or a program (pytest-xdist's): no pattern stands for them.
`git log --format=… --output=x` writes any text into any file."""
_FOLDER = re.compile(r"\.?venv/bin/")
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")


def prefix_of(words: Sequence[str]) -> str:
    """The pattern for the same command with any arguments; "" if these could make it run any other command.

    Tests run the files that they are given, but nothing that stands in the arguments.

        prefix_of(["python3", "-m", "unittest", "tests.test_a"])   →  "python3 -m unittest *"
        prefix_of(["python3", "a.py"])                             →  ""
        prefix_of(["git", "log", "--output=a.py"])                 →  ""
    """
    prefix, unfit = _prefix_and_unfit(words)
    return "" if unfit else prefix


def is_beyond(pattern: str, words: Sequence[str]) -> bool:
    """True if a pattern of `prefix_of` matches these arguments, but doesn't stand for them."""
    prefix, unfit = _prefix_and_unfit(words)
    return unfit and pattern == prefix


def _prefix_and_unfit(words: Sequence[str]) -> tuple[str, bool]:
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
        return "", False
    not_any = _NOT_ANY.get(arguments[1] if program.startswith("python") else program)
    rest = words[fixed:]
    unfit = not_any is not None and any(map(not_any.fullmatch, rest))
    unfit = unfit or any(of_reading(*re.split("[=:]", word)) for word in rest)
    return f"{' '.join(words[:fixed])} *", unfit
