"""The lines typed before, in this chat and in earlier ones."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_MAX_ENTRIES, _MAX_BYTES = 10_000, 5_000_000
_MAX_ENTRY_BYTES = 64_000
_MAX_PASTE_CHARS = 4_000
"""Longer pastes are not stored: a history is for typed lines."""
_KEPT_SHARE = 0.8  # of the bounds when the file is cut, so that it isn't cut at every start


@dataclass(frozen=True, slots=True)
class Entry:
    """One line as it was sent: `text` with placeholders, `pastes` their texts. `ours`: of this very chat."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)
    ours: bool = False


class History:
    """The lines that were sent, oldest first. With a `path` they are stored there, one JSON object a line, mode 0600.

    Several processes may write at once. A file that is damaged, or can't be read or written, is no error.
    `private`: from now on nothing is written.

        history = History(paths.data_dir() / "history.jsonl")
        history.add(Entry("What is 48*17?"))
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        private: bool = False,
        max_entries: int = _MAX_ENTRIES,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self.private = private
        self._path = path
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._loaded: list[Entry] | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries. The file is read when they are first asked for."""
        if self._loaded is None:
            self._loaded = []
            with suppress(OSError):
                self._loaded += self._read()
        return self._loaded

    def add(self, entry: Entry, *, draft: bool = False) -> None:
        """Add a line; not one that begins with a blank, nor the same one twice in a row.

        `draft`: it was never sent. Then a blank in front keeps it out of the file only.
        """
        text = entry.text.strip("\n")
        if not text.strip() or (self.entries and self.entries[-1].text == text):
            return
        hidden = text[0].isspace()
        if hidden and not draft:
            return
        assert self._loaded is not None
        small = {name: paste for name, paste in entry.pastes.items() if len(paste) <= _MAX_PASTE_CHARS}
        kept = Entry(text, small, ours=True)
        self._loaded.append(kept)
        del self._loaded[: -self._max_entries]
        if self._path is not None and not (self.private or hidden):
            with suppress(OSError):
                self._append(kept)

    def _read(self) -> list[Entry]:
        """The entries of the file. Cuts a file beyond its bounds."""
        if self._path is None:
            return []
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - self._max_bytes))
            data = file.read(self._max_bytes)
        lines = data.split(b"\n")[1 if size > self._max_bytes else 0 :]  # then the first one is incomplete
        if size > self._max_bytes or len(lines) > self._max_entries + 1:
            with suppress(OSError):
                self._cut()
        return [entry for line in lines[-self._max_entries - 1 :] if (entry := _entry(line)) is not None]

    def _append(self, entry: Entry) -> None:
        line = _line(entry)
        if len(line) > _MAX_ENTRY_BYTES:
            return
        with self._opened() as descriptor:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            os.lseek(descriptor, max(0, size - 1), os.SEEK_SET)
            torn = os.read(descriptor, 1) not in (b"", b"\n")  # a process was killed while it wrote
            os.write(descriptor, b"\n" + line if torn else line)  # O_APPEND: at the end, whole

    def _cut(self) -> None:
        """Leave only the newest entries in the file."""
        assert self._path is not None
        with self._opened() as descriptor:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            room = int(self._max_bytes * _KEPT_SHARE)
            os.lseek(descriptor, max(0, size - room), os.SEEK_SET)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                lines = file.read().splitlines(keepends=True)[1 if size > room else 0 :]
            kept = b"".join(lines[-int(self._max_entries * _KEPT_SHARE) :])
            _replace(self._path, kept)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the file for appending, locked against other processes."""
        from filelock import FileLock

        assert self._path is not None
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        with FileLock(self._path.with_suffix(".lock"), mode=0o600, fallback_to_soft=False):
            descriptor = os.open(self._path, flags, 0o600)
            try:
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, 0o600)
                yield descriptor
            finally:
                os.close(descriptor)


def _line(entry: Entry) -> bytes:
    stored: dict[str, object] = {"text": entry.text}
    if entry.pastes:
        stored["pastes"] = dict(entry.pastes)
    return json.dumps(stored).encode() + b"\n"  # ASCII: even half a surrogate pair can be read back


def _entry(line: bytes) -> Entry | None:
    """The entry in a line; None: the line is damaged, or foreign."""
    with suppress(ValueError, RecursionError):
        stored = json.loads(line)
        if isinstance(stored, dict) and isinstance(text := stored.get("text"), str) and text.strip():
            pastes = stored.get("pastes")
            known = pastes.items() if isinstance(pastes, dict) else ()
            return Entry(text, {name: paste for name, paste in known if isinstance(paste, str)})
    return None


def _replace(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # for its owner only
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def beginning(entries: Sequence[Entry], prefix: str) -> list[Entry]:
    """The longer entries with this beginning, newest first, none twice in a row."""
    found: list[Entry] = []
    for entry in reversed(entries):
        if entry.text.startswith(prefix) and entry.text != prefix and (not found or found[-1].text != entry.text):
            found.append(entry)
    return found


def matching(entries: Sequence[Entry], query: str) -> list[Entry]:
    """The entries with `query` in them, newest first, each text once. A query in lower case finds either case."""
    if not query:
        return []
    folded = query == query.lower()
    found: dict[str, Entry] = {}
    for entry in reversed(entries):
        if query in (entry.text.lower() if folded else entry.text):
            found.setdefault(entry.text, entry)
    return list(found.values())
