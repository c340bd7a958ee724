"""A folder's whole content as a value, to compare: kinds, modes, bytes, links, empty folders."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def snapshot(root: Path) -> dict[str, object]:
    """`{"docs": ("dir", 0o755), "docs/a.md": ("file", 0o644, b"…"), "x": ("link", "docs")}`; times are left out.

    A folder or a file that can't be read by its own mode is opened for the look and closed again.
    """
    found: dict[str, object] = {}
    for path in sorted(root.iterdir()):
        _look(root, path, found)
    return found


def _look(root: Path, path: Path, found: dict[str, object]) -> None:
    status = path.lstat()
    mode, name = stat.S_IMODE(status.st_mode), path.relative_to(root).as_posix()
    if stat.S_ISLNK(status.st_mode):
        found[name] = ("link", str(path.readlink()))
        return
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        found[name] = ("other", stat.S_IFMT(status.st_mode), mode)
        return
    needed = 0o700 if stat.S_ISDIR(status.st_mode) else 0o400
    closed = mode & needed != needed and os.geteuid() != 0
    if closed:
        path.chmod(mode | needed)
    try:
        if stat.S_ISREG(status.st_mode):
            found[name] = ("file", mode, path.read_bytes())
            return
        found[name] = ("dir", mode)
        for inner in sorted(path.iterdir()):
            _look(root, inner, found)
    finally:
        if closed:
            path.chmod(mode)
