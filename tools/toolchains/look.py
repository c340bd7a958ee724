"""Looks at files and folders that may be missing, closed, or somebody else's: then there is nothing in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Container
from itertools import islice
from pathlib import Path

from ossia.tools.tree import FILE

_MAX_NAMES = 500


def real(path: Path | str) -> Path:
    """The real path, also of what doesn't exist."""
    return Path(os.path.realpath(path))


def within(path: Path, folder: Path) -> bool:
    """True for the folder and all below it. (`Path.is_relative_to` takes 25 µs, and there are thousands to ask.)"""
    name, above = str(path), str(folder)
    return name == above or name.startswith(above.rstrip(os.sep) + os.sep)


def is_below(path: Path, folders: Container[str]) -> bool:
    """The same for many folders, none of which is the root."""
    name = str(path)
    while name and name not in folders:
        name = name.rpartition(os.sep)[0]
    return name != ""


def absolute(path: str) -> Path | None:
    """The path that a variable or a file names; None if it is relative, empty or no path at all."""
    return Path(path) if path and "\0" not in path and Path(path).is_absolute() else None


def head(path: Path, max_bytes: int) -> bytes:
    """The beginning of a plain file, not of what a link leads to; b"" where it can't be read."""
    try:
        descriptor = os.open(path, FILE)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, max_bytes) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def text(path: Path, max_bytes: int) -> str:
    """The same as text."""
    return head(path, max_bytes).decode("utf-8", "replace")


def entries(folder: Path, most: int) -> list[os.DirEntry[str]]:
    """The first entries of a folder, as they lie."""
    try:
        with os.scandir(folder) as found:
            return list(islice(found, most))
    except (OSError, ValueError):
        return []


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    return sorted(entry.name for entry in entries(folder, _MAX_NAMES))
