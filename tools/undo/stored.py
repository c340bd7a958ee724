"""The form of undo's files, all closed to other users: bytes by their hash, and lists of states."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, get_args

from ossia.tools.tree import FileKind, State, digest_of

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""The exceptions of reading a line that we didn't write."""


class Bytes:
    """Files' bytes by their hash, in one private folder. Written atomically, never changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, digest: str) -> Path:
        """The file with the bytes of that hash, if they are kept."""
        return self.folder / digest

    def keep(self, descriptor: int) -> str:
        """Copy what a descriptor reads; returns its hash."""
        return self._save(lambda file: digest_of(descriptor, copy=file.write))

    def write(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Add the bytes with a known hash."""

        def fill(file: BinaryIO) -> str:
            file.writelines(pieces)
            return digest

        self._save(fill)

    def take(self, digest: str, other: Bytes) -> None:
        """Take over bytes from another folder, if they are there: as a hard link if possible, else as a copy."""
        here, there = self.path_of(digest), other.path_of(digest)
        if here.exists() or not there.exists():
            return
        try:
            os.link(there, here)
        except OSError:
            with there.open("rb") as file:
                self.write(digest, file)

    def _save(self, fill: Callable[[BinaryIO], str]) -> str:
        temporary = self.folder / f"new-{secrets.token_hex(6)}"
        with private_file(temporary) as file:
            digest = fill(file)
        temporary.replace(self.path_of(digest))
        return digest


def append(path: Path, data: bytes) -> None:
    """Add lines to a private file, after a newline: this separates them from a line that a crash tore."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        file.write(b"\n" + data)


def private_file(path: Path) -> BinaryIO:
    """A new file that only the user can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def row_of(state: State) -> list[object]:
    """A state as JSON takes it."""
    return [state.kind, state.mode, state.hash, state.target, state.owner]


def state_of(row: list[Any]) -> State:
    """The state that `row_of` wrote. For anything else, raises one of `UNREADABLE`."""
    kind, mode, digest, target, owner = row
    if kind not in get_args(FileKind):
        raise ValueError(f"{kind!r} is no kind of file")
    return State(kind, int(mode), str(digest), str(target), (int(owner[0]), int(owner[1])) if owner else None)
