"""Paths given by the model: they lead to something inside the workspace, or to a refusal.

Every step is taken from the folder before it (openat, without following links), never by a path from the top: a part
that is swapped for a link between check and use leads nowhere. `locate` follows links itself, as long as they stay
inside; what it finds is then opened by its real name, no part of which may be a link.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from ossia.tools.names import in_ascii, may_differ, same_names
from ossia.tools.spec import ToolFailed
from ossia.tools.tree import FILE, FOLDER, open_top

_MAX_PATH_CHARS, _MAX_LINKS = 4_096, 40  # Linux's limits
MAX_FILE_BYTES = 16 << 20
"""The most that one file may have that is read or written whole."""

PlaceKind = Literal["file", "folder", "other", "missing"]


@dataclass(frozen=True, slots=True)
class Place:
    """A thing in the workspace, or the place for one.

    `name` is its real name, links resolved: `"docs/a.md"`, `"."` for the workspace itself. `asked` is the name that was
    given, tidied; it differs from `name` if it goes through a link. `link`: the last part of it is a link.
    """

    name: str
    asked: str
    kind: PlaceKind
    link: bool = False

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names that a policy must allow: the real name, and the given one if it differs."""
        return (self.name,) if self.asked == self.name else (self.name, self.asked)


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, its permission bits and its owner."""

    data: bytes
    mode: int
    owner: tuple[int, int]


def locate(root: Path, given: str) -> Place:
    """The place that `given` leads to: relative to `root`, or an absolute path below it.

    Links are followed as long as they stay inside. A name that isn't there is also found in another form that is the
    same to people, or as `list_dir` shows it (`tools.names`). If it or a folder above it doesn't exist, `kind` is
    `"missing"`. Raises `ToolFailed` for what leads out, through a file, or in a circle, or for one of several names.

        locate(Path("/w"), "./docs/../docs/a.md")    # Place("docs/a.md", "docs/a.md", "file")
    """
    parts = _parts(root, given)
    asked = posixpath.normpath("/".join(parts) or ".")
    walk = _Walk(root, given)
    try:
        kind = walk.follow(parts)
    except OSError as error:
        raise ToolFailed(f"Error: {given!r} can't be looked up: {error.strerror}. Check the path.") from error
    finally:
        walk.close()
    name = "/".join(walk.names) or "."
    return Place(name, name if asked.startswith("..") else asked, kind, walk.last_is_link)


class _Walk:
    """A path being followed, one part at a time, with every folder on the way held open."""

    def __init__(self, root: Path, given: str) -> None:
        self._root, self._given = root, given
        self._folders = [open_root(root)]
        self.names: list[str] = []
        self.last_is_link = False

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)

    def follow(self, parts: list[str]) -> PlaceKind:
        steps = deque(parts)
        links, at_last = 0, False
        kind: PlaceKind = "folder"
        while steps:
            part = steps.popleft()
            is_last, at_last = not steps and not at_last, at_last or not steps
            if part == "..":
                self._up()
                kind = "folder"
                continue
            try:
                mode = os.stat(part, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
            except FileNotFoundError:
                same = self._same(part)
                if same is None:
                    self._take_missing([part, *steps])
                    return "missing"
                part = same
                mode = os.stat(part, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > _MAX_LINKS:
                    raise ToolFailed(f"Error: {self._given!r} goes through too many links. Use a path without them.")
                self.last_is_link = self.last_is_link or is_last
                steps.extendleft(reversed(self._target(part)))
                continue
            kind = "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"
            self.names.append(part)
            if steps:
                self._down(part, kind)
        return kind

    def _same(self, part: str) -> str | None:
        """The entry of the folder with another form of a name, as people see it, if any."""
        names = os.listdir(self._folders[-1]) if may_differ(part) else ()  # noqa: PTH208  # of a descriptor
        found = same_names(part, names)
        if len(found) > 1:
            some = " or ".join(map(in_ascii, found[:3]))
            raise ToolFailed(f"Error: {self._given!r} may mean {some}, which look alike. Name one of them like this.")
        return found[0] if found else None

    def _up(self) -> None:
        if not self.names:
            raise _leads_out(self._given)
        self.names.pop()
        if len(self._folders) > len(self.names) + 1:
            os.close(self._folders.pop())

    def _down(self, part: str, kind: PlaceKind) -> None:
        if kind != "folder":
            raise ToolFailed(f"Error: {'/'.join(self.names)!r} is not a folder, so nothing is below it.")
        self._folders.append(os.open(part, FOLDER, dir_fd=self._folders[-1]))

    def _target(self, part: str) -> list[str]:
        target = os.readlink(part, dir_fd=self._folders[-1])
        if not posixpath.isabs(target):
            return _split(target)
        below = _below(self._root, target, self._given)
        while len(self._folders) > 1:
            os.close(self._folders.pop())
        self.names.clear()
        return below

    def _take_missing(self, parts: list[str]) -> None:
        if ".." in parts:
            raise ToolFailed(f"Error: {self._given!r}: {parts[0]!r} isn't there, so '..' behind it leads nowhere.")
        self.names.extend(parts)


def _leads_out(given: str) -> ToolFailed:
    return ToolFailed(f"Error: {given!r} leads out of the workspace. Use a path inside it, such as 'docs/a.md'.")


def _parts(root: Path, given: str) -> list[str]:
    if "\0" in given:
        raise ToolFailed("Error: the path holds a NUL character. Send a plain path.")
    if len(given) > _MAX_PATH_CHARS:  # an error would quote it
        raise ToolFailed(f"Error: the path has {len(given)} characters. Send the path of a file, and nothing else.")
    if given == "~" or given.startswith("~/"):
        raise ToolFailed(f"Error: {given!r}: '~' isn't expanded. Use a path inside the workspace.")
    try:
        os.fsencode(given)
    except UnicodeEncodeError:
        raise ToolFailed(f"Error: {given!r} can't be a file's name. Send a plain path.") from None
    return _below(root, given, given) if posixpath.isabs(given) else _split(given)


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _below(root: Path, path: str, given: str) -> list[str]:
    """The parts of an absolute path below the root, even if it spells the root by another name (macOS: /tmp)."""
    size = len(root.parts)
    for candidate in (path, os.path.realpath(path)):
        parts = PurePath(candidate).parts
        if parts[:size] == root.parts:
            return list(parts[size:])
    raise _leads_out(given)


# -- opening what was located: by its real name, no part of which may be a link ----------------------------------------


def open_root(root: Path) -> int:
    """A descriptor of the workspace's folder, which the caller closes."""
    if os.open not in os.supports_dir_fd:
        raise ToolFailed("Error: work in a folder needs Linux or macOS. Say so to the user.")
    try:
        return open_top(root)
    except OSError as error:
        raise ToolFailed(f"Error: the workspace {root} can't be opened: {error.strerror}. Tell the user.") from error


