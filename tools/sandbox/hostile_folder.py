"""The host's side of `/mnt/data`: the model's code owns what lies there, so nothing in it is trusted.

Nothing here follows a link, waits for a FIFO or opens a device.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ossia.tools.tree import FOLDER, NEW_FILE, THROUGH, open_top

_PROGRAMS = "/usr/bin:/bin:/run/current-system/sw/bin"
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def save_new(folder: Path, stem: str, suffix: str, data: bytes) -> Path:
    """Write `folder/stem_N.suffix` under the first free number from 1. Never writes through a link."""
    for number in range(1, 10_000):
        path = folder / f"{stem}_{number}{suffix}"
        try:
            descriptor = os.open(path, NEW_FILE, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path
    raise FileExistsError(f"{folder} holds 9999 files named {stem}_N{suffix}")


class Entry(NamedTuple):
    """Something below a folder: its name in the open folder `folder`, a descriptor valid only until the next entry."""

    folder: int
    name: str
    status: os.stat_result


def walk(top: Path) -> Iterator[Entry | None]:
    """Every entry below a folder, at any depth, with only a few open descriptors. Links are listed, not followed.

    None for a place that couldn't be read. A folder that we own but may not read is made readable first.
    """
    here = -1
    way: list[tuple[tuple[int, int], list[str]]] = []  # each folder from the top to here, with the names left in it
    try:
        here = opened(top)
        which, below = _identity(here), list[str]()
        yield from _listed(here, below)
        way.append((which, below))
        while way:
            if way[-1][1]:
                try:
                    deeper = opened(way[-1][1].pop(), here)
                except OSError as error:
                    if error.errno not in _GONE:
                        yield None
                    continue
                os.close(here)
                here, below = deeper, []
                yield from _listed(here, below)
                way.append((_identity(here), below))
                continue
            way.pop()
            if way:
                above = os.open("..", THROUGH, dir_fd=here)
                os.close(here)
                here = above
                if _identity(here) != way[-1][0]:  # it was moved meanwhile: ".." may lead out of the folder
                    yield None
                    return
    except OSError as error:
        if way or error.errno not in _GONE:
            yield None
    finally:
        if here >= 0:
            os.close(here)


def _listed(folder: int, below: list[str]) -> Iterator[Entry | None]:
    """The entries of an open folder; the names of the folders among them go into `below`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it vanished meanwhile
                continue
            except OSError:
                yield None
                continue
            if stat.S_ISDIR(status.st_mode):
                below.append(entry.name)
            yield Entry(folder, entry.name, status)


def opened(name: str | Path, above: int | None = None) -> int:
    """A folder's descriptor. If it is ours and the code has closed it to us, we give ourselves the rights."""
    try:
        descriptor = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        place = os.open(name, THROUGH, dir_fd=above)
        try:
            Path(f"/proc/self/fd/{place}").chmod(0o700)
            return open_top(Path(f"/proc/self/fd/{place}"))
        finally:
            os.close(place)
    mode = os.fstat(descriptor).st_mode
    if mode & 0o500 != 0o500:
        with suppress(OSError):  # not ours: then reading its entries fails
            os.fchmod(descriptor, stat.S_IMODE(mode) | 0o700)
    return descriptor


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def remove(folder: Path) -> None:
    """Remove a folder with all below it, as far as possible: the model's code can nest deeper than Python recurses."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["rm", "-rf", "--", str(folder)], env={"PATH": _PROGRAMS}, stderr=subprocess.DEVNULL,
                           timeout=30, check=False)  # fmt: skip


def clear_setid_bits(folder: Path) -> int:
    """Clear set-user-ID and set-group-ID on every file below `folder`; returns how many had one.

    A file with such a bit, left by a sandbox that root started, would run as root on this machine.
    """
    cleared = 0
    for entry in walk(folder):
        if entry is None or not stat.S_ISREG(entry.status.st_mode):
            continue
        if entry.status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            with suppress(OSError):  # it vanished meanwhile
                cleared += _clear(entry)
    return cleared


def _clear(entry: Entry) -> int:
    """By descriptor, and checked again through it: the name may have become a link since."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(entry.name, flags, dir_fd=entry.folder)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            return 0
        same_file = Path(f"/proc/self/fd/{descriptor}")  # fchmod() refuses an O_PATH descriptor
        if same_file.exists():
            same_file.chmod(stat.S_IMODE(mode) & 0o1777)
        else:
            os.fchmod(descriptor, stat.S_IMODE(mode) & 0o1777)
        return 1
    finally:
        os.close(descriptor)
