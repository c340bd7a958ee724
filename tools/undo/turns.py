"""The turns that can be undone, on disk: a folder each, with a list of what was there, and its bytes.

The list is append-only: a crash leaves whole lines, and perhaps a torn one, which is ignored. What it names was kept
before it was named, and named before it was changed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.files import make_private
from ossia.tools.locks import locks
from ossia.tools.tree import State
from ossia.tools.undo.stored import UNREADABLE, Bytes, append, private_file, row_of, state_of

_MAX_LABEL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, for people: its label, the paths it changed, its last change (seconds, by the file system's clock).

    `mark`: the conversation's own id of it; "" for calls by hand.
    """

    label: str
    paths: tuple[str, ...]
    changed_at: float
    mark: str = ""


class TurnFolder:
    """One turn. `before`: what was there. `after`: what the turn left, as far as known. `moved`: git's references."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes = Bytes(folder / "bytes")
        self.label = self.mark = ""
        self.before: dict[str, State] = {}
        self.after: dict[str, State] = {}
        self.moved: dict[str, tuple[str, str]] = {}
        self.unrecorded: set[str] = set()  # written by tools, not yet in `after`

    @property
    def turn(self) -> Turn:
        return Turn(self.label, tuple(self.before), self._list.stat().st_mtime, self.mark)

    @property
    def _list(self) -> Path:
        return self.folder / "turn.jsonl"

    def exists(self) -> bool:
        return self._list.exists()

    def add_before(self, states: Mapping[str, State]) -> None:
        """Add states. A turn's first one counts: paths that it already has are left out."""
        new = {path: state for path, state in states.items() if path not in self.before}
        self._add("before", new)
        self.before |= new

    def add_after(self, states: Mapping[str, State]) -> None:
        """Add states. The last one counts."""
        self._add("after", states)
        self.after |= states

    def add_moved(self, name: str, old: str, new: str) -> None:
        """Add a reference of the repository, that was moved. The turn's first old value and its last new one count."""
        self.moved[name] = self.moved.get(name, (old, new))[0], new
        append(self._list, _moved_line(name, old, new))

    def _add(self, what: str, states: Mapping[str, State]) -> None:
        rows = [json.dumps({"path": path, what: row_of(state)}) + "\n" for path, state in states.items()]
        if rows:
            append(self._list, "".join(rows).encode())

    def drop_if_nothing_changed(self) -> None:
        """Remove the turn if everything is as it was, as after a failed call."""
        unchanged = all(path in self.after and state.equals(self.after[path]) for path, state in self.before.items())
        if unchanged and not self.moved:
            self.remove()

    def keep_only(self, paths: Iterable[str]) -> None:
        """Forget all other paths; remove the turn if there are none left."""
        wanted = [path for path in self.before if path in set(paths)]
        if not wanted:
            self.remove()
            return
        self.before = {path: self.before[path] for path in wanted}
        self.after = {path: self.after[path] for path in wanted if path in self.after}
        temporary = self._list.with_suffix(".new")
        with private_file(temporary) as file:
            file.write(_first_line(self.label, self.mark))
            for what, states in (("before", self.before), ("after", self.after)):
                file.writelines(json.dumps({"path": path, what: row_of(state)}).encode() + b"\n"
                                for path, state in states.items())  # fmt: skip
            file.writelines(_moved_line(name, *move) for name, move in self.moved.items())
        temporary.replace(self._list)

    def remove(self) -> None:
        """Remove the turn, its list first: without that the folder is no turn."""
        self._list.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, label: str, mark: str) -> None:
        self.label, self.mark = label, mark
        make_private(self.bytes.folder)
        with private_file(self._list) as file:
            file.write(_first_line(label, mark))

    def load(self) -> None:
        """Read the list; invalid lines are left out."""
        for line in self._list.read_bytes().split(b"\n"):
            with suppress(*UNREADABLE):
                row = json.loads(line)
                if "label" in row:
                    self.label, self.mark = str(row["label"]), str(row.get("mark", ""))
                elif "moved" in row:
                    name, old, new = map(str, row["moved"])
                    self.moved[name] = self.moved.get(name, (old, new))[0], new
                elif "before" in row:
                    self.before.setdefault(str(row["path"]), state_of(row["before"]))
                else:
                    self.after[str(row["path"])] = state_of(row["after"])

    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self._list, *self.bytes.folder.iterdir()))


