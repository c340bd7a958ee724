"""What a turn changed in the workspace, kept so that it can be undone: the tools' writes and those of the shell.

    journal = Journal(data_dir, Path("/home/user/project"))
    journal.begin_turn("fix the tests")      # Workspace(root, keeper=journal): the tools call `keep` before each write
    journal.end_turn()
    journal.undo()                           # Undone("fix the tests", restored=("a.py",), …)
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tools.approval.later import linked, put_aside
from tools.approval.sensitive import Place
from tools.spec import ToolFailed
from tools.undo.restore import Skipped, Undone, undo_turn
from tools.undo.snapshot import NEVER, Known, Store, TooMuch, Walk, make_private, walk
from tools.undo.tree import Opened, State, Tree
from tools.undo.turns import Pending, Turn, TurnFolder, TurnFolders

__all__ = ["Before", "Journal", "Skipped", "Turn", "Undone"]

_ASK_AGAIN_S = 60.0
"""How long a workspace that held too much isn't looked at again."""
_COLLECT_ABOVE_BYTES = 64 << 20
_BY_HAND = "(calls by hand)"


@dataclass(frozen=True, slots=True)
class Before:
    """The workspace before a command. `repositories`: each `.git` in it, which a command must not be able to change.

    `links`: what such links lead to whose names run or instruct later.
    """

    known: Mapping[str, Known]
    repositories: tuple[str, ...]
    unlisted: frozenset[str]
    pending: Pending
    links: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Changes:
    """What was at the paths that a command changed, and what is there now (nothing where that isn't known)."""

    before: Mapping[str, State]
    after: Mapping[str, State]


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """How much is kept. `file_bytes`: of one file that a tool writes. `command_*`: of a workspace for the shell's sake.

    Of turns the last `turns` stay, and as many as fit into `total_bytes`.
    """

    file_bytes: int = 64 << 20
    command_bytes: int = 200 << 20
    command_files: int = 20_000
    turns: int = 100
    total_bytes: int = 512 << 20