@contextmanager
def opened_folder(root: Path, name: str, *, make: list[str] | None = None) -> Iterator[int]:
    """A descriptor of a folder by its real name (`"."`: the workspace), closed afterwards.

    With `make` (a list), missing folders are made, and their names are added to it, outer ones first. Raises
    `ToolFailed` if a part is a link or leads out, `FileNotFoundError` if one is missing.
    """
    top = open_root(root)
    here = os.dup(top)
    try:
        done: list[str] = []
        for part in _split(name):
            done.append(part)
            below = _open_below(here, "/".join(done), make)
            os.close(here)
            here = below
        require_inside(top, here, name)
        yield here
    finally:
        os.close(here)
        os.close(top)


def _open_below(here: int, name: str, make: list[str] | None) -> int:
    part = name.rpartition("/")[2]
    try:
        if make is not None:
            try:
                os.mkdir(part, dir_fd=here)
                make.append(name)
            except FileExistsError:
                pass
        return os.open(part, FOLDER, dir_fd=here)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):  # Linux answers ENOTDIR for a link
            raise ToolFailed(f"Error: {name!r} is no longer the folder it was. Look at it again.") from error
        raise


def read_bytes(root: Path, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> Content:
    """A plain file by its real name. Never waits for a FIFO, opens a device, or follows a link.

    Raises `ToolFailed` for all but a plain file of at most `max_bytes`; `FileNotFoundError` if it doesn't exist.
    """
    try:
        return _read_file(root, name, max_bytes)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolFailed(f"Error: {name!r} can't be read: {error.strerror}.") from error


def _read_file(root: Path, name: str, max_bytes: int) -> Content:
    folder_name, last = posixpath.split(name)
    with ExitStack() as stack:
        folder = stack.enter_context(opened_folder(root, folder_name))
        _require_file(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode, name)  # a device may act on open()
        descriptor = os.open(last, FILE, dir_fd=folder)
        file = stack.enter_context(os.fdopen(descriptor, "rb"))
        status = os.fstat(descriptor)
        _require_file(status.st_mode, name)
        require_inside(folder, descriptor, name)
        data = b"" if status.st_size > max_bytes else file.read(max_bytes + 1)
        if status.st_size > max_bytes or len(data) > max_bytes:
            size = f"{max(status.st_size, len(data)) / 1e6:.1f} MB"
            raise ToolFailed(f"Error: {name!r} has {size}, and at most {max_bytes / 1e6:.1f} MB are read. Search it.")
        return Content(data, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))


def _require_file(mode: int, name: str) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder: list it" if stat.S_ISDIR(mode) else "no plain file (a link, a pipe, a device)"
        raise ToolFailed(f"Error: {name!r} is {what}.")


def require_inside(top: int, descriptor: int, name: str) -> None:
    """Check again what was opened, by the path that the kernel knows: a folder may have been moved out meanwhile."""
    outer, inner = real_name(top), real_name(descriptor)
    if outer is not None and inner is not None and not f"{inner}/".startswith(f"{outer.rstrip('/')}/"):
        raise ToolFailed(f"Error: {name!r} no longer lies in the workspace. Look at it again.")


def real_name(descriptor: int) -> str | None:
    """Its path as the kernel knows it; None if the system doesn't tell."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink()).removesuffix(" (deleted)")
    except OSError:
        pass
    try:
        import fcntl

        get_path = getattr(fcntl, "F_GETPATH", None)  # macOS
        if get_path is None:
            return None
        return os.fsdecode(fcntl.fcntl(descriptor, get_path, b"\0" * 1024).partition(b"\0")[0])
    except (ImportError, OSError):
        return None
