"""Which files a `.gitignore` excludes: git's patterns, read from the folders themselves, without running git.

Not covered: `.git/info/exclude`, the user's global excludes, and files that are tracked although a pattern names them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NAME: Final = ".gitignore"
_MAX_PATTERNS: Final = 2_000  # of one file
_PIECE: Final = re.compile(r"/\*\*/|^\*\*/|/\*\*$|\*+|\?|\\.|\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD: Final = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[str]
    keeps: bool  # `!pattern`
    folders: bool  # `pattern/`


@dataclass(frozen=True, slots=True)
class Ignores:
    """The patterns that apply in a folder: from its own `.gitignore` and those of the folders above it.

    Ignores().within("", "*.log\\nbuild/").ignored("a/x.log", folder=False) → True. Paths are relative to where the walk
    began, with `/`.
    """

    _patterns: tuple[_Pattern, ...] = ()

    def within(self, folder: str, text: str) -> Ignores:
        """These patterns, and those of `text`, the `.gitignore` of `folder` ("" is where the walk began)."""
        lines = text.splitlines()[:_MAX_PATTERNS]
        return Ignores(self._patterns + tuple(found for line in lines if (found := _pattern(folder, line))))

    def ignored(self, path: str, *, folder: bool) -> bool:
        """Whether the last matching pattern excludes it."""
        for pattern in reversed(self._patterns):
            if (folder or not pattern.folders) and pattern.regex.fullmatch(path):
                return not pattern.keeps
        return False


def _pattern(folder: str, line: str) -> _Pattern | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    line = line[1:] if keeps else line.removeprefix("\\")
    folders = line.endswith("/")
    line = line.rstrip("/")
    if not line or "[" in _PIECE.findall(line):  # as in git, an unclosed set matches nothing
        return None
    prefix = re.escape(folder + "/") if folder else ""
    anywhere = "" if "/" in line else "(?:.*/)?"
    translated = "".join(_piece(match[0]) for match in _PIECE.finditer(line.removeprefix("/")))
    try:
        regex = re.compile(prefix + anywhere + translated, re.DOTALL)
    except re.error:  # a set like [z-a]
        return None
    return _Pattern(regex, keeps, folders)


def _piece(piece: str) -> str:
    if piece in _WILD:
        return _WILD[piece]
    if piece.startswith("*"):
        return "[^/]*"
    if piece.startswith("[") and len(piece) > 2:
        inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' + inner[1:] if inner.startswith('!') else inner}]"
    return re.escape(piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece)
