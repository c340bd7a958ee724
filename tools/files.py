"""Our own files: private, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from ossia.tools._scratch import remove_left_files
from ossia.tools.tree import FILE, MAY_BE_A_LINK, opened_below

FULL: Final = "the disk is full: free some space"
_ROOM_BYTES: Final = 64 << 10  # SQLite creates the index of its log with 32 KiB


def cannot(error: OSError, what: str) -> str:
    """`cannot(error, "written")` → "can't be written: Permission denied", or that the disk is full."""
    return FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"can't be {what}: {error.strerror}"


def is_full(folder: Path) -> bool:
    """Is there no room even for a small file? For programs that only report a failed write."""
    try:
        return shutil.disk_usage(folder).free < _ROOM_BYTES
    except OSError:
        return False


def read_own(path: Path) -> bytes:
    """The bytes of a file that grants something: of this user or root, and nobody else may write it (as ssh has it).

    Raises OSError; its `strerror` says why: "it belongs to another user".
    """
    with os.fdopen(os.open(path, FILE & MAY_BE_A_LINK), "rb") as file:
        status = os.fstat(file.fileno())
        require_owner(status, path)
        if stat.S_ISREG(status.st_mode) and os.name == "posix":
            writable = stat.S_IWOTH if _is_private_group(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP
            if status.st_mode & writable:
                raise PermissionError(errno.EPERM, "other users can write it: chmod go-w", str(path))
        return file.read()


def require_owner(status: os.stat_result, path: Path) -> None:
    """Raises PermissionError, with a sentence, for a file of another user than this one or root."""
    if os.name == "posix" and status.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))


def _is_private_group(group: int) -> bool:
    """Is this user its only member? With a umask of 002, each file of theirs is writable for it."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        return user.pw_gid == group and set(grp.getgrgid(group).gr_mem) <= {user.pw_name}
    except KeyError:
        return False


def make_private(folder: Path) -> None:
    """Make a folder and the missing ones above it, closed to other users; existing ones stay as they are."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Make a file for its owner only, and the missing folders above it. An existing one stays as it is."""
    make_private(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))


def write_whole(path: Path, content: str | bytes, *, keep_mode: bool = False) -> None:
    """Write a private file atomically: the old one or the new one is there, never half of one. Raises OSError.

    Missing folders above it are made. `write_whole(Path("data/trust.json"), "{}\\n")`: mode 0600, UTF-8.
    `keep_mode`: an existing file keeps its owner and mode.
    """
    if path.exists() and not path.is_file():  # /dev/null would be replaced
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.ossia-", dir=path.parent)  # readable by its owner only
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        if keep_mode and path.exists():
            before = path.stat()
            with suppress(OSError, AttributeError):  # only root may give a file away; Windows has no owners
                os.chown(partial, before.st_uid, before.st_gid)
            partial.chmod(stat.S_IMODE(before.st_mode))
        if hasattr(os, "O_DIRECTORY"):
            with opened_below(path.parent, ()) as folder:
                left = re.compile(rf"\.{re.escape(path.name)}\.ossia-[a-z0-9_]{{8}}")
                remove_left_files(folder, partial.name, left)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