@dataclass(frozen=True, slots=True)
class Pending:
    """A command that runs, or whose process was killed: its file is locked as long as that process lives."""

    path: Path
    descriptor: int
    label: str
    mark: str
    turn: TurnFolder | None
    repositories: tuple[str, ...]
    seen_in: str

    def done(self) -> None:
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Unlock the file."""
        os.close(self.descriptor)


class TurnFolders:
    """All turns of a workspace, in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self, label: str, mark: str) -> TurnFolder:
        number = max((int(path.name[:6]) for path in self._paths()), default=0) + 1
        made = TurnFolder(self._folder / f"{number:06}-{secrets.token_hex(3)}")
        made.make(label[:_MAX_LABEL_CHARS], mark)
        return made

    def newest_first(self) -> Iterator[TurnFolder]:
        """All turns. A folder without a list, or with an empty one, is left from a crash: no turn."""
        return (turn for path in reversed(self._paths()) if (turn := self._loaded(path)) is not None)

    def prune(self, turns: int, total_bytes: int) -> None:
        """Keep the last `turns`, or as many of them as fit, the last one in any case."""
        size = 0
        for index, path in enumerate(reversed(self._paths())):
            folder = TurnFolder(path)
            with suppress(OSError):
                size += folder.size_bytes()
            if index and (index >= turns or size > total_bytes):
                folder.remove()

    def begin_command(self, label: str, mark: str, turn: TurnFolder | None, repositories: Iterable[str],
                      seen_in: Path) -> Pending:  # fmt: skip
        """Record that a command is about to run. `seen_in`: the folder that knows the workspace before it."""
        make_private(self._folder)
        repositories = tuple(repositories)
        path = self._folder / f"running-{secrets.token_hex(6)}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        locks(descriptor)
        row = {"label": label, "mark": mark, "turn": turn.folder.name if turn else None,
               "repositories": repositories, "seen_in": str(seen_in)}  # fmt: skip
        os.write(descriptor, json.dumps(row).encode())
        return Pending(path, descriptor, label, mark, turn, repositories, str(seen_in))

    def any_running(self) -> bool:
        """Does a command run now, of this process or of another?"""
        return bool(self._names("running-"))

    def left_behind(self) -> list[Pending]:
        """The commands whose process ended before they were done."""
        found = []
        for path in self._names("running-"):
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            if locks(descriptor):
                found.append(self._pending(path, descriptor))
            else:  # it is running
                os.close(descriptor)
        return found

    def _pending(self, path: Path, descriptor: int) -> Pending:
        row: dict[str, object] = {}
        with suppress(*UNREADABLE):  # killed before the line was complete: the command hadn't begun
            row = dict(json.loads(path.read_bytes()))
        turn = self._loaded(self._folder / str(row["turn"])) if row.get("turn") else None
        repositories = row.get("repositories")
        names = tuple(map(str, repositories)) if isinstance(repositories, list) else ()
        label, mark, seen_in = (str(row.get(key, "")) for key in ("label", "mark", "seen_in"))
        return Pending(path, descriptor, label, mark, turn, names, seen_in)

    def _loaded(self, path: Path) -> TurnFolder | None:
        turn = TurnFolder(path)
        try:
            turn.load()
        except FileNotFoundError:
            return None
        return turn if turn.before or turn.moved else None

    def _paths(self) -> list[Path]:
        return [path for path in self._names("") if path.name[:6].isdigit()]

    def _names(self, start: str) -> list[Path]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - names, to be sorted
        except FileNotFoundError:
            return []
        return [self._folder / name for name in sorted(names) if name.startswith(start)]


def _moved_line(name: str, old: str, new: str) -> bytes:
    return json.dumps({"moved": [name, old, new]}).encode() + b"\n"


def _first_line(label: str, mark: str) -> bytes:
    return json.dumps({"version": 1, "label": label, "mark": mark}).encode() + b"\n"
