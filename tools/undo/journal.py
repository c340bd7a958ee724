"""Keeps what a turn changed in the workspace, so that it can be undone: by the tools' writes and by the shell.

    journal = Journal(data_dir, Path("/home/user/project"))
    journal.begin_turn("fix the tests")      # Workspace(root, keeper=journal): the tools call `keep` before each write
    journal.end_turn()
    journal.undo()                           # Undone("fix the tests", restored=("a.py",), …)
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.tools._scratch import Scratch
from ossia.tools.files import make_private, make_private_file, require_owner
from ossia.tools.locks import file_lock
from ossia.tools.names import escaped
from ossia.tools.spec import ToolFailed
from ossia.tools.tree import Opened, State, Tree
from ossia.tools.undo.restore import Skipped, Undone, undo_turn
from ossia.tools.undo.rewind import go_back, look_back
from ossia.tools.undo.shadow import PROGRAMS, find_git
from ossia.tools.undo.store import KeepLimits, Store, TooMuch
from ossia.tools.undo.stored import Bytes
from ossia.tools.undo.turns import Pending, Turn, TurnFolder, TurnFolders
from ossia.tools.undo.walk import Snapshot

if TYPE_CHECKING:
    from ossia.tools.sandbox.git.copy import Moved

__all__ = ["Before", "Journal", "KeepLimits", "Skipped", "Turn", "Undone"]

_BY_HAND = "(calls by hand)"
_NO_GIT = "git, which keeps what commands change, isn't installed"
_MAX_NAMES, _MAX_NAME_CHARS = 10, 80


@dataclass(frozen=True, slots=True)
class Before:
    """The workspace before a command, as `before_command` gave it to `after_command`."""

    seen: Snapshot
    pending: Pending
    at_ns: int
    ignores: Callable[[list[str]], set[str]] = lambda names: set()
    """Those of the names that git would ignore, as new ones."""

    def covered(self, paths: Iterable[str]) -> set[str]:
        """Those of the changed paths that are kept: what is known from before, and new ones that git doesn't ignore."""
        known, ignored = self.seen.known, set(self.seen.ignored)
        names = {path: _names_of(path) for path in paths if path not in known}
        for most in (1, None):  # the topmost new folders first: in most there is nothing more to ask
            asked = {name for own in names.values() if ignored.isdisjoint(own)
                     for name in [one for one in own if one.rstrip("/") not in known][:most]}  # fmt: skip
            ignored |= self.ignores(sorted(asked)) if asked else set()
        return {path for path in paths if path in known or ignored.isdisjoint(names[path])}


