"""The PATH of a job: folders whose programs it can start."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

Sees = Callable[[Path], bool]
"""Whether a job can read what lies at a real path."""


def under(places: Iterable[Path | str]) -> Sees:
    """Sees these places and all below them."""
    real = {Path(os.path.realpath(place)) for place in places}
    return lambda path: path in real or not real.isdisjoint(path.parents)


def usable(folders: Iterable[Path | str], sees: Sees) -> list[Path]:
    """The folders that the job sees and may enter, each once, by its real name: a link to it may lie out of sight.

    Empty and relative entries mean the folder a shell happens to be in, so they are left out.
    """
    real = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders if Path(folder).is_absolute())
    return [folder for folder in real if sees(folder) and os.access(folder, os.X_OK) and _is_open(folder)]


def _is_open(folder: Path) -> bool:
    """Root, too, is held by modes inside."""
    mode = folder.stat().st_mode
    return stat.S_ISDIR(mode) and bool(mode & 0o111)


def uncover(folders: Sequence[Path], sees: Sees, into: Path) -> list[Path]:
    """The folders, with `into` before them if a program in one hides behind a link in an earlier one.

    Where a job may look at what it can't start (Landlock), a shell takes `/usr/local/bin/python3`, a link into a home,
    for the program, and says "Permission denied" instead of going on to `/usr/bin/python3`.
    """
    taken: set[str] = set()
    hiding: set[str] = set()
    for folder in folders:
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:  # searchable, but not readable
            continue
        for entry in entries:
            if entry.name in taken:
                continue
            if entry.is_symlink() and not sees(Path(os.path.realpath(entry.path))):
                hiding.add(entry.name)
                continue
            taken.add(entry.name)
            if entry.name in hiding:
                into.mkdir(parents=True, exist_ok=True)
                (into / entry.name).symlink_to(entry.path)
    return [into, *folders] if into.exists() else list(folders)