class Journal:
    """The turns of one workspace, in `data_dir/undo/KEY/`, closed to other users. A `Keeper` (tools/workspace.py).

    Several processes may use it at once. A crash, at any moment, leaves a journal that undo can use: what it cuts off
    is taken up by the next process. Kept are bytes, permission bits, links and folders; not times, owners (but by root)
    and attributes. Neither is what lies in the workspace's own `.git`, which a confined command can't write.
    """

    def __init__(self, data_dir: Path, workspace_root: Path, *, limits: KeepLimits | None = None) -> None:
        self._root, self._limits = workspace_root, limits or KeepLimits()
        self._folder = data_dir / "undo" / hashlib.sha256(os.fsencode(workspace_root)).hexdigest()[:16]
        self._tree = Tree(workspace_root)
        self._turns = TurnFolders(self._folder / "turns")
        inside = data_dir.resolve()
        self._ours = [inside.relative_to(workspace_root).as_posix()] if inside.is_relative_to(workspace_root) else []
        self._store = Store(self._folder / "seen", self._tree, max_files=self._limits.command_files,
                            max_bytes=self._limits.command_bytes, left_out=self._ours)  # fmt: skip
        self._label = _BY_HAND
        self._turn: TurnFolder | None = None
        self._lock, self._depth = threading.RLock(), 0
        self._running = False
        self._looked = False
        self._too_much, self._ask_again_at = "", 0.0

    # -- turns ---------------------------------------------------------------------------------------------------------

    def begin_turn(self, label: str) -> None:
        """Start a turn; `label` is for people, the user's own words. Nothing is stored until something is written."""
        self.end_turn()
        self._label = label

    def end_turn(self) -> None:
        """Note how the turn left its files, so that undo sees what the user changes later. Call it after every turn."""
        if self._turn is None:
            return
        with self._locked():
            self._settle()
            self._turn.drop_if_nothing_changed()
            self._turn, self._label = None, _BY_HAND
            self._turns.prune(self._limits.turns, self._limits.total_bytes)

    def turns(self) -> tuple[Turn, ...]:
        """What can be undone, the last one first."""
        if not self._folder.exists():
            return ()
        with self._locked():
            return tuple(folder.turn for folder in reversed(self._turns.all()))

    def undo(self, *, force: bool = False, skip: bool = False, dry_run: bool = False) -> Undone | None:
        """Give the files back that the last turn changed; None if there is no turn.

        A file that isn't as the turn left it (the user went on with it) stays, is named, and stays undoable: `force`
        takes the turn's beginning for it too, `skip` leaves it for good. `dry_run` only says what would be done.
        """
        if not self._folder.exists():
            return None
        with self._locked():
            if self._turn is not None:
                self._settle()
            folder = self._turns.last()
            if folder is None:
                return None
            undone = undo_turn(folder, self._tree, force=force, skip=skip, dry_run=dry_run)
            if not dry_run:
                self._turn = None
            return undone

    # -- the tools' writes ---------------------------------------------------------------------------------------------

    def keep(self, path: Path) -> None:
        """Keep what is at `path` before it is changed (see `Keeper`). Raises `ToolFailed` where that can't be done."""
        try:
            name = path.relative_to(self._root).as_posix()
        except ValueError:
            raise ToolFailed(f"Error: {path} is not in the workspace") from None
        try:
            with self._locked():
                self._keep(name)
        except OSError as error:
            why = error.strerror or str(error)
            raise ToolFailed(f"Error: {name} can't be kept for undo ({why}), so it isn't changed") from error

    def _keep(self, name: str) -> None:
        status = self._tree.status(name)
        if status is not None and status.st_size > self._limits.file_bytes:
            raise ToolFailed(
                f"Error: {name} holds {status.st_size >> 20} MB, more than is kept for undo "
                f"({self._limits.file_bytes >> 20} MB): change it with a command instead"
            )
        turn = self._current()
        if not turn.has(name):
            state = self._tree.state(name, keep=turn.bytes.keep)
            if state.kind in ("fifo", "other") or not state.readable:
                raise ToolFailed(f"Error: {name} is no plain file that can be read, so it isn't changed")
            parents = [name[:i] for i, character in enumerate(name) if character == "/"]
            missing = [parent for parent in parents if not turn.has(parent) and self._tree.status(parent) is None]
            turn.add_before({**dict.fromkeys(missing, State()), name: state})
            turn.unsettled.update(missing)
        turn.unsettled.add(name)

    # -- the shell's writes --------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Copy what the workspace holds, so that a first command finds it done. For a thread of its own; may take

        seconds. Says nothing when it can't: `commands_cannot_be_undone` does.
        """
        with suppress(OSError), self._locked():
            if self._look_first() and not self._turns.any_running():
                self._store.collect()

    def commands_cannot_be_undone(self) -> str:
        """Why what a command changes now couldn't be undone, in words for people; empty if it can."""
        try:
            with self._locked():
                return "" if self._running or self._looked or self._look_first() else self._too_much
        except OSError as error:
            return f"its state can't be kept ({error.strerror or error})"

    def before_command(self) -> Before | None:
        """Keep the state of the whole workspace; None where it holds too much. Give it to `after_command`.

        Raises `ToolFailed` where it can't be kept (a full disk): then the command must not run.
        """
        try:
            with self._locked():
                if self._turn is not None:
                    self._settle()
                if not self._looked and not self._look_first():
                    return None
                with Opened(self._tree) as opened:
                    known, found = self._look(opened)
                    links = linked(self._tree, (path for path, one in known.items() if one.state.kind == "link"))
                if not self._turns.any_running():
                    self._store.collect(above_bytes=_COLLECT_ABOVE_BYTES)
                self._running = True
                pending = self._turns.begin_command(self._label, self._turn, found.repositories)
                return Before(known, tuple(found.repositories), frozenset(found.unlisted), pending, links)
        except TooMuch as error:
            self._give_up(error)
            return None
        except OSError as error:
            why = error.strerror or str(error)
            raise ToolFailed(f"Error: the workspace can't be kept for undo ({why}), so nothing is run") from error

    def after_command(self, before: Before, *, git_is_free: bool = False) -> tuple[str, ...]:
        """Note what the command changed. What it left may be more than is kept: then that is known by name only.

        What runs or instructs later is put aside first; returns the lines that tell of it (see `_later.put_aside`).
        """
        with self._locked():
            try:
                with Opened(self._tree) as opened:
                    changes = self._changes(before, opened)
                    told = put_aside(self._tree, changes.before, self._store.bytes, before.links,
                                     git_is_free=git_is_free)  # fmt: skip
                    self._note(self._changes(before, opened) if told else changes, self._current)
                return told
            finally:
                self._running = False
                before.pending.done()

    def _look_first(self) -> bool:
        if self._running or time.monotonic() < self._ask_again_at:
            return False
        try:
            self._store.look()
        except TooMuch as error:
            self._give_up(error)
            return False
        self._looked = True
        return True

    def _give_up(self, error: TooMuch) -> None:
        self._too_much, self._ask_again_at, self._looked = str(error), time.monotonic() + _ASK_AGAIN_S, False

    def _note(self, changes: _Changes, make_turn: Callable[[], TurnFolder]) -> None:
        if not changes.before:
            return
        turn = make_turn()
        for state in changes.before.values():
            if state.kind == "file":
                turn.bytes.take(state.hash, self._store.bytes)
        turn.add_before(changes.before)
        turn.add_after(changes.after)

    def _changes(self, before: Before, opened: Opened) -> _Changes:
        after, whole = self._after(before, opened)
        if whole:
            changed = {path for path, known in after.items()
                       if (was := before.known.get(path)) is not known  # the same object: not read again
                       and (was is None or not was.state.equals(known.state))}  # fmt: skip
            changed = {path for path in changed if path in before.known or not _below(path, before.unlisted)}
        else:
            changed = {path for path, known in before.known.items()
                       if (now := after.get(path)) is None or now.key != known.key}  # fmt: skip
            changed |= {path for path in after if path not in before.known and not _below(path, before.unlisted)}
        changed |= {path for path in before.known if path not in after}
        befores = {path: before.known[path].state if path in before.known else State() for path in sorted(changed)}
        afters = {path: after[path].state if path in after else State() for path in befores}
        return _Changes(befores, afters if whole else {})

    def _after(self, before: Before, opened: Opened) -> tuple[dict[str, Known], bool]:
        """What there is after a command, and whether all of it was read. If it is too much for that: names only."""
        try:
            return self._look(opened, before.repositories)[0], True
        except (TooMuch, OSError) as error:
            if isinstance(error, TooMuch):
                self._give_up(error)
        found = walk(self._root, max_files=1 << 40, max_bytes=1 << 60, left_out=self._ours,
                     repositories=before.repositories)  # fmt: skip
        return {path: Known(key, State("other")) for path, key in found.keys.items()}, False

    def _look(self, opened: Opened, repositories: tuple[str, ...] | None = None) -> tuple[dict[str, Known], Walk]:
        """What there is, also in folders that are closed to their owner: these are `opened`, and known as they were."""
        while True:
            known, found = self._store.look(repositories)
            if not [path for path in sorted(found.unlisted) if opened.open(path)]:
                break
        for path in opened:
            if path in known and (status := self._tree.status(path)) is not None:
                known[path] = Known(NEVER, State("dir", opened.mode_of(path, status)))
        return known, found

    # -- inside --------------------------------------------------------------------------------------------------------

    def _current(self) -> TurnFolder:
        """The turn that is going on, made at its first write; another one if somebody undid it meanwhile."""
        if self._turn is None or not self._turn.exists():
            self._turn = self._turns.new(self._label)
        return self._turn

    def _settle(self) -> None:
        """Note how the tools left what they wrote."""
        turn = self._turn
        if turn is None or not turn.exists():
            self._turn = None
            return
        after: dict[str, State] = {}
        for name in sorted(turn.unsettled):
            with suppress(OSError):  # it can't be looked at: undo will find out
                after[name] = self._tree.state(name)
        turn.add_after(after)
        turn.unsettled.clear()

    def _recover(self) -> None:
        """Take up what a command changed whose process ended in the middle of it."""
        for pending in self._turns.left_behind():
            known = self._store.last_seen()
            closed = frozenset(path for path, one in known.items() if not one.listed)
            before = Before(known, pending.repositories, closed, pending)
            with Opened(self._tree) as opened:
                changes = self._changes(before, opened)
            self._note(changes, partial(self._turn_of, pending))
            pending.done()

    def _turn_of(self, pending: Pending) -> TurnFolder:
        return pending.turn or self._turns.new(pending.label)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One thread of one process at a time."""
        import fcntl

        with self._lock:
            if self._depth:
                yield
                return
            make_private(self._folder)
            descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._depth += 1
                try:
                    self._recover()
                    yield
                finally:
                    self._depth -= 1
            finally:
                os.close(descriptor)


def _below(path: str, folders: frozenset[str]) -> bool:
    """Whether it lies in a folder that couldn't be listed before: then it may have been there all the time."""
    return any(path.startswith(f"{folder}/") for folder in folders)
