"""Our own files: private, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from ossia.tools._scratch import remove_left_files
from ossia.tools.tree import FILE, MAY_BE_A_LINK, NEW_FILE, open_top

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


class Replacement:
    """A file to be written whole or not at all, in a folder that is held open from now on. Raises OSError.

    Whatever becomes of its path meanwhile: a link that is put there later is replaced, not followed. (Windows has no
    such descriptors of folders: there the path counts.) `close` it, or use it in a `with` block.

        with Replacement(Path("out.md")) as file:
            file.write(b"# Notes\\n", 0o666)         # less the umask
    """

    def __init__(self, path: Path) -> None:
        self._path, self._name = path, path.name
        self._folder = open_top(path.parent) if hasattr(os, "O_DIRECTORY") else None
        self._above = "" if self._folder is not None else f"{path.parent}{os.sep}"

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require_writable(self) -> None:
        """Raise the OSError that a new file there would meet: no permission, a read-only disk, too long a name."""
        with self._partial(0o600) as (file, name):
            file.close()
            os.unlink(name, dir_fd=self._folder)

    def write(self, content: bytes, mode: int, *, keep_mode: bool = True) -> None:
        """Write it: the old content or the new one is there, never half of it. An existing file keeps owner and mode.

        Raises OSError, and leaves nothing. `keep_mode` False: it gets `mode`, too.
        """
        with self._partial(mode) as (file, name):
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if keep_mode:
                self._keep_mode(file.fileno() if os.chmod in os.supports_fd else name)
            file.close()
            if self._folder is not None:
                left = re.compile(rf"\.{re.escape(self._name)}\.ossia-[a-z0-9_]{{8}}")
                remove_left_files(self._folder, name, left)
            os.replace(name, self._above + self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def close(self) -> None:
        """Release the folder. May be called more than once."""
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    @contextmanager
    def _partial(self, mode: int) -> Iterator[tuple[BinaryIO, str]]:
        """A new file beside it, and its name; removed if the block fails."""
        name = f"{self._above}.{self._name}.ossia-{secrets.token_hex(4)}"
        try:
            with os.fdopen(os.open(name, NEW_FILE, mode, dir_fd=self._folder), "wb") as file:
                yield file, name
        except BaseException as error:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._folder)
            if isinstance(error, OSError):
                error.filename = str(self._path)
            raise

    def _keep_mode(self, new: int | str) -> None:
        with suppress(FileNotFoundError):
            before = os.stat(self._above + self._name, dir_fd=self._folder, follow_symlinks=False)
            if stat.S_ISREG(before.st_mode):
                with suppress(OSError, AttributeError):  # only root may give a file away; Windows has no owners
                    os.chown(new, before.st_uid, before.st_gid)
                os.chmod(new, stat.S_IMODE(before.st_mode))  # noqa: PTH101 - by its descriptor


def write_whole(path: Path, content: str | bytes, *, keep_mode: bool = False) -> None:
    """Write a private file atomically: the old one or the new one is there, never half of one. Raises OSError.

    Missing folders above it are made. `write_whole(Path("data/trust.json"), "{}\\n")`: mode 0600, UTF-8.
    `keep_mode`: an existing file keeps its owner and mode.
    """
    if path.exists() and not path.is_file():  # /dev/null would be replaced
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    with Replacement(path) as file:
        file.write(content.encode() if isinstance(content, str) else content, 0o600, keep_mode=keep_mode)
