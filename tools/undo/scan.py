"""Compares the whole workspace before and after a command."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ossia.tools.undo.snapshot import NEVER, Known, Store, TooMuch, Walk, walk
from ossia.tools.undo.tree import Opened, State, Tree
from ossia.tools.undo.turns import Pending

_ASK_AGAIN_S = 60.0
"""How long to wait before a workspace that held too much is scanned again."""


@dataclass(frozen=True, slots=True)
class Before:
    """The workspace before a command. `repositories`: each `.git` in it."""

    known: Mapping[str, Known]
    repositories: tuple[str, ...]
    unlisted: frozenset[str]
    pending: Pending


@dataclass(frozen=True, slots=True)
class Changes:
    """What was at the paths that a command changed, and what is there now (empty if that isn't known)."""

    before: Mapping[str, State]
    after: Mapping[str, State]


class Scanner:
    """Scans a workspace, unless it holds too much. `left_out`: our own files in it.

    `looked`: all of it was copied once, so that a scan is cheap now. `too_much`: why it can't be scanned.
    """

    def __init__(self, tree: Tree, store: Store, left_out: list[str]) -> None:
        self._tree, self._store, self._left_out = tree, store, left_out
        self.looked = False
        self.too_much, self._ask_again_at = "", 0.0

    def look_first(self) -> bool:
        """Copy all of it. False if that is too much, or was less than a minute ago (`too_much` says why)."""
        if time.monotonic() < self._ask_again_at:
            return False
        try:
            self._store.look()
        except TooMuch as error:
            self.give_up(error)
            return False
        self.looked = True
        return True

    def give_up(self, error: TooMuch) -> None:
        """Note that it holds more than is kept: it isn't scanned again for a while."""
        self.too_much, self._ask_again_at, self.looked = str(error), time.monotonic() + _ASK_AGAIN_S, False

    def look(self, opened: Opened, repositories: tuple[str, ...] | None = None) -> tuple[dict[str, Known], Walk]:
        """What there is, also in folders closed to their owner: these are `opened`, but recorded as they were."""
        while True:
            known, found = self._store.look(repositories)
            if not [path for path in sorted(found.unlisted) if opened.open(path)]:
                break
        for path in opened:
            if path in known and (status := self._tree.status(path)) is not None:
                known[path] = Known(NEVER, State("dir", opened.mode_of(path, status)))
        return known, found

    def changes(self, before: Before, opened: Opened) -> Changes:
        """What is different now. `after` is empty if there is more than is kept."""
        after, whole = self._after(before, opened)
        if whole:
            changed = {path for path, known in after.items()
                       if (was := before.known.get(path)) is not known  # an unchanged file keeps its object
                       and (was is None or not was.state.equals(known.state))}  # fmt: skip
            changed = {path for path in changed if path in before.known or not _below(path, before.unlisted)}
        else:
            changed = {path for path, known in before.known.items()
                       if (now := after.get(path)) is None or now.key != known.key}  # fmt: skip
            changed |= {path for path in after if path not in before.known and not _below(path, before.unlisted)}
        changed |= {path for path in before.known if path not in after}
        befores = {path: before.known[path].state if path in before.known else State() for path in sorted(changed)}
        afters = {path: after[path].state if path in after else State() for path in befores}
        return Changes(befores, afters if whole else {})

    def _after(self, before: Before, opened: Opened) -> tuple[dict[str, Known], bool]:
        """What there is after a command, and whether all of it was read. If that would be too much, names only."""
        try:
            return self.look(opened, before.repositories)[0], True
        except (TooMuch, OSError) as error:
            if isinstance(error, TooMuch):
                self.give_up(error)
        found = walk(self._tree.root, max_files=1 << 40, max_bytes=1 << 60, left_out=self._left_out,
                     repositories=before.repositories)  # fmt: skip
        return {path: Known(key, State("other")) for path, key in found.keys.items()}, False


def _below(path: str, folders: frozenset[str]) -> bool:
    """Whether it lies in a folder that couldn't be listed before: it may have been there all the time."""
    return any(path.startswith(f"{folder}/") for folder in folders)
