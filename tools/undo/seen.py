"""The last look at a workspace, kept as lines in a file: each look appends what has changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ossia.tools.tree import UNREAD, State
from ossia.tools.undo.shadow import Objects, Rules
from ossia.tools.undo.stored import UNREADABLE, append, row_of, state_of

Key = tuple[int, int, int, int, int]
"""mode, inode, size, mtime in ns, ctime in ns; of a folder the mode and the inode alone."""
CHANGES = -1
"""The mode in the key of what must be read again every time."""
_SPARE_LINES = 5_000


@dataclass(frozen=True, slots=True)
class Known:
    """A path's state, and the key to recognise it by. `listed`: False for a folder that couldn't be listed."""

    key: Key
    state: State
    listed: bool = True


class Seen:
    """The files and folders by path, and the names that git ignores, a folder with `/` at its end."""

    def __init__(self, file: Path, rules: Rules) -> None:
        self._file, self._status, self._lines = file, (0, 0, 0), 0
        self._rules, self._rules_there = rules, dict[str, bytes]()
        self.known: dict[str, Known] = {}
        self.ignored: set[str] = set()

    def load(self, objects: Objects) -> None:
        """Read the file, unless it is as we left it: another ossia in the same workspace may have added to it."""
        try:
            status = self._file.stat()
            if self._status == (status.st_ino, status.st_size, status.st_mtime_ns):
                return
            self._status = (status.st_ino, status.st_size, status.st_mtime_ns)
            lines = self._file.read_bytes().split(b"\n")
        except FileNotFoundError:
            self.known, self.ignored, self._rules.files, self._lines = {}, set(), {}, 0
            return
        self.known, self.ignored, self._lines = {}, set(), len(lines)
        for line in lines[:-1]:  # after the last newline there is nothing, or what a crash left
            with suppress(*UNREADABLE):
                self._take(*json.loads(line))
        self._rules_there = dict(self._rules.files)
        kept = objects.names()
        for path, known in self.known.items():
            if known.state.kind == "file" and known.state.readable and known.state.hash not in kept:
                lost = replace(known.state, hash=f"{UNREAD}lost")
                self.known[path] = Known((CHANGES, *known.key[1:]), lost)

    def _take(self, path: str, *row: Any) -> None:
        """Take over one line of the list."""
        match row:
            case ():
                self.known.pop(path, None)
                self.ignored.discard(path)
            case ("ignored",):
                self.ignored.add(path)
            case ("rules", rules):
                self._rules.files = {str(name): text.encode("latin-1") for name, text in rules.items()}
            case ((mode, inode, size, changed, status_changed), state, listed):
                key = (mode, inode, size, changed, status_changed)
                self.known[path] = Known(key, state_of(state), bool(listed))

    def append(self, changed: Mapping[str, Known], gone: Collection[str], ignored: Collection[str]) -> None:
        """Add what is new to the file, or write it anew if most of it is old."""
        if not (changed or gone or ignored or self._rules.files != self._rules_there):
            return
        self._lines += len(changed) + 1
        anew = self._lines > 2 * len(self.known) + _SPARE_LINES
        if anew:
            changed, gone, ignored, self._lines = self.known, (), self.ignored, len(self.known)
        rows: list[list[object]] = [[path] for path in gone]
        rows += [[path, "ignored"] for path in ignored]
        rows += [[path, known.key, row_of(known.state), known.listed] for path, known in changed.items()]
        if anew or self._rules.files != self._rules_there:
            self._rules_there = dict(self._rules.files)
            rows.append(["", "rules", {path: text.decode("latin-1") for path, text in self._rules.files.items()}])
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        if anew:
            temporary = self._file.with_suffix(".new")
            temporary.unlink(missing_ok=True)
            append(temporary, data)
            temporary.replace(self._file)
        else:
            append(self._file, data)
        status = self._file.stat()
        self._status = (status.st_ino, status.st_size, status.st_mtime_ns)
