"""Files and folders opened, read, replaced and removed by descriptor, without ever following a link.

Where others can write, any part of a path may have become a link since it was looked at. So each step is taken from the
folder before it (openat). `Tree` does that for a folder's files by their path in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


def _flags(*names: str) -> int:
    """These flags combined, as far as the system has them."""
    return sum(getattr(os, name, 0) for name in names)


FOLDER = os.O_RDONLY | _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
THROUGH = FOLDER | _flags("O_PATH")
"""Enough to walk through a folder. On Linux it need not be readable."""
FILE = os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
"""Never waits for a FIFO."""
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
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


# -- a folder's files by their path in it ------------------------------------------------------------------------------

FileKind = Literal["absent", "file", "dir", "link", "fifo", "other"]
UNREAD = "unread "
"""The prefix of the hash of a file that couldn't be read. Its time of change follows: two such are never equal."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class State:
    """The state of a path. `mode`: the permission bits. `hash`: of a file's bytes (`digest_of`). `target`: of a link.

    `State("file", 0o644, "9f86d0…")`, `State("link", target="../x")`, `State()` where there is nothing.
    """

    kind: FileKind = "absent"
    mode: int = 0
    hash: str = ""
    target: str = ""
    owner: tuple[int, int] | None = None

    @property
    def readable(self) -> bool:
        return not self.hash.startswith(UNREAD)

    def equals(self, other: State) -> bool:
        """Everything but the owner."""
        return self.same_content(other) and (self.mode == other.mode or self.kind == "link")

    def same_content(self, other: State) -> bool:
        """Everything but the owner and the mode."""
        return (self.kind, self.hash, self.target) == (other.kind, other.hash, other.target)


