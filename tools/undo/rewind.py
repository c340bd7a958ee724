"""Restores the files as they were before some turns: all of a conversation's from one on, other turns' left alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ossia.tools.names import escaped
from ossia.tools.tree import State, Tree
from ossia.tools.undo.restore import Skipped, Undone, checked, undo_turn, ways_back
from ossia.tools.undo.turns import TurnFolder

BETWEEN: Final = "changed between the turns"
_LABEL_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Found:
    """The turns to undo, the last one first, and what undoing them all would do."""

    turns: Sequence[TurnFolder]
    undone: Undone


def look_back(turns: Sequence[TurnFolder], marks: Collection[str], tree: Tree) -> Found:
    """Find out what undoing the turns with these marks would do; `turns` are all, the last one first.

    A path is restored to its state before the first of them, or left wholly: if somebody changed it between them or
    since, or if the bytes of one of the turns weren't kept.
    """
    ours = [turn for turn in turns if turn.mark in marks]
    paths = sorted({path for turn in ours for path in turn.before})
    leave, there = _changed_between(reversed(turns), marks), dict[str, State]()
    for path in paths:
        try:
            there[path] = tree.state(path)
        except OSError as error:
            leave[path] = error.strerror or str(error)
    while True:
        now, skipped = dict(there), dict[str, str]()
        for turn in ours:
            work = checked(turn, tree, leave=leave, now=now)
            now |= {path: turn.before[path] for path in work.current if path not in work.skipped}
            skipped = {**work.skipped, **skipped}
        if skipped.keys() <= leave.keys():
            break
        leave = {**skipped, **leave}
    changed = [path for path in paths if path in there and path not in skipped and not now[path].equals(there[path])]
    return Found(ours, Undone(
        "",
        tuple(path for path in changed if now[path].kind != "absent"),
        tuple(path for path in changed if now[path].kind == "absent"),
        tuple(Skipped(path, reason) for path, reason in sorted(skipped.items())),
        ways_back(_moved(ours), tree.root),
    ))  # fmt: skip


def go_back(found: Found, tree: Tree) -> Undone:
    """Undo the turns, each as a whole, the last one first: a crash leaves the others as they are."""
    leave, failed = {one.path: one.reason for one in found.undone.skipped}, dict[str, str]()
    for turn in found.turns:
        undone = undo_turn(turn, tree, leave=leave)
        failed = {**{one.path: one.reason for one in undone.skipped}, **failed}
        leave |= failed
    return replace(
        found.undone,
        restored=tuple(path for path in found.undone.restored if path not in failed),
        removed=tuple(path for path in found.undone.removed if path not in failed),
        skipped=tuple(Skipped(path, reason) for path, reason in sorted(failed.items())),
    )


def _changed_between(turns: Iterable[TurnFolder], marks: Collection[str]) -> dict[str, str]:
    """The paths of our turns that somebody changed after one of them, with the reason; `turns`: the first one first."""
    left, found = dict[str, State | None](), dict[str, str]()
    for turn in turns:
        for path, before in turn.before.items():
            if turn.mark in marks:
                after = left.get(path)
                if after is not None and not before.same_content(after):
                    found.setdefault(path, BETWEEN)
                left[path] = turn.after.get(path)
            elif path in left:
                found[path] = f"also changed by another turn: {escaped(turn.label)[:_LABEL_CHARS]}"
    return found


def _moved(ours: Sequence[TurnFolder]) -> dict[str, tuple[str, str]]:
    """Git's references as all turns together moved them. One that somebody moved between them: as before that."""
    moved = dict[str, tuple[str, str]]()
    for turn in ours:
        for name, (old, new) in turn.moved.items():
            after = moved[name][1] if name in moved and moved[name][0] == new else new
            moved[name] = old, after
    return moved
