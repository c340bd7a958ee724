"""The logs of references (reflogs): copied for a command, and what it added to them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ossia.tools.sandbox.git._files import HEX, GitRefused, files_below, is_reference, put, read, write_new

_MAX_BYTES = 64 << 20
"""Of a log, and of all that a command changed."""
_LINE = re.compile(rf"({HEX}) ({HEX}) [^\x00]*")
_APPENDED = "logs/refs/remotes/"
"""There may be thousands of these, and a fetch only adds to them: they aren't copied."""


class Logs:
    """The logs of a repository and of their copies, by name: `"logs/HEAD"`, `"logs/refs/heads/main"`.

    `real`: the folder with the first, and the one with all others; both lie in `copy`, the first in a `part` of it.
    `texts`: what a command may read of a real log, where that isn't all.
    """

    def __init__(self, real: tuple[Path, Path], copy: Path, part: Path, texts: Mapping[Path, str]) -> None:
        (self._own, self._common), self._copy, self._part, self._texts = real, copy, part, texts
        self._copied: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def copy(self) -> None:
        """Copy them. Raises `GitRefused`, as the other methods do."""
        for name in (name for name in self._names(self._own, self._common) if not name.startswith(_APPENDED)):
            real, copy = self._real(name), self._copy / self._place(name)
            before, text = _key(real / name), self._texts.get(real / name)
            data = read(real, name, _MAX_BYTES) if text is None else text.encode("utf-8", "surrogateescape")
            write_new(copy, data or b"")
            self._copied[name] = before, _key(copy)

    def changed(self, gone: Iterable[str]) -> tuple[dict[str, bytes | None], set[str]]:
        """The logs to write, None for those to remove, and the objects that new lines name. `gone`: references."""
        found: dict[str, bytes | None] = {}
        wanted: set[str] = set()
        names, left = self._names(self._copy / self._part, self._copy), _MAX_BYTES
        for name in names:
            real, place = self._real(name), self._place(name)
            before, copied = self._copied.get(name, ((), ()))
            if _key(self._copy / place) == copied or not (name == "logs/HEAD" or is_reference(name[5:])):
                continue
            adds, text = name.startswith(_APPENDED), self._texts.get(real / name)
            if _key(real / name) != before and not adds:
                continue  # the user's own git wrote to it
            data, was = read(self._copy, place, left) or b"", read(real, name, _MAX_BYTES) or b""
            left -= len(data)
            if adds:
                data = was + data
            elif text is not None:
                shown = text.encode("utf-8", "surrogateescape")
                data = was + data[len(shown) :] if data.startswith(shown) else was
            wanted |= _objects(name, data, was)
            found[name] = data
        return found | {f"logs/{name}": None for name in gone if f"logs/{name}" not in names}, wanted

    def write(self, logs: Mapping[str, bytes | None]) -> None:
        """Write and remove the real ones."""
        for name, data in sorted(logs.items(), key=lambda item: item[1] is not None):  # removals first
            path = self._real(name) / name
            with contextlib.suppress(OSError):
                if data is not None:
                    path.rmdir()  # an empty folder that git left
            if data is not None:
                put(path, data)
                continue
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                while path.parent.parent.parent.name != "logs":
                    path = path.parent
                    path.rmdir()

    def _names(self, own: Path, common: Path) -> list[str]:
        heads = ["logs/HEAD"] if (own / "logs" / "HEAD").exists() else []
        return [*heads, *(name for name in files_below(common, "logs/refs") if not name.endswith(".lock"))]

    def _real(self, name: str) -> Path:
        return self._own if name == "logs/HEAD" else self._common

    def _place(self, name: str) -> str:
        """The log's name in the copy."""
        return (self._part / name).as_posix() if name == "logs/HEAD" else name


def _objects(name: str, data: bytes, before: bytes) -> set[str]:
    """The objects in the lines that weren't there before. Raises `GitRefused` for one that isn't git's."""
    known, wanted = set(before.split(b"\n")), set()
    *lines, last = data.split(b"\n")
    for line in (*lines, last) if last else lines:
        if line not in known:
            match = _LINE.fullmatch(line.decode("utf-8", "surrogateescape"))
            if match is None:
                raise GitRefused(f"{name} has a line that isn't git's")
            wanted |= {oid for oid in match.groups() if oid.strip("0")}
    return wanted


def _key(path: Path) -> tuple[int, ...]:
    """The identity of a file's content, for comparing; empty if it isn't there."""
    try:
        status = path.lstat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
