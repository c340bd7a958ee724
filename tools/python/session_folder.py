"""The folders that hold the files of python's sessions: made, in use, and in the end removed."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    changed within `kept_s` seconds. What is in use is locked; the lock lies beside the folder, where the code can't
    reach it.
    """

    def __init__(self, data_dir: Path, *, kept_s: float = 30 * 24 * 3600.0, kept_newest: int = 20) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        name = f"python-{secrets.token_hex(4)}"
        self._mark = data_dir / f"{name}.lock"
        self._lock = os.open(self._mark, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            locks(self._lock)
            make_private(data_dir / name)
            self.path = (data_dir / name).resolve()
        except OSError:
            self._unlock()
            raise
        with suppress(OSError):  # another session removes them then
            _remove_old(data_dir, before=self.path.stat().st_mtime - kept_s, kept_newest=kept_newest)

    def close(self) -> None:
        """Stop using it; it stays if there is anything in it."""
        with suppress(OSError):
            self.path.rmdir()
        self._unlock()

    def _unlock(self) -> None:
        self._mark.unlink(missing_ok=True)
        os.close(self._lock)


def _remove_old(data_dir: Path, *, before: float, kept_newest: int) -> None:
    """`before`: seconds, by the clock that files' times are taken from."""
    found = {path: path.lstat() for path in data_dir.iterdir() if _NAME.fullmatch(path.name)}
    ours = [path for path, status in found.items() if stat.S_ISDIR(status.st_mode)]
    newest_first = sorted(ours, key=lambda path: found[path].st_ctime, reverse=True)
    removed = 0
    for folder in reversed(newest_first[kept_newest:]):
        if removed == _REMOVED_AT_ONCE:
            return
        if found[folder].st_ctime < before:
            with suppress(OSError), _not_in_use(folder) as free:
                entries = hostile_folder.walk(folder) if free else ()
                if free and all(entry and entry.status.st_ctime < before for entry in entries):
                    hostile_folder.remove(folder)
                    removed += 1


@contextmanager
def _not_in_use(folder: Path) -> Iterator[bool]:
    """Whether no session holds it; none can begin to as long as this lasts, since each makes a folder of its own."""
    mark = folder.with_name(f"{folder.name}.lock")
    try:
        lock = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # the session ended in order
        yield True
        return
    try:
        free = locks(lock)
        yield free
        if free and not folder.exists():
            mark.unlink(missing_ok=True)
    finally:
        os.close(lock)