class Journal:
    """The turns of one workspace, in `data_dir/undo/KEY/`, closed to other users. A `Keeper` (tools/workspace.py).

    Several processes may use it at once. A crash, at any moment, leaves a usable journal: the next process completes
    what it interrupted. Bytes, permission bits, links and folders are kept; times, owners (except by root) and
    attributes are not. Nor is what lies in the workspace's own `.git`: of a command that was given git only the
    references that it moved are noted.
    """

    def __init__(self, data_dir: Path, workspace_root: Path, *, limits: KeepLimits | None = None, private: bool = False,
                 programs: Iterable[str] = PROGRAMS) -> None:  # fmt: skip
        self._root, self._limits = workspace_root, limits or KeepLimits()
        self._folder = data_dir / "undo" / hashlib.sha256(os.fsencode(workspace_root)).hexdigest()[:16]
        self._tree = Tree(workspace_root)
        self._turns = TurnFolders(self._folder / "turns")
        inside = data_dir.resolve()
        ours = [inside.relative_to(workspace_root).as_posix()] if inside.is_relative_to(workspace_root) else []
        self._seen_in, self._store = self._folder / "seen", None
        git = find_git((workspace_root, data_dir), programs)
        if git is not None:
            if private:
                scratch = Scratch()
                weakref.finalize(self, scratch.close)
                self._seen_in = scratch.path
            self._store = Store(self._seen_in, self._tree, git, self._limits, ours)
        self._label, self._mark = _BY_HAND, ""
        self._turn: TurnFolder | None = None
        self._lock, self._depth = threading.RLock(), 0
        self._running = False

    # -- turns ---------------------------------------------------------------------------------------------------------

    def begin_turn(self, label: str, mark: str = "") -> None:
        """Start a turn; `label`, the user's own words, is for people, `mark` for `rewind`.

        Nothing is stored until something is written.
        """
        with suppress(OSError):  # a full disk: less is known of the turn before
            self.end_turn()
        self._turn, self._label, self._mark = None, label, mark
        if self._store is not None:
            self._store.read_rules()

    def end_turn(self) -> None:
        """Record how the turn left its files: undo compares, to see what the user changed. Call it after every turn."""
        if self._turn is None:
            return
        with self._locked():
            self._record_after()
            self._turn.drop_if_nothing_changed()
            self._turn, self._label, self._mark = None, _BY_HAND, ""
            self._turns.prune(self._limits.turns, self._limits.total_bytes)

    def turns(self) -> tuple[Turn, ...]:
        """The turns that can be undone, the last one first."""
        if not self._folder.exists():
            return ()
        with self._locked():
            return tuple(folder.turn for folder in self._turns.newest_first())

    def undo(self, *, force: bool = False, skip: bool = False, dry_run: bool = False) -> Undone | None:
        """Restore the files that the last turn changed; None if there is no turn.

        A file that isn't as the turn left it (the user went on with it) is left alone and named, and can still be
        undone: `force` restores it too, `skip` gives it up for good. `dry_run` only says what would be done.
        """
        if not self._folder.exists():
            return None
        with self._locked():
            if self._turn is not None:
                self._record_after()
            folder = next(self._turns.newest_first(), None)
            if folder is None:
                return None
            undone = undo_turn(folder, self._tree, force=force, skip=skip, dry_run=dry_run)
            if not dry_run:
                self._turn = None
            return undone

    def rewind(self, marks: Collection[str], *, agreed: Undone | None = None) -> Undone | None:
        """Restore the files as they were before all turns with these marks, if that is still `agreed`; else None.

        Without `agreed` it only says what it would do. A file that the user, or another turn, changed after one of the
        turns is left alone and named; it can still be undone.
        """
        if not self._folder.exists():
            return Undone("")
        with self._locked():
            self._record_after()
            found = look_back(tuple(self._turns.newest_first()), marks, self._tree)
            if agreed is None or found.undone != agreed:
                return found.undone if agreed is None else None
            return go_back(found, self._tree)

    # -- the tools' writes ---------------------------------------------------------------------------------------------

    def keep(self, path: Path) -> None:
        """Keep what is at `path` before it is changed (see `Keeper`). Raises `ToolFailed` if that can't be done."""
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
        if name not in turn.before:
            state = self._tree.state(name, keep=turn.bytes.keep)
            if state.kind in ("fifo", "other") or not state.readable:
                raise ToolFailed(f"Error: {name} is no plain file that can be read, so it isn't changed")
            parents = [name[:i] for i, character in enumerate(name) if character == "/"]
            missing = [parent for parent in parents if parent not in turn.before and self._tree.status(parent) is None]
            turn.add_before({**dict.fromkeys(missing, State()), name: state})
            turn.unrecorded.update(missing)
        turn.unrecorded.add(name)

    # -- the shell's writes --------------------------------------------------------------------------------------------

    def commands_cannot_be_undone(self) -> str:
        """The reason why a command's changes couldn't be undone now, in words for people; empty if they can."""
        if self._store is None:
            return _NO_GIT
        try:
            with self._locked():
                looked = self._running or self._store.looked or self._store.look_first()
                return "" if looked else self._store.too_much
        except OSError as error:
            return f"its state can't be kept ({error.strerror or error})"

    def before_command(self) -> Before | None:
        """Keep the state of the whole workspace; None if that can't be done (see `Keeper`). Raises `ToolFailed`."""
        store = self._store
        if store is None:
            return None
        try:
            with self._locked():
                if self._turn is not None:
                    self._record_after()
                if not store.looked and (self._running or not store.look_first()):
                    return None
                with Opened(self._tree) as opened:
                    seen = store.look(opened)
                if not self._turns.any_running():
                    store.collect()
                self._running = True
                pending = self._turns.begin_command(
                    self._label, self._mark, self._turn, seen.repositories, self._seen_in
                )
                return Before(seen, pending, store.tick_ns(), self._ignores)
        except TooMuch as error:
            store.give_up(error)
            return None
        except OSError as error:
            why = error.strerror or str(error)
            raise ToolFailed(f"Error: the workspace can't be kept for undo ({why}), so nothing is run") from error

    def after_command(self, before: Before, moved: Collection[int] = ()) -> None:
        """Record what the command changed (see `Keeper`). If it left too much to be read, that is recorded by name.

        Raises `ToolFailed` where that can't be done, as on a full disk.
        """
        assert self._store is not None
        try:
            with self._locked():
                self._note_changes(self._store, before, moved)
        except OSError as error:
            raise _not_undoable(error) from error
        finally:
            self._running = False
            before.pending.done()

    def keep_changes(self, before: Mapping[str, State], after: Mapping[str, State], kept: Bytes) -> None:
        """Record changes that somebody else found, with the bytes of what was there (see `Keeper`)."""

        def copy(digests: Iterable[str], into: Bytes) -> None:
            for digest in digests:
                into.take(digest, kept)

        try:
            with self._locked():
                self._note(before, after, copy)
        except OSError as error:
            raise _not_undoable(error) from error

    def note_git(self, moved: Sequence[Moved]) -> None:
        """Note the references of the repository that a command moved (see `Keeper`)."""
        try:
            with self._locked():
                for one in moved:
                    self._current().add_moved(one.name, one.old, one.new)
        except OSError as error:
            raise _not_undoable(error) from error

    def ignored_line(self) -> str:
        """A line with the names that git ignores here, so that they can't be undone; "" after the first time."""
        said = self._folder / "ignored"
        if self._store is None or not self._store.ignored or said.exists():
            return ""
        make_private_file(said)
        names = sorted(self._store.ignored, key=lambda name: (name.count("/", 0, -1), not name.endswith("/"), name))
        more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        shown = ", ".join(escaped(name)[:_MAX_NAME_CHARS] for name in names[:_MAX_NAMES])
        return f"undo won't restore what git ignores ({shown}{more}), only files there that run or instruct later tools"

    def _note_changes(self, store: Store, before: Before, moved: Collection[int] = (), *,
                      recovered: bool = False) -> None:  # fmt: skip
        with Opened(self._tree) as opened:
            changes = store.changes(before.seen, opened, moved, before.at_ns)
        self._note(changes.before, changes.after, store.objects.copy, before.pending if recovered else None)

    def _note(self, before: Mapping[str, State], after: Mapping[str, State],
              copy: Callable[[Iterable[str], Bytes], None], pending: Pending | None = None) -> None:  # fmt: skip
        if not before:
            return
        turn = self._current() if pending is None else pending.turn or self._turns.new(pending.label, pending.mark)
        copy([state.hash for state in before.values() if state.kind == "file"], turn.bytes)
        turn.add_before(before)
        turn.add_after(after)

    def _ignores(self, names: list[str]) -> set[str]:
        """Those of the names that git ignores; all of them if it can't say, so that others keep them."""
        assert self._store is not None
        try:
            with self._locked():
                return self._store.ignores(names)
        except OSError:
            return set(names)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _current(self) -> TurnFolder:
        """The current turn, made at its first write; a new one if somebody undid it meanwhile."""
        if self._turn is None or not self._turn.exists():
            self._turn = self._turns.new(self._label, self._mark)
        return self._turn

    def _record_after(self) -> None:
        """Record how the tools left what they wrote."""
        turn = self._turn
        if turn is None or not turn.exists():
            self._turn = None
            return
        after: dict[str, State] = {}
        for name in sorted(turn.unrecorded):
            with suppress(OSError):  # it can't be read: undo will find out
                after[name] = self._tree.state(name)
        turn.add_after(after)
        turn.unrecorded.clear()

    def _recover(self) -> None:
        """Record the changes of commands during which their ossia process ended."""
        for pending in self._turns.left_behind():
            if pending.seen_in == str(self._seen_in) and self._store is not None:
                seen = self._store.last_seen()
                seen.repositories = list(pending.repositories)
                if seen.known:  # else there is nothing to compare with
                    self._note_changes(self._store, Before(seen, pending, 0), recovered=True)
            elif Path(pending.seen_in).exists():  # for another process to recover
                pending.release()
                continue
            pending.done()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One thread of one process at a time."""
        with self._lock:
            if self._depth:
                yield
                return
            make_private(self._folder)
            require_owner(self._folder.stat(), self._folder)
            with file_lock(self._folder / "lock"):
                self._depth += 1
                try:
                    self._recover()
                    yield
                finally:
                    self._depth -= 1


def _names_of(path: str) -> list[str]:
    """Its names for git, that of a folder with `/` at its end: `["a/", "a/b/", "a/b"]`. A repository is kept whole."""
    folders = [f"{path[:at]}/" for at, character in enumerate(f"{path}/") if character == "/"]
    return [name for name in (*folders, path) if ".git/" not in f"{name}/"]


def _not_undoable(error: OSError) -> ToolFailed:
    why = error.strerror or str(error)
    return ToolFailed(f"Error: the command has run, but what it changed can't be undone ({why})")
