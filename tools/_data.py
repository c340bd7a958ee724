"""The host's side of `/mnt/data`: the model's code owns what lies there, so nothing in it is trusted.

Nothing here follows a link, waits for a FIFO or opens a device.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_LONG_PATH = 3500
"""Of 4096: a name has at most 255 bytes."""


class NotARegularFile(OSError):
    """The name leads through a link, or to something that isn't a plain file."""


def make_private(folder: Path) -> Path:
    """The folder, made if it wasn't there, closed to other users; as it really lies."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder.resolve()


def read_file(folder: Path, name: str, *, max_bytes: int) -> bytes:
    """The bytes of a plain file below `folder`, at most `max_bytes` of them.

    Raises `NotARegularFile` if any part of `name` is a link or leads out, or the end isn't a plain file.
    """
    descriptor = _open_below(folder, Path(name).parts)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotARegularFile(f"{name} isn't a plain file")
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(max_bytes)
    finally:
        os.close(descriptor)


def _open_below(folder: Path, parts: tuple[str, ...]) -> int:
    if not parts or any(part in ("..", "/", "") for part in parts):
        raise NotARegularFile(f"{'/'.join(parts)!r} leads out of the folder")
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_NONBLOCK if last else os.O_DIRECTORY)
        try:
            below = os.open(part, flags, dir_fd=here)
        except OSError as error:
            raise NotARegularFile(f"{part!r} can't be opened: {error.strerror}") from error
        finally:
            os.close(here)
        here = below
    return here


def save_new(folder: Path, stem: str, suffix: str, data: bytes) -> Path:
    """Write `folder/stem_N.suffix` under the first free number from 1. Never writes through a link."""
    for number in range(1, 10_000):
        path = folder / f"{stem}_{number}{suffix}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return path
    raise FileExistsError(f"{folder} holds 9999 files named {stem}_N{suffix}")


def walk(folders: Iterable[Path]) -> Iterator[os.DirEntry[str]]:
    """Every entry below some folders, at any depth. Links are entries, and not followed.

    An entry's `path` is good only until the next one is asked for: where a path grows longer than the system takes, it
    goes on from an open descriptor.
    """
    pending: list[str | int] = [str(folder) for folder in folders]
    try:
        while pending:
            place = pending.pop()
            if isinstance(place, int):  # all below it is done
                os.close(place)
                continue
            with suppress(OSError):  # it vanished meanwhile, or can't be listed
                if len(place) > _LONG_PATH:
                    pending.append(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
                    place = f"/proc/self/fd/{pending[-1]}"
                with os.scandir(place) as entries:
                    for entry in entries:
                        yield entry
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
    finally:
        for place in pending:
            if isinstance(place, int):
                os.close(place)


def remove(folder: Path) -> None:
    """Remove a folder with all below it, as far as that goes: the model's code can nest deeper than Python recurses."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["rm", "-rf", "--", str(folder)], stderr=subprocess.DEVNULL, timeout=30, check=False)


def clear_setid_bits(folder: Path) -> int:
    """Take set-user-ID and set-group-ID off every file below `folder`; how many had one.

    A file that root's sandbox left with such a bit would be a program of root's on this machine.
    """
    cleared = 0
    for entry in walk((folder,)):
        with suppress(OSError):  # it vanished meanwhile
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                cleared += _clear(entry.path)
    return cleared


def _clear(path: str) -> int:
    """By descriptor, and looked at again through it: the name may have become a link since."""
    descriptor = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC)
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
