"""Files that run or instruct later tools ("autorun"): by their names, and by what lies beside them.

They are all whose name begins with a dot, and a short list. The list holds what a program runs or obeys because it
lies there, when the program is started for something else; a project's own build and tests aren't in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ossia.tools.own import way

WHY = "which runs or instructs later tools"
NAMES = (
    ("instructions for agents", ("AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md",
                                 "GEMINI.md", "QWEN.md", "CRUSH.md", "WARP.md", "SKILL.md")),
    ("settings of agents", ("mcp.json", "opencode.json", "opencode.jsonc", "crush.json")),
    ("hooks of git", ("git~1", "lefthook.*", "lefthook-local.*")),
    ("editors", ("*.code-workspace", "_vimrc", "_gvimrc", "_exrc")),
    ("tools and environments of a folder", ("mise.toml", "mise.*.toml", "flake.nix", "shell.nix", "devenv.nix",
                                            "devbox.json")),
    ("languages at their start", ("sitecustomize", "sitecustomize.*", "usercustomize", "usercustomize.*", "*.pth",
                                  "pyvenv.cfg", "bunfig.toml", "startup.m", "rootlogon.C")),
    ("logins", ("LaunchAgents", "LaunchDaemons")),
)  # fmt: skip
"""The names without a dot at their beginning; `*` is any part of a name. The table in docs/approvals.md is this one."""
CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".coverage", ".hypothesis", ".ipynb_checkpoints",
          ".rustc_info.json", ".cargo-lock", ".fingerprint", ".eslintcache", ".nyc_output")  # fmt: skip
"""These don't count, nor does a `.gitignore` in one of them."""
HOLDERS = (".venv", ".tox", ".nox", ".pnpm")
"""Files of a package in one of these are judged by the rest of their path."""
SITE = ("site-packages", "dist-packages")
_PACKAGES = ("node_modules", *SITE)
_GIT = (".git", "git~1")
_GIT_SETTINGS = ("config", "config.worktree", "commondir", "hooks", "info")
_GIT_DATA = ("objects", "refs", "logs", "lfs")
_BARE_SETTINGS = ("config", "config.worktree", "commondir", "hooks")
BARE = ("head", *_BARE_SETTINGS)
_PROGRAMS = ("bin", "scripts")
_MAX_PATH_CHARS = 4_096
_NAMES_KEPT = 1 << 16  # most names in a project come again and again

