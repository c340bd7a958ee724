"""The static parts of prompts, stored on disk: a process needn't read again what an earlier one has read.

FOLDER/prompt-<number of ids>-<SHA-256 of the model's fingerprint and the ids>    each as `agent.engine.stored` has it

So the longest part that a prompt begins with is found by its name, and no other one is opened. A part with anything
wrong in it counts as absent.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from array import array
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ossia.agent.engine.stored import Snapshot, delete, holds_cache, is_own, is_unfinished

_ABANDONED_S = 3600
"""A part that seems to be still being written after this long was left by a crash."""
_NAME = re.compile(r"prompt-(\d{1,9})-[0-9a-f]{64}")


class StoredPrompts:
    """Static parts stored in `folder`, which processes share. `writes` False: they are only read.

    `max_bytes`: if all of them take more, the least recently used ones are deleted.
    """

    def __init__(self, folder: Path, *, max_bytes: int, writes: bool = True) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.writes = writes
        self.personal = True  # those with the user's own texts, too
        self._writing: list[threading.Thread] = []

    def longest(self, ids: Sequence[int], fingerprint: str, *, beyond: int = 0) -> Path | None:
        """The longest stored part that `ids` begin with, if it has more than `beyond` ids."""
        with suppress(OSError):
            lengths = {int(name[1]) for one in self.folder.iterdir() if (name := _NAME.fullmatch(one.name))}
            for length in sorted((one for one in lengths if beyond < one < len(ids)), reverse=True):
                folder = self._folder(ids[:length], fingerprint)
                if folder.exists():
                    return folder
        return None

    def used(self, folder: Path) -> None:
        """Note that it was used just now."""
        if self.writes:
            with suppress(OSError):
                os.utime(folder)

    def useless(self, folder: Path) -> None:
        """Delete a damaged one, so that a whole one can take its place."""
        if self.writes and is_own(folder):
            delete(folder)

    def wants(self, ids: Sequence[int], fingerprint: str) -> bool:
        """True if these ids should be stored: not when they are already, or nothing may be written."""
        return self.writes and not self._folder(ids, fingerprint).exists()

    def add(self, snapshot: Snapshot) -> int:
        """Store it. Returns the bytes written, 0 if it can't be stored."""
        if not self.writes:
            return 0
        written = snapshot.write(self._folder(snapshot.ids, snapshot.about.fingerprint))
        self._make_room()
        return written

    def add_beside(self, snapshot: Snapshot) -> None:
        """Store it on a thread of its own, so that nobody waits for the disk."""
        thread = threading.Thread(target=self.add, args=(snapshot,), name="ossia-save", daemon=True)
        thread.start()
        self._writing = [one for one in self._writing if one.is_alive()] + [thread]

    def close(self, timeout_s: float = 2.0) -> None:
        """Wait for what is being written, but not forever: the disk may hang."""
        for thread in self._writing:
            thread.join(timeout_s)

    def _folder(self, ids: Sequence[int], fingerprint: str) -> Path:
        digest = hashlib.sha256(fingerprint.encode() + b"\0" + array("q", ids).tobytes())
        return self.folder / f"prompt-{len(ids)}-{digest.hexdigest()}"

    def _make_room(self) -> None:
        stored = stored_in(self.folder, prompts=True)
        make_room(stored, self.max_bytes)
        now = max((used for used, _, _ in stored), default=0.0)
        for folder in unfinished_in(self.folder):
            with suppress(OSError):
                if folder.stat().st_mtime < now - _ABANDONED_S:
                    delete(folder)


def make_room(stored: Sequence[tuple[float, int, Path]], max_bytes: int) -> None:
    """Delete the least recently used, until the others take no more than `max_bytes`."""
    total = 0
    for _, size, folder in sorted(stored, reverse=True):
        total += size
        if total > max_bytes:
            delete(folder)


def stored_in(folder: Path, *, prompts: bool) -> list[tuple[float, int, Path]]:
    """The caches stored there, of prompts or of sessions: when each was last used, its bytes, its folder.

    Those that are being written aren't among them.
    """
    found = []
    for one in _folders(folder):
        if (_NAME.fullmatch(one.name) is not None) != prompts or is_unfinished(one):
            continue
        with suppress(OSError):  # gone meanwhile
            found.append((one.stat().st_mtime, sum(file.stat().st_size for file in one.iterdir()), one))
    return found


def unfinished_in(folder: Path) -> list[Path]:
    """Those that are being written there, or that a crash left half-written."""
    return [one for one in _folders(folder) if is_unfinished(one)]


def _folders(folder: Path) -> list[Path]:
    """The folders in `folder` that hold a stored cache and nothing else. Empty if `folder` is a link or not ours."""
    return [one for one in folder.glob("*/") if is_own(one) and holds_cache(one)] if is_own(folder) else []
