"""A KV cache stored in a folder: a later process goes on without reading the prompt again.

FOLDER/state    llama.cpp's own form of one sequence
FOLDER/marks    a line with the SHA-256 of the rest; a line of JSON (version, fingerprint, model, personal, ids, the
                state's SHA-256, the lengths and sizes of the checkpoints); the checkpoints' bytes

A cache is a conversation in another form, so the folder is for its owner only. A cache with anything wrong (damaged, of
another model, version or user) is ignored and never an error: the prompt is then read as usual.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ossia.agent.engine.cache import Checkpoint, PrefixCache

VERSION = 1
_STATE, _MARKS = "state", "marks"
_UNFINISHED = ".new"


class Storable(Protocol):
    """A memory that can be written to a file as a whole."""

    @property
    def state_bytes(self) -> int:
        """The size of the file."""

    def save_state(self, path: Path, ids: Sequence[int]) -> bool: ...

    def copy_state(self, ids: Sequence[int]) -> bytearray | None:
        """The bytes that `save_state` would write. None: they can't be copied."""

    def load_state(self, path: Path, ids: Sequence[int]) -> bool:
        """Replace what is held now by what the file holds. False: it failed, and what is held now is uncertain."""


@dataclass(frozen=True, slots=True)
class About:
    """The note on a stored cache: its model, and whether the user's own texts are in it.

    `About("0.3.36 gpt-oss-20b.gguf 12109558592 …", "gpt-oss-20b", personal=True)`
    """

    fingerprint: str
    model: str
    personal: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cache at one moment. `save_state` writes its state into a file; False: it can't be written."""

    ids: tuple[int, ...]
    checkpoints: tuple[Checkpoint, ...]
    about: About
    save_state: Callable[[Path], bool]

    def write(self, folder: Path) -> int:
        """Write it into `folder`, unless a cache is there already. Returns the bytes written; 0: none could be."""
        new: Path | None = None
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_own(folder.parent):
                return 0
            # A unique name, for its owner only: another process may be writing the same cache.
            new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=_UNFINISHED, dir=folder.parent))
            if not self.save_state(new / _STATE):
                return 0
            marks = _marks(self, _digest(new / _STATE))
            (new / _MARKS).write_bytes(marks)
            for file in (new / _STATE, new / _MARKS):
                file.chmod(0o600)
            written = (new / _STATE).stat().st_size + len(marks)
            new.rename(folder)  # fails where one is already
        except OSError:
            return 0
        finally:
            if new is not None:
                delete(new)
        return written


def take(cache: PrefixCache, memory: Storable, about: About, *, max_bytes: int) -> Snapshot | None:
    """A copy of what `cache` holds: the engine goes on while any thread writes it.

    None: it is empty, or the copy would take more than `max_bytes`.
    """
    if not len(cache) or memory.state_bytes + cache.checkpoint_bytes > max_bytes:
        return None
    state = memory.copy_state(cache.ids)
    if state is None:
        return None
    return Snapshot(cache.ids, cache.checkpoints, about, lambda path: path.write_bytes(state) == len(state))


def save(folder: Path, cache: PrefixCache, memory: Storable, about: About, *, max_bytes: int) -> int:
    """Write what `cache` holds into `folder`, in place of what is there. Returns the bytes written.

    0: the cache is empty, it would take more than `max_bytes`, or it can't be written; the folder is then gone.
    """
    delete(folder)
    if not len(cache) or memory.state_bytes + cache.checkpoint_bytes > max_bytes:
        return 0
    return Snapshot(cache.ids, cache.checkpoints, about, lambda path: memory.save_state(path, cache.ids)).write(folder)


def is_unfinished(folder: Path) -> bool:
    """True for a cache being written, or left half-written by a crash."""
    return folder.name.endswith(_UNFINISHED)


def delete(folder: Path) -> None:
    """Delete it, and what a crash left of it while it was being written."""
    for found in (folder, *folder.parent.glob(f"{folder.name}.*{_UNFINISHED}")):
        with suppress(OSError):
            shutil.rmtree(found)


def is_own(folder: Path) -> bool:
    """True if the folder belongs to this user, and nobody else may write into it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows: the folder of a user's profile is theirs
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def holds_cache(folder: Path) -> bool:
    """True if the folder holds only a stored cache, or a part of one."""
    with suppress(OSError):
        return {one.name for one in folder.iterdir()} <= {_STATE, _MARKS}
    return False


def inspect(folder: Path) -> tuple[About, int] | None:
    """The note on the cache stored in `folder`, and its number of ids. None: nothing usable is there."""
    try:
        header, _ = _read(folder / _MARKS)
        about = About(str(header["fingerprint"]), str(header["model"]), bool(header["personal"]))
        return about, len(header["ids"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def load(folder: Path, cache: PrefixCache, memory: Storable, *, fingerprint: str, room: int) -> int:
    """Load what `folder` holds; returns how many ids the cache holds now. 0: nothing usable was there.

    `room` is how many ids the memory can hold.
    """
    if not is_own(folder.parent) or not is_own(folder):
        return 0
    try:
        header, blobs = _read(folder / _MARKS)
        ids = [int(token) for token in header["ids"]]
        fits = header["version"] == VERSION and header["fingerprint"] == fingerprint and len(ids) < room
        if not fits or header["state"] != _digest(folder / _STATE):
            return 0
        checkpoints = _checkpoints(header["checkpoints"], blobs)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0
    cache.clear()
    if not memory.load_state(folder / _STATE, ids):
        cache.clear()
        return 0
    return cache.adopt(ids, checkpoints)


def _marks(snapshot: Snapshot, state: str) -> bytes:
    sizes = [
        [one.length, len(one.saved), None if one.logits is None else one.logits.size, one.stays]
        for one in snapshot.checkpoints
    ]
    header = {"version": VERSION, **asdict(snapshot.about), "ids": snapshot.ids, "state": state, "checkpoints": sizes}
    parts = [json.dumps(header).encode(), b"\n"]
    for one in snapshot.checkpoints:
        parts += [one.saved, b"" if one.logits is None else one.logits.tobytes()]
    rest = b"".join(parts)
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("not a file")  # a FIFO would never end
    digest, _, rest = path.read_bytes().partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise ValueError("torn")
    line, _, blobs = rest.partition(b"\n")
    return json.loads(line), blobs


def _checkpoints(sizes: Sequence[Sequence[Any]], blobs: bytes) -> list[Checkpoint]:
    found, at = [], 0
    for length, saved_bytes, logits_size, *stays in sizes:
        if not (isinstance(length, int) and isinstance(saved_bytes, int)):
            raise ValueError("not a length")
        saved, at = blobs[at : at + saved_bytes], at + saved_bytes
        logits = None
        if logits_size is not None:
            logits = np.frombuffer(blobs, np.float32, logits_size, at).copy()
            at += logits.nbytes
        found.append(Checkpoint(length, saved, logits, stays == [True]))
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
