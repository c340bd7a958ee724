"""Changes to files: made all together or not at all, and only if the files are still as they were previewed."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools._scratch import remove_left_files
from ossia.tools.approval import sensitive
from ossia.tools.approval.autorun import WHY, link_to, linked_at_the_top, runs_beside
from ossia.tools.approval.sensitive import Caution
from ossia.tools.safe_files import Content, Place, opened_folder, read_bytes
from ossia.tools.spec import ToolFailed
from ossia.tools.tree import NEW_FILE
from ossia.tools.workspace import Workspace

_TEMPORARY = re.compile(r"\.ossia-[0-9a-f]{12}\.tmp")


@dataclass(frozen=True, slots=True)
class Change:
    """One file: `name` is its real name in the workspace. `before` None: it doesn't exist; `after` None: it is deleted.

    The permission bits and the owner are those of `before`, or of `like` (the source of a move), or a new file's.
    """

    name: str
    before: Content | None
    after: bytes | None
    like: Content | None = None


def current(root: Path, name: str) -> Content | None:
    """The file as it is, None if it doesn't exist. Raises `ToolFailed` if it isn't a plain file, or too large."""
    try:
        return read_bytes(root, name)
    except FileNotFoundError:
        return None


def caution(changes: Sequence[Change], names: Sequence[str], workspace: Workspace) -> Caution:
    """The reason why a person must agree to these changes, if any. `names`: the files' names as shown."""
    if ours := of_ossia(names, workspace):
        return Caution(f"it changes {ours[0]}, which is part of ossia itself", firm=True)
    protected = next((change.name for change in changes if change.before and not change.before.mode & 0o222), "")
    by_mode = f"it changes {protected}, which is write-protected" if protected else ""
    why = sensitive.of_writing(*names)
    if not why.firm:
        why = _of_what_leads_there(changes, workspace.root) or why
    return why if why.reason else Caution(by_mode)


def _of_what_leads_there(changes: Sequence[Change], root: Path) -> Caution | None:
    """Cautions about what lies beside these files, and about what a link at the workspace's top leads to."""
    made = {change.name for change in changes if change.after is not None}
    links = linked_at_the_top(root)
    for change in changes:
        if runs_beside(change.name, lambda name: name in made or os.path.lexists(root / name)):
            return Caution(f"it changes {change.name}, {WHY}", firm=True)
        if real := link_to(change.name, links):
            return Caution(f"it changes {change.name}, where {links[real]} leads, {WHY}", firm=True)
    return None


def of_ossia(names: Sequence[str], workspace: Workspace) -> tuple[str, ...]:
    """Those of the names that are parts of ossia itself."""
    return tuple(name for name in names if workspace.own.holds(workspace.root / name))


def apply(changes: Sequence[Change], workspace: Workspace) -> None:
    """Make the changes. If that fails, they are undone and `ToolFailed` is raised; it names what couldn't be undone.

    New contents are first written beside the files, then, when all are complete, renamed into place by descriptors of
    the folders. If a name has become a link meanwhile, the link is replaced and its target is not touched.
    """
    for change in changes:
        found = current(workspace.root, change.name)
        if (found and found.data) != (change.before and change.before.data):
            problem = f"{change.name!r} changed since it was looked at, and nothing was written. Read it again."
            raise ToolFailed(f"Error: {problem}")
    if workspace.keeper is not None:
        for change in changes:
            workspace.keeper.keep(workspace.root / change.name)
    writing = _Writing(workspace.root)
    try:
        for change in changes:
            writing.stage(change)
        for change in changes:
            writing.commit(change)
    except BaseException as error:
        stuck = writing.undo()
        if not isinstance(error, OSError | ToolFailed):
            raise
        reason = str(error) if isinstance(error, ToolFailed) else f"Error: writing failed: {_explain(error)}."
        state = f"Still changed: {', '.join(stuck)}" if stuck else "Nothing was changed"
        raise ToolFailed(f"{reason} {state}.") from error


def _explain(error: OSError) -> str:
    what = {errno.EISDIR: "there is a folder of that name", errno.ENAMETOOLONG: "the name is too long"}
    name = error.filename if isinstance(error.filename, str) and not error.filename.startswith(".ossia-") else ""
    return (f"{name!r}: " if name else "") + what.get(error.errno or 0, error.strerror or str(error))


class _Writing:
    """A write in progress: what is staged, what is already in place, which folders were made for it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._staged: dict[str, str] = {}  # a file's name → the temporary file that is renamed to it
        self._done: list[Change] = []
        self._made: list[str] = []

    def stage(self, change: Change) -> None:
        if change.after is None:
            return
        folder_name, temporary = posixpath.dirname(change.name), f".ossia-{secrets.token_hex(6)}.tmp"
        with opened_folder(self._root, folder_name, make=self._made) as folder:
            self._staged[change.name] = posixpath.join(folder_name, temporary)
            _write(folder, temporary, change.after, change.before or change.like)
            remove_left_files(folder, temporary, _TEMPORARY)

    def commit(self, change: Change) -> None:
        folder_name, last = posixpath.split(change.name)
        with opened_folder(self._root, folder_name) as folder:
            if change.after is None:
                os.unlink(last, dir_fd=folder)
            else:
                staged = posixpath.basename(self._staged[change.name])
                try:
                    os.replace(staged, last, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError as error:
                    raise OSError(error.errno, error.strerror, change.name) from error
                del self._staged[change.name]
        self._done.append(change)

    def undo(self) -> list[str]:
        """Undo what was done; returns the names of files for which that failed."""
        stuck = []
        for change in self._done[::-1]:
            data = change.before.data if change.before else None
            back = Change(change.name, None, data, like=change.before)
            try:
                self.stage(back)
                self.commit(back)
            except (OSError, ToolFailed):
                stuck.append(change.name)
        for name in self._staged.values():
            folder_name, last = posixpath.split(name)
            with suppress(OSError, ToolFailed), opened_folder(self._root, folder_name) as folder:
                os.unlink(last, dir_fd=folder)
        for name in reversed(self._made):
            folder_name, last = posixpath.split(name)
            with suppress(OSError, ToolFailed), opened_folder(self._root, folder_name) as folder:
                os.rmdir(last, dir_fd=folder)
        return stuck


def _write(folder: int, name: str, data: bytes, like: Content | None) -> None:
    """Write a new file with the permissions of `like`, or with those of the user's umask."""
    descriptor = os.open(name, NEW_FILE, 0o666 if like is None else 0o600, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if like is not None:
            if (os.geteuid(), os.getegid()) != like.owner:
                with suppress(OSError):  # only root may give files away
                    os.fchown(descriptor, *like.owner)
            os.fchmod(descriptor, like.mode & 0o777)


def require_name(place: Place) -> None:
    """Refuse a new file's name that looks like another one, or that must be a mistake: controls, backslashes."""
    if place.kind != "missing":
        return
    if "\\" in place.name:
        raise ToolFailed(f"Error: {place.name!r} holds a backslash. Put '/' between folders.")
    if not place.name.isprintable():
        raise ToolFailed(f"Error: {place.name!r} holds characters that can't be seen. Send a plain path.")
