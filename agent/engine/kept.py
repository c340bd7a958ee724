"""What the KV cache holds, kept in a folder: a later process goes on without reading the prompt again.

FOLDER/state    llama.cpp's own form of one sequence
FOLDER/marks    a line with the SHA-256 of the rest; a line of JSON (version, fingerprint, ids, the state's SHA-256, the
                lengths and sizes of the checkpoints); the checkpoints' bytes

A cache is a conversation in another form: the folder is for its owner only. Whatever is wrong with it (torn, of another
model, of another version) makes it useless, never an error: the prompt is then read as ever.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agent.engine.cache import Checkpoint, PrefixCache

VERSION = 1
_STATE, _MARKS = "state", "marks"


class Storable(Protocol):
    """A memory that can be written to a file as a whole."""

    @property
    def state_bytes(self) -> int:
        """How large the file would be."""
        ...

    def save_state(self, path: Path, ids: Sequence[int]) -> bool: ...

    def load_state(self, path: Path, ids: Sequence[int]) -> bool:
        """Put what the file holds in place of what is held now. False: it failed, and nothing is certain."""
        ...


def keep(folder: Path, cache: PrefixCache, memory: Storable, *, fingerprint: str, max_bytes: int) -> int:
    """Write what `cache` holds into `folder`, in place of what is there. Returns the bytes written.

    0: nothing is held, it would take more than `max_bytes`, or it can't be written; the folder is then gone.
    """
    _forget(folder)
    if not len(cache) or memory.state_bytes + cache.checkpoint_bytes > max_bytes:
        return 0
    new = unfinished(folder)
    try:
        _forget(new)
        new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # with `parents` alone its mode would be a usual one
        new.mkdir(mode=0o700)
        if not memory.save_state(new / _STATE, cache.ids):
            return 0
        marks = _marks(cache, fingerprint, _digest(new / _STATE))
        (new / _MARKS).write_bytes(marks)
        written = (new / _STATE).stat().st_size + len(marks)
        new.rename(folder)
    except OSError:
        return 0
    finally:
        _forget(new)
    return written


def unfinished(folder: Path) -> Path:
    """Where `folder` is put together; a crash leaves it there."""
    return folder.with_name(f"{folder.name}.new")


def recall(folder: Path, cache: PrefixCache, memory: Storable, *, fingerprint: str, room: int) -> int:
    """Bring back what `folder` holds; returns how many ids the cache holds now, 0: nothing usable was there.

    `room` is how many the memory can hold.
    """
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


def _marks(cache: PrefixCache, fingerprint: str, state: str) -> bytes:
    header = {
        "version": VERSION,
        "fingerprint": fingerprint,
        "ids": cache.ids,
        "state": state,
        "checkpoints": [
            [one.length, len(one.saved), None if one.logits is None else one.logits.size] for one in cache.checkpoints
        ],
    }
    parts = [json.dumps(header).encode(), b"\n"]
    for one in cache.checkpoints:
        parts += [one.saved, b"" if one.logits is None else one.logits.tobytes()]
    rest = b"".join(parts)
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    digest, _, rest = path.read_bytes().partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise ValueError("torn")
    line, _, blobs = rest.partition(b"\n")
    return json.loads(line), blobs


def _checkpoints(sizes: Sequence[Sequence[Any]], blobs: bytes) -> list[Checkpoint]:
    found, at = [], 0
    for length, saved_bytes, logits_size in sizes:
        if not (isinstance(length, int) and isinstance(saved_bytes, int)):
            raise ValueError("lengths that are none")
        saved, at = blobs[at : at + saved_bytes], at + saved_bytes
        logits = None
        if logits_size is not None:
            logits = np.frombuffer(blobs, np.float32, logits_size, at).copy()
            at += logits.nbytes
        found.append(Checkpoint(length, saved, logits))
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _forget(folder: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(folder)
