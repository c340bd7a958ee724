"""Opening files and folders without following a link: where others can write, any part of a path may be one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def _flags(*names: str) -> int:
    """These flags combined, as far as the system has them."""
    return sum(getattr(os, name, 0) for name in names)


FOLDER = os.O_RDONLY | _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
THROUGH = FOLDER | _flags("O_PATH")
"""Enough to walk through a folder. On Linux it need not be readable."""
FILE = os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
"""Never waits for a FIFO."""
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags("O_NOFOLLOW", "O_CLOEXEC")
MAY_BE_A_LINK = ~_flags("O_NOFOLLOW")


class NotAPlainFile(OSError):
    """The name leads through a link, or to something that isn't a plain file."""


def open_top(folder: Path, flags: int = FOLDER) -> int:
    """A descriptor of the folder that a walk begins in. Its own path is trusted and may go through links."""
    return os.open(folder, flags & MAY_BE_A_LINK)


@contextmanager
def opened_below(top: Path, parts: Iterable[str], flags: int = FOLDER) -> Iterator[int]:
    """A descriptor of `top/part/part…`, each part opened from the one before. Raises `OSError`, also for a link."""
    here = open_top(top, flags)
    try:
        for part in parts:
            below = os.open(part, flags, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def open_file(name: str | Path, folder: int | None = None) -> int:
    """A descriptor of a plain file. `folder`: a descriptor of its folder. Raises `NotAPlainFile`, or `OSError`."""
    descriptor = os.open(name, FILE, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotAPlainFile(0, "not a plain file")