class Tree:
    """The files below `root`. Paths are relative, with `/`: `"docs/a.md"`; "" is the root itself."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def status(self, path: str) -> os.stat_result | None:
        """None if nothing is there, or if a part of the path is a link or a file."""
        try:
            with self._above(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link, on macOS; Linux says ENOTDIR
                return None
            raise

    def state(self, path: str, *, keep: Callable[[int], str] | None = None) -> State:
        """The state now. `keep` reads a descriptor and returns the hash; None: only hashed. Raises `OSError`."""
        status = self.status(path)
        return State() if status is None else self.state_of(path, status, keep=keep)

    def state_of(self, path: str, status: os.stat_result, *, keep: Callable[[int], str] | None = None) -> State:
        """The same, if the status is known already."""
        mode, owner = stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)
        if stat.S_ISDIR(status.st_mode):
            return State("dir", mode, owner=owner)
        if stat.S_ISLNK(status.st_mode):
            with self._above(path) as (folder, name):
                return State("link", 0, target=os.readlink(name, dir_fd=folder), owner=owner)
        if not stat.S_ISREG(status.st_mode):
            return State("fifo" if stat.S_ISFIFO(status.st_mode) else "other", mode, owner=owner)
        try:
            with self._above(path) as (folder, name), os.fdopen(open_file(name, folder), "rb") as file:
                return State("file", mode, (keep or digest_of)(file.fileno()), owner=owner)
        except PermissionError:
            return State("file", mode, f"{UNREAD}{status.st_ctime_ns}", owner=owner)

    # -- restoring ----------------------------------------------------------------------------------------------------

    def remove(self, path: str) -> None:
        """Remove a file, a link or an empty folder. Raises `OSError`, also for a folder that isn't empty."""

        def action(folder: int, name: str) -> None:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

        self._change(path, action)

    def make_folder(self, path: str) -> None:
        """Make a folder with full rights for us; its real mode is set last. An existing one stays."""

        def action(folder: int, name: str) -> None:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)

        self._change(path, action)

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link where nothing is."""
        self._change(path, lambda folder, name: os.symlink(target, name, dir_fd=folder))

    def make_fifo(self, path: str) -> None:
        """Make a named pipe where nothing is; its real mode is set last."""
        self._change(path, lambda folder, name: os.mkfifo(name, 0o600, dir_fd=folder))

    def write(self, path: str, state: State, source: Path) -> None:
        """Make a file with the bytes of `source` and the mode and owner of `state`, whole or not at all."""

        def action(folder: int, name: str) -> None:
            now = None
            with suppress(FileNotFoundError):
                now = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if now and stat.S_ISREG(now.st_mode) and now.st_nlink > 1:  # in place, so that it keeps its other names
                os.chmod(name, 0o600, dir_fd=folder)
                flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                _fill(os.open(name, flags, dir_fd=folder), source, state)
                return
            temporary = f".ossia-{secrets.token_hex(6)}"
            try:
                _fill(os.open(temporary, NEW_FILE, 0o600, dir_fd=folder), source, state)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

        self._change(path, action)

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or a folder, never through a link."""

        def action(folder: int, name: str) -> None:
            now = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISLNK(now.st_mode) and stat.S_IMODE(now.st_mode) != mode:
                os.chmod(name, mode, dir_fd=folder)

        self._change(path, action)

    def _change(self, path: str, action: Callable[[int, str], None]) -> None:
        """Do it in the folder above; if that is closed to its owner, it is opened meanwhile."""
        try:
            with self._above(path) as (folder, name):
                action(folder, name)
            return
        except PermissionError:
            above = path.rpartition("/")[0]
            status = self.status(above) if above else self.root.stat()
            if status is None or stat.S_IMODE(status.st_mode) & 0o700 == 0o700:
                raise
        mode = stat.S_IMODE(status.st_mode)
        self.set_folder_mode(above, mode | 0o700)
        try:
            with self._above(path) as (folder, name):
                action(folder, name)
        finally:
            self.set_folder_mode(above, mode)

    def set_folder_mode(self, path: str, mode: int) -> None:
        """The same for a folder, which may be the root."""
        if path:
            self.set_mode(path, mode)
        else:
            self.root.chmod(mode)

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds `path`, opened part by part without following links."""
        parts = path.split("/")
        if not all(part and part not in (".", "..") for part in parts):
            raise FileNotFoundError(f"{path!r} is no path in a workspace")
        with opened_below(self.root, parts[:-1], THROUGH) as folder:
            yield folder, parts[-1]


class Opened:
    """Opens folders that their owner may not list or enter, while it is used (`with Opened(tree) as it`).

    The next command could open again what one has closed, so nothing in there may go unseen.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._found: dict[str, tuple[int, int]] = {}  # a path, its mode and inode

    def __enter__(self) -> Opened:
        return self

    def open(self, path: str) -> bool:
        """Open one, after those above it. False if it was open already, or can't be opened."""
        if path in self._found:
            return False
        try:
            status = self._tree.status(path) if path else self._tree.root.stat()
            if status is None or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o700 == 0o700:
                return False
            self._tree.set_folder_mode(path, stat.S_IMODE(status.st_mode) | 0o700)
        except OSError:  # not ours
            return False
        self._found[path] = stat.S_IMODE(status.st_mode), status.st_ino
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def mode_of(self, path: str, status: os.stat_result) -> int:
        """The permission bits of a folder as they were before it was opened."""
        mode, inode = self._found.get(path, (0, -1))
        return mode if inode == status.st_ino else stat.S_IMODE(status.st_mode)

    def __exit__(self, *_: object) -> None:
        """Close them again, except those that no longer exist."""
        for path, (mode, inode) in reversed(self._found.items()):
            with suppress(OSError):
                status = self._tree.status(path) if path else self._tree.root.stat()
                if status is not None and status.st_ino == inode:
                    self._tree.set_folder_mode(path, mode)
        self._found.clear()


def digest_of(descriptor: int, *, header: Callable[[int], object] | None = None,
              copy: Callable[[bytes], object] | None = None) -> str:  # fmt: skip
    """The hash of a file's bytes, as git's with SHA-256: of `blob`, the size and the bytes.

    `header` gets the size first, `copy` then as many bytes: zeros if the file is cut short meanwhile.
    """
    left = os.fstat(descriptor).st_size
    digest = hashlib.sha256(b"blob %d\0" % left)
    if header is not None:
        header(left)
    while left > 0:
        chunk = os.read(descriptor, min(left, _CHUNK_BYTES)) or bytes(min(left, _CHUNK_BYTES))
        left -= len(chunk)
        digest.update(chunk)
        if copy is not None:
            copy(chunk)
    return digest.hexdigest()


def _fill(descriptor: int, source: Path, state: State) -> None:
    with os.fdopen(descriptor, "wb") as file, source.open("rb") as bytes_before:
        shutil.copyfileobj(bytes_before, file, _CHUNK_BYTES)
        file.flush()
        now = os.fstat(descriptor)
        if state.owner is not None and (now.st_uid, now.st_gid) != state.owner:
            with suppress(OSError):  # only root may give a file away
                os.fchown(descriptor, *state.owner)
        os.fchmod(descriptor, state.mode)