_IGNORED = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""Some file systems of macOS ignore these: `.g\u200cit` opens `.git` there (CVE-2014-9390)."""
_AT_THE_END = re.compile(r"(?<=[^/. ])[. ]+(?=/|\Z)")
"""Those of Windows ignore these: `.git.` opens `.git`, even on a Windows disk under Linux."""


def pattern_of(names: Iterable[str]) -> re.Pattern[str]:
    """Matches one part of a path, in lower case, that has one of the names."""
    return re.compile("|".join(re.escape(name.casefold()).replace(r"\*", ".*") for name in names))


_NAMED = pattern_of((".*", *(name for _, names in NAMES for name in names)))


@lru_cache(maxsize=_NAMES_KEPT)
def plain(path: str) -> str:
    """A path normalised for comparing: lower case, since a file system may ignore case."""
    folded = (path if path.isascii() else _IGNORED.sub("", path)).casefold()
    ends = folded.endswith((".", " ")) or "./" in folded or " /" in folded  # most have none, and a search is slow
    return _AT_THE_END.sub("", folded) if ends else folded


@lru_cache(maxsize=_NAMES_KEPT)
def is_named(name: str) -> bool:
    """Is one part of a path, which is `plain`, such a name?"""
    return _NAMED.fullmatch(name) is not None


Inside = Literal["", "cache", "place", "holder", "held", "packages", "package", "git", "data"]


@dataclass(frozen=True, slots=True)
class Spot:
    """A path, judged part by part: `Spot().below("a").below(".vscode").part` is `"a/.vscode"`.

    `part`: the topmost name that makes it one; "" if there is none. `counts`: it runs or instructs later tools itself.
    `inside`: the kind of folder that it is or lies in, if it is a folder.
    """

    path: str = ""
    part: str = ""
    inside: Inside = ""
    counts: bool = False

    def below(self, name: str) -> Spot:
        """The spot of an entry of this folder."""
        path, folded = f"{self.path}/{name}" if self.path else name, plain(name)
        part, inside, counts = self._judged(path, folded)
        return Spot(path, part, inside, counts)

    def _judged(self, path: str, name: str) -> tuple[str, Inside, bool]:
        part = self.part
        if (name in _GIT or name.endswith(".git")) and self.inside != "data":
            return path, "git", True
        match self.inside:
            case "place":
                return part, "place", True
            case "git" if name in _GIT_SETTINGS:
                return part, "place", True
            case "git" | "data":
                return part, "data" if self.inside == "data" or name in _GIT_DATA else "git", False
            case "holder" | "held" if name in _PACKAGES:
                return part if _is_of(part, _PACKAGES) else path, "packages", True
            case "holder" | "held":
                return path if self.inside == "holder" and name in _PROGRAMS else part, "held", True
            case "packages":
                directly = _is_of(self.path, SITE) and name != "__pycache__"
                inside: Inside = "held" if name in HOLDERS else "place" if is_named(name) else "package"
                return part, inside, directly or inside != "package"
            case "package" if name in _PACKAGES:
                return part, "packages", False
            case "package":
                return part, "place" if is_named(name) else "package", is_named(name)
        if name in CACHES or (self.inside == "cache" and name == ".gitignore"):
            return "", "cache", False
        if name in HOLDERS:
            return path, "holder", True
        if name in _PACKAGES:
            return path, "packages", False
        return (path, "place", True) if is_named(name) else ("", "", False)


def _is_of(path: str, names: tuple[str, ...]) -> bool:
    return plain(path.rpartition("/")[2]) in names


def part_of(path: str) -> str:
    """The topmost part of a path that runs or instructs later tools, by names alone; "" without one."""
    if len(path) > _MAX_PATH_CHARS:  # no such file can be
        return path
    spot = Spot()
    for name in path.split("/"):
        if name not in ("", "."):
            spot = spot.below(name)
            if spot.inside == "place":
                break
    return spot.part if spot.counts or spot.inside in ("git", "data") else ""


def runs_beside(path: str, exists: Callable[[str], bool]) -> bool:
    """Is it such a file for what lies beside it?

    `config` and `hooks/…` beside a `HEAD`, or that `HEAD` (a repository to git); `bin/…` beside a `pyvenv.cfg`.
    """
    parts = path.split("/")
    for at, part in enumerate(parts):
        name, here = plain(part), "".join(f"{above}/" for above in parts[:at])
        if name in _PROGRAMS and at < len(parts) - 1 and exists(f"{here}pyvenv.cfg"):
            return True
        others = _BARE_SETTINGS if name == "head" else ("HEAD",)
        if (name == "hooks" or (name in BARE and at == len(parts) - 1)) and any(exists(here + one) for one in others):
            return True
    return False


def is_bare(names: set[str]) -> bool:
    """Does git take a folder with these plain names for a repository?"""
    return "head" in names and not names.isdisjoint(_BARE_SETTINGS)


def has_programs(names: set[str], name: str) -> bool:
    """Is `name` the folder of programs of a Python environment that holds these plain names?"""
    return name in _PROGRAMS and "pyvenv.cfg" in names


def linked_at_the_top(root: Path) -> dict[str, str]:
    """The targets of links with such names at the top: `{"docs/notes.md": "CLAUDE.md"}`.

    Each further link on the way counts, too: who changes that one changes where the first one leads.
    """
    found = {}
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.is_symlink() and part_of(entry.name)]
    for name in names:
        for real in way(root / name, missing=True):
            if real not in (root, root / name) and real.is_relative_to(root):
                found[real.relative_to(root).as_posix()] = name
    return found


def link_to(path: str, links: dict[str, str]) -> str:
    """The place among `links` that a path is or lies in; "" without one."""
    return next((real for real in links if path == real or path.startswith(f"{real}/")), "")
