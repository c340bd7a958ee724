"""Finds what runs or instructs later in a workspace without a journal: taken before a command, compared after it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tools._scratch import Scratch
from tools.approval.later import linked, put_aside
from tools.approval.sensitive import Place, of_bare, of_later
from tools.undo.snapshot import Bytes
from tools.undo.tree import Opened, State, Tree

MAX_NAMES = 20_000
"""How many names are looked at before a command, those at the top first: 0.3 s of CPU time, and as much after it."""
_MAX_NEW_NAMES = 1_000_000
_MAX_FILE_BYTES, _MAX_BYTES = 1 << 20, 16 << 20
"""The most that is kept to be put back: of one file, and of all."""


class Look:
    """A look taken before a command; call `put_aside` after it. The files' bytes lie in a private folder until `close`.

    `below`: a folder that is looked at instead of the whole workspace.
    """

    def __init__(self, root: Path, *, below: str = "", max_names: int = MAX_NAMES) -> None:
        self._tree, self._below = Tree(root), below
        self._scratch = Scratch()
        self._kept = Bytes(self._scratch.path)
        self._left = _MAX_BYTES
        self._links: dict[str, Place] = {}
        self._before: dict[str, State] = {}
        closed: set[str] = set()
        with Opened(self._tree) as self._opened:
            for path in self._walk(max_names, closed):
                self._before[path] = self._state(path, keep=True)
            self._links = linked(self._tree, (path for path, state in self._before.items() if state.kind == "link"))
            for path in self._walk(max_names, closed) if self._links else ():
                if path not in self._before:
                    self._before[path] = self._state(path, keep=True)
        self._closed = frozenset(closed)

    def put_aside(self, *, git_is_free: bool = False) -> tuple[str, ...]:
        """Put aside what the command left; returns lines that report it (see `later.put_aside`)."""
        with self._opened:
            names = dict.fromkeys((*self._before, *self._walk(_MAX_NEW_NAMES, set(self._closed))))
            changed = {}
            for path in names:
                was = self._before.get(path, State())
                try:
                    now = self._state(path)
                except OSError:  # somebody else closed it to us
                    now = State("other")
                if not now.equals(was):
                    changed[path] = was
            return put_aside(self._tree, changed, self._kept, self._links, git_is_free=git_is_free, look=self._state)

    def close(self) -> None:
        """Delete the kept bytes."""
        self._scratch.close()

    def _walk(self, max_names: int, closed: set[str]) -> Iterator[str]:
        """Such paths, a folder before what lies in it. `closed` gets folders that can't be listed, or are too many."""
        waiting, left = [f"{self._below}/" if self._below else ""], max_names
        for folder in waiting:  # it grows meanwhile
            if folder in closed:
                continue
            if left <= 0:
                closed.add(folder)
                continue
            if not os.access(f"{self._tree.root}/{folder}", os.R_OK | os.X_OK):
                self._opened.open(folder.rstrip("/"))
            try:
                with os.scandir(f"{self._tree.root}/{folder}") as entries:
                    found = [(folder + entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            except OSError:
                closed.add(folder)
                continue
            left -= len(found)
            waiting += [f"{path}/" for path, is_folder in found if is_folder and _may_name_programs(path)]
            yield from (path for path, _ in found if self._matters(path))

    def _matters(self, path: str) -> bool:
        if any(f"{path}/".startswith(f"{real}/") or real.startswith(f"{path}/") for real in self._links):
            return True
        if path.endswith(("/site-packages", "/dist-packages")):  # only to know whether they are new
            return True
        if of_later(path, link=True) is not None:
            return _may_name_programs(path)
        return of_bare(path, lambda _: True) is not None

    def _state(self, path: str, *, keep: bool = False) -> State:
        status = self._tree.status(path)
        if status is None:
            return State()
        mode = self._opened.mode_of(path, status)
        if stat.S_ISDIR(status.st_mode):
            return State("dir", mode, owner=(status.st_uid, status.st_gid))
        if stat.S_ISREG(status.st_mode) and status.st_size > _MAX_FILE_BYTES:
            return State("file", mode, f"{status.st_ino} {status.st_size} {status.st_mtime_ns}")
        if keep and stat.S_ISREG(status.st_mode) and status.st_size <= self._left:
            self._left -= status.st_size
            return self._tree.state_of(path, status, keep=self._kept.keep)
        return self._tree.state_of(path, status)


def _may_name_programs(path: str) -> bool:
    """False for a repository's objects, and for whatever else in it can't make git run anything."""
    _, found, rest = f"/{path}".rpartition("/.git/")
    return not found or of_bare(rest, lambda _: True) is not None
