"""The folders with the files of python's sessions: made, in use, and in the end removed."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ossia.tools.files import make_private
from ossia.tools.locks import locks
from ossia.tools.sandbox import hostile_folder

_NAME = re.compile(r"python-[0-9a-f]{8}")
_REMOVED_AT_ONCE = 5
"""At most this many old folders are removed for each new one: each may hold 100,000 files."""


class SessionFolder:
    """A private folder below `data_dir`, made new: `path`, e.g. `…/python-1f0c22d9`. In use until `close`.

    Folders of ended sessions are removed, unless they are among the newest `kept_newest` or something in them has
    changed within `kept_s` seconds. A folder in use is locked: the code can try to lock it too, and fails.
    """

    def __init__(self, data_dir: Path, *, kept_s: float = 30 * 24 * 3600.0, kept_newest: int = 20) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        folder = data_dir / f"python-{secrets.token_hex(4)}"
        make_private(folder)
        self.path = folder.resolve()
        self._lock = hostile_folder.opened(self.path)
        locks(self._lock)  # where this fails, no session removes the folder either
        with suppress(OSError):  # another session removes them then
            _remove_old(data_dir, before=self.path.stat().st_mtime - kept_s, kept_newest=kept_newest)

    def close(self) -> None:
        """Stop using it; it stays if there is anything in it."""
        with suppress(OSError):
            self.path.rmdir()
        os.close(self._lock)


def _remove_old(data_dir: Path, *, before: float, kept_newest: int) -> None:
    """`before`: seconds, by the file system's clock."""
    found = {path: path.lstat() for path in data_dir.iterdir() if _NAME.fullmatch(path.name)}
    ours = [path for path, status in found.items() if stat.S_ISDIR(status.st_mode)]
    newest_first = sorted(ours, key=lambda path: found[path].st_ctime, reverse=True)
    removed = 0
    for folder in reversed(newest_first[kept_newest:]):
        if removed == _REMOVED_AT_ONCE:
            return
        if found[folder].st_ctime < before:
            with suppress(OSError):
                removed += _remove_unused(folder, before)


def _remove_unused(folder: Path, before: float) -> bool:
    """Remove a folder, unless a session uses it or something in it has changed since `before`: False."""
    lock = hostile_folder.opened(folder)
    try:
        is_old = locks(lock) and all(entry and entry.status.st_ctime < before for entry in hostile_folder.walk(folder))
        if is_old:
            hostile_folder.remove(folder)
        return is_old
    finally:
        os.close(lock)
