"""The small files of a git folder: read without following links, and replaced under git's own locks."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import time
from pathlib import Path

from ossia.tools.tree import NEW_FILE, NotAPlainFile, open_file, opened_below

MAX_BYTES = 1 << 20
MAX_LONG_BYTES = 256 << 20
"""Of an index."""
_MAX_PACKED_BYTES = 64 << 20
"""Of the packed references, a million of them."""
_MAX_NAMES, _MAX_DEPTH = 200_000, 64
_WAIT_S = 1.0
"""Another git holds a lock for a few milliseconds."""
HEX = r"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_VALUE = re.compile(rf"({HEX}|ref: refs/[^\n]*)\n?")
_REFERENCE = re.compile(r"refs(?:/(?!\.)(?:(?!\.\.|@\{|\.lock(?:/|\Z))[^\x00-\x20\x7f~^:?*\[\\/])+(?<!\.))+")
_NOT_TAKEN = ("refs/replace/", "refs/bisect/", "refs/worktree/", "refs/rewritten/")
"""`replace` shows other content under an old name; the others belong to work that goes on over several commands."""


class GitRefused(Exception):
    """The reason why git isn't given, or why its changes aren't taken over, in words for people."""


def read(top: Path, name: str, most: int = MAX_BYTES) -> bytes | None:
    """The bytes of a plain file, `read(Path("/p/.git"), "logs/HEAD")`; None if it isn't there. Raises `GitRefused`."""
    *above, last = name.split("/")
    try:
        with opened_below(top, above) as folder, os.fdopen(open_file(last, folder), "rb") as file:
            data = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotAPlainFile:
        raise GitRefused(f"{name} is no plain file") from None
    except OSError as error:
        raise GitRefused(f"{name} can't be read ({error.strerror})") from None
    if len(data) > most:
        raise GitRefused(f"{name} holds more than {most >> 20} MB")
    return data


def files_below(top: Path, folder: str) -> list[str]:
    """The names of all below a folder that isn't a folder: `["refs/heads/main"]`, sorted; none if it isn't there."""
    found: list[str] = []
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        if at.count("/") > _MAX_DEPTH:  # each is opened from the top
            raise GitRefused(f"{folder} holds folders more than {_MAX_DEPTH} deep")
        try:
            with opened_below(top, at.split("/")) as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
                    kind = waiting if entry.is_dir(follow_symlinks=False) else found
                    kind.append(f"{at}/{entry.name}")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise GitRefused(f"{at} can't be read ({error.strerror})") from None
        if len(found) + len(waiting) > _MAX_NAMES:
            raise GitRefused(f"{folder} holds more than {_MAX_NAMES:,} files")
    return sorted(found)


def references(top: Path) -> dict[str, str]:
    """The value of each reference: `{"refs/heads/main": "0bd15a…"}`; of a symbolic one, `"ref: refs/…"`."""
    found = {}
    for line in io.BytesIO(read(top, "packed-refs", _MAX_PACKED_BYTES) or b""):
        value, _, name = line.removesuffix(b"\n").decode("utf-8", "surrogateescape").partition(" ")
        if name.startswith("refs/") and re.fullmatch(HEX, value):
            found[name] = value
    for name in files_below(top, "refs"):
        if not name.endswith(".lock"):
            found[name] = value_of(read(top, name, 4096) or b"", name)
    return found


def value_of(data: bytes, name: str) -> str:
    """The value in a reference's file, or in `HEAD`. Raises `GitRefused`."""
    match = _VALUE.fullmatch(data.decode("utf-8", "surrogateescape"))
    if match is None:
        raise GitRefused(f"{name} holds no object's name")
    return match[1]


def is_reference(name: str) -> bool:
    """Is it the name of a reference that may be taken over, by the rules of `git check-ref-format`?"""
    return _REFERENCE.fullmatch(name) is not None and not name.startswith(_NOT_TAKEN)


def write_new(path: Path, data: bytes) -> None:
    """Make a file of a copy that nobody else has yet, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


class Held:
    """git's own lock of a file, held until the end of the `with`; `put` replaces the file. Raises `GitRefused`."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, path.with_name(f"{path.name}.lock")
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self._lock, NEW_FILE, 0o666)
                return
            except OSError as error:
                if error.errno != errno.EEXIST:
                    raise GitRefused(f"{path.name} can't be written ({error.strerror})") from None
                if time.monotonic() > until:
                    raise GitRefused(f"another git works here ({self._lock.name} exists)") from None
            time.sleep(0.02)

    def put(self, data: bytes) -> None:
        """Replace the file: the old one or the new one is there, never half of one."""
        with open(self._descriptor, "wb", closefd=False) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._lock.replace(self._path)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        status = os.fstat(self._descriptor)
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            if os.path.samestat(status, self._lock.lstat()):
                self._lock.unlink()


def put(path: Path, data: bytes | None) -> None:
    """Replace a file, or remove it (None), under its lock."""
    with Held(path) as held:
        if data is None:
            path.unlink(missing_ok=True)
        else:
            held.put(data)
