"""The settings, hooks and the like of a git folder: copied for a command, and never taken over."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from ossia.tools.names import escaped
from ossia.tools.sandbox.git._files import GitRefused, files_below, read, write_new
from ossia.tools.sandbox.repository import settings_of
from ossia.tools.tree import opened_below

_FILES = ("config", "config.worktree", "shallow")
_FOLDERS = ("info", "hooks")
_PARTS = ("worktrees", "modules")
_MAX_BYTES = 16 << 20
_KNOWN = ("objectformat", "worktreeconfig", "noop", "preciousobjects")
_NOT_COPIED = ("lfs", "objects/info/alternates", "reftable")


def checked(root: Path, own: Path, common: Path) -> str:
    """The name of the hash of a repository that can be copied, `"sha1"`. Raises `GitRefused`."""
    for name in ("objects", "refs"):
        if not stat.S_ISDIR((common / name).lstat().st_mode):
            raise GitRefused(f"{common / name} is no folder")
    for path in (common / "objects").iterdir():
        if path.is_symlink():  # new objects would be written where it leads
            raise GitRefused(f"objects/{escaped(path.name)} is a link")
    settings: dict[str, str] = {}
    for path in dict.fromkeys((common / "config", common / "config.worktree", own / "config.worktree")):
        settings |= {key: value or "true" for key, value in settings_of(path)}
    unknown = [key for key in settings if key.startswith("extensions.") and key.partition(".")[2] not in _KNOWN]
    unknown += [key for key, value in settings.items()
                if (key in ("core.splitindex", "index.sparse") or re.fullmatch(r"remote\..*\.promisor", key))
                and value != "false"]  # fmt: skip
    if unknown:
        raise GitRefused(f"ossia can't work with its setting {unknown[0]}")
    if own == common and settings.get("core.bare") == "true":
        raise GitRefused("it is a bare repository")
    tree = settings.get("core.worktree")
    if tree and own == common and (own / tree).resolve() != root:
        raise GitRefused(f"its work tree is {tree}")
    for name in _NOT_COPIED:
        if (common / name).exists():
            raise GitRefused(f"it has {name}, which ossia can't work with")
    return settings.get("extensions.objectformat", "sha1")


class Fixed:
    """The files that stay as they are in the `real` folder and its `copy`. `texts`: of a file, the part to be read."""

    def __init__(self, real: Path, copy: Path, texts: Mapping[Path, str]) -> None:
        self._real, self._copy, self._texts = real, copy, texts
        self._copied: dict[str, bytes] = {}

    def copy(self) -> None:
        """Copy it; the samples of hooks stay behind."""
        for name in self._names(self._real):
            source, target = self._real / name, self._copy / name
            if name.startswith("hooks/") and source.is_symlink():
                target.symlink_to(os.path.normpath(source.parent / source.readlink()))
                continue
            text = self._texts.get(source)
            data = read(self._real, name, _MAX_BYTES) if text is None else text.encode("utf-8", "surrogateescape")
            if data is not None:
                self._copied[name] = data
                write_new(target, data)
                target.chmod(0o600 | (stat.S_IMODE(source.stat().st_mode) & 0o100))
        worktrees = self._real / "worktrees"
        for folder in worktrees.iterdir() if worktrees.is_dir() else ():  # git won't move a branch that one has
            for name in ("HEAD", "gitdir", "commondir", "locked"):
                data = read(self._real, f"worktrees/{folder.name}/{name}")
                if data is not None:
                    write_new(self._copy / "worktrees" / folder.name / name, data)

    @property
    def shallow(self) -> bytes | None:
        """The file with the ends of a history that was cut."""
        return self._copied.get("shallow")

    def changed(self) -> list[str]:
        """The names of what the command changed in the copy, which has no effect: `["config", "hooks/pre-push"]`."""
        try:
            names = self._names(self._copy)
        except GitRefused:
            names = [*_FILES, *_FOLDERS]
        found = []
        for name in {*names, *self._copied} - {"info/refs"}:  # which `git gc` writes
            if (self._copy / name).is_symlink() and (self._real / name).is_symlink():
                continue
            with contextlib.suppress(GitRefused):
                if read(self._copy, name, len(self._copied.get(name, b""))) == self._copied.get(name):
                    continue
            found.append(name)
        for part in _PARTS:
            found += [f"{part}/{name}" for name in _listed(self._copy, part) - _listed(self._real, part)]
        return sorted(found)

    def _names(self, top: Path) -> Iterable[str]:
        below = [name for folder in _FOLDERS for name in files_below(top, folder) if not name.endswith(".sample")]
        return [*_FILES, *below]


def _listed(top: Path, folder: str) -> set[str]:
    try:
        with opened_below(top, [folder]) as descriptor:
            return {*os.listdir(descriptor)}  # noqa: PTH208 - of a descriptor
    except OSError:
        return set()
