"""A repository for one command that was given git: it works on a copy of the git folder, and we take over the result.

    git = GitCopy.of(root, scratch, mounted=True, data=data)     # raises GitRefused where there is a reason
    job = git.given_to(job)                                       # then run the job, and end all of its processes
    taken = git.take_over()                                       # Taken(lines=(…,), moved=(Moved("HEAD", …), …))

The copy belongs to the command, which may write anything there. From it come objects, references, HEAD, the index, logs
and the notes of a merge, each checked, all or none; never settings, hooks or anything else.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from ossia.tools.names import escaped
from ossia.tools.sandbox.git import _fixed, _index
from ossia.tools.sandbox.git._files import (
    HEX,
    MAX_BYTES,
    MAX_LONG_BYTES,
    GitRefused,
    Held,
    is_reference,
    put,
    read,
    references,
    value_of,
    write_new,
)
from ossia.tools.sandbox.git._fixed import Fixed
from ossia.tools.sandbox.git._logs import Logs
from ossia.tools.sandbox.git._objects import Objects
from ossia.tools.sandbox.job import GivenGit, Job, Repository
from ossia.tools.sandbox.repository import NotShown, folders_of
from ossia.tools.undo.shadow import find_git

__all__ = ["GitCopy", "GitRefused", "Moved", "Taken"]

_HEADS = ("ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE")
_FREE = ("FETCH_HEAD", "COMMIT_EDITMSG")
"""An editor's own fetch may change these meanwhile."""
_NOTES = (*_HEADS, "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", *_FREE)
_UNFINISHED = {"rebase-merge": "rebase", "rebase-apply": "rebase", "sequencer": "cherry-pick",
               "BISECT_START": "bisect"}  # fmt: skip
_MAX_NAMED = 5
_MAX_CHANGES = 20_000
"""Of references, 2 s; git that is killed over more leaves a lock of each."""
_PROGRAM = """\
case ":$PATH:" in *:"$PROGRAMS":*)
  PATH=":$PATH:"; PATH="${PATH%%:"$PROGRAMS":*}:${PATH#*:"$PROGRAMS":}"; PATH="${PATH#:}"; PATH="${PATH%:}" ;;
esac
found() {
  while :; do case "$1" in -C) cd -- "$2" || return; shift 2 ;; -c) shift 2 ;; -*) shift ;; *) break ;; esac; done
  case "$1" in clone|init) ;; *) git rev-parse --absolute-git-dir 2>/dev/null ;; esac
}
if [ -z "${GIT_DIR-}" ] && [ "$(found "$@")" = "$OWN" ]; then
  GIT_DIR="$COPY" GIT_WORK_TREE="$ROOT"; export GIT_DIR GIT_WORK_TREE
fi
exec git "$@"
"""
Changes = dict[str, tuple[str, str]]
"""The old and the new value of each reference; "" for a missing one."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A reference that a command moved: `Moved("refs/heads/main", "0bd15a…", "77c1e0…")`; "" for a missing one.

    HEAD comes first, moved or not; its value is `"ref: refs/heads/main"` on a branch.
    """

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of a take-over. `lines`, for the user and the model: what wasn't kept, and why."""

    lines: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()


class GitCopy:
    """A copy of a repository's git folder (without its objects, which it reads where they are), for one command."""

    @classmethod
    def of(cls, root: Path, scratch: Path, *, mounted: bool, data: Path,
           repository: Repository | None = None) -> GitCopy:  # fmt: skip
        """The copy for the workspace `root`, made in `scratch`. Raises `GitRefused`.

        `mounted`: the command sees the copy where the real folder is; else its git finds the copy. `data`: ossia's own
        folder. `repository`: the folder outside of the workspace, as commands may read it.
        """
        try:
            if not os.path.lexists(root / ".git"):
                raise GitRefused("the workspace isn't the top folder of a repository")
            own, common = (path.resolve() for path in folders_of(root, root))
            inside = common.is_relative_to(root)
            if inside and (root / ".git").is_file():
                raise GitRefused("the git folder lies elsewhere in the workspace")
            if not inside and (repository is None or repository.folder != common):
                raise GitRefused("the git folder lies outside of the workspace, and isn't shown")
            git = find_git((root, data))
            if git is None:
                raise GitRefused("git isn't installed")
            texts = {} if inside or repository is None else repository.settings
            return cls(scratch, own, common, git, _fixed.checked(root, own, common), texts, mounted, inside)
        except NotShown as why:
            raise GitRefused(str(why)) from None
        except (OSError, ValueError) as error:
            raise GitRefused(f"the git folder can't be read ({error})") from None

    def __init__(self, scratch: Path, own: Path, common: Path, git: Path, hash_name: str, texts: dict[Path, str],
                 mounted: bool, inside: bool) -> None:  # fmt: skip
        self._real, self._copy = common, scratch / "git"
        self._own, self._part = own, own.relative_to(common)  # what is a worktree's own lies in a part of the folder
        self._hash, self._mounted = hash_name, mounted
        self._modules = (common / "modules",) if mounted and inside and (common / "modules").is_dir() else ()
        self._older = scratch / "objects" if mounted else common / "objects"
        self._objects = Objects(self._copy, common, scratch / "taken", git, hash_name)
        self._fixed = Fixed(common, self._copy, texts)
        self._logs = Logs((own, common), self._copy, self._part, texts)
        self._files: dict[str, bytes | None] = {}
        self._begun = False
        self._make()

    def given_to(self, job: Job) -> Job:
        """The job, with git."""
        if not self._mounted:
            self._write_program(job.folder)
        given = GivenGit(self._copy, self._real, self._older, self._mounted, self._modules)
        return replace(job, git=given)

    # -- copying -------------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks", "logs"):
            (self._copy / name).mkdir(parents=True)
        for folder in (*(self._copy / path.name for path in self._modules), self._older, self._copy / self._part):
            folder.mkdir(parents=True, exist_ok=True)  # where something is mounted, or the worktree's own part
        write_new(self._copy / "objects" / "info" / "alternates", os.fsencode(f"{self._older}\n"))
        self._refs = references(self._real)
        lines = []
        for name, value in self._refs.items():
            if value.startswith("ref: "):
                write_new(self._copy / name, os.fsencode(f"{value}\n"))
            else:
                lines.append(f"{value} {name}\n")
        lines.sort(key=lambda line: line.partition(" ")[2])
        write_new(self._copy / "packed-refs", os.fsencode("# pack-refs with: sorted \n" + "".join(lines)))
        for name in ("HEAD", "index", *_NOTES):
            self._files[name] = data = read(self._own, name, MAX_LONG_BYTES if name == "index" else MAX_BYTES)
            if data is not None:
                write_new(self._copy / self._part / name, data)
        if self._own != self._real:  # git doesn't check out the branch that the main worktree has
            write_new(self._copy / "HEAD", read(self._real, "HEAD") or b"")
        self._head = value_of(self._files["HEAD"] or b"", "HEAD")
        self._fixed.copy()
        self._logs.copy()

    def _write_program(self, root: Path) -> None:
        """A git before the others in PATH: where the workspace's repository is found, it works on the copy."""
        names = {"PROGRAMS": self._copy / "programs", "OWN": self._own, "COPY": self._copy / self._part, "ROOT": root}
        values = "".join(f"{name}={shlex.quote(str(path))}\n" for name, path in names.items())
        program = self._copy / "programs" / "git"
        write_new(program, os.fsencode(f"#!/bin/sh\n{values}{_PROGRAM}"))
        program.chmod(0o700)

    # -- taking over ---------------------------------------------------------------------------------------------------

    def take_over(self) -> Taken:
        """Bring into the repository what the command did in the copy. Call it once, after the end of its processes."""
        left: list[str] = []
        moved: tuple[Moved, ...] = ()
        failed: tuple[str, ...] = ()
        try:
            moved = self._taken(left)
        except (GitRefused, OSError, ValueError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            what = "only a part of what" if self._begun else "nothing of what"
            failed = (f"{what} the command did to the repository was kept: {escaped(why)}",)
        changed = [*self._fixed.changed(), *left]
        lines = (f"git's settings, hooks and the like stay as they were, so this had no effect: {_named(changed)}; "
                 "only the user can change them",) if changed else ()  # fmt: skip
        return Taken((*failed, *lines), moved)

    def _taken(self, left: list[str]) -> tuple[Moved, ...]:
        """Take it over. `left` gets the names of references that aren't taken over."""
        self._check_finished()
        head = value_of(self._read("HEAD", 4096) or b"", "HEAD")
        branch = head.removeprefix("ref: ")
        if head not in (self._head, branch) and not (branch.startswith("refs/heads/") and is_reference(branch)):
            raise GitRefused("HEAD names no branch")
        changes = self._changes(left)
        notes = {name: self._read(name) for name in _NOTES}
        notes = {name: data for name, data in notes.items() if data != self._files[name]}
        index, wanted = self._index()
        logs, in_logs = self._logs.changed({name for name, (_, new) in changes.items() if not new})
        wanted |= in_logs | {new for _, new in changes.values() if new} | ({head} - {f"ref: {branch}"})
        wanted |= {one for name in _HEADS for one in _oids(notes.get(name))}
        known = {value for value in (*self._refs.values(), self._head) if not value.startswith("ref: ")}
        self._objects.verify(wanted, known, self._fixed.shallow)
        self._objects.publish()
        with Held(self._own / "index") as held:
            self._check_unchanged(changes, notes, index is not None)
            self._begun = True
            self._objects.move(changes)
            if head != self._head:
                put(self._own / "HEAD", os.fsencode(f"{head}\n"))
            if index is not None:
                held.put(index)
        self._logs.write(logs)
        for name, data in notes.items():
            if name not in _FREE or read(self._own, name) == self._files[name]:
                put(self._own / name, data)
        moved = {"HEAD": (self._head, head), **changes} if changes or head != self._head else {}
        return tuple(Moved(name, old, new) for name, (old, new) in moved.items())

    def _read(self, name: str, most: int = MAX_BYTES) -> bytes | None:
        """A file of the copy that is the worktree's own."""
        return read(self._copy, (self._part / name).as_posix(), most)

    def _check_finished(self) -> None:
        for name, what in _UNFINISHED.items():
            if os.path.lexists(self._copy / self._part / name):
                raise GitRefused(f"a {what} that isn't finished can't be; finish or abort it in the same command")
        if read(self._copy, "shallow") != self._fixed.shallow:
            raise GitRefused("it changed the depth of the history, which only the user can (--depth, --unshallow)")

    def _changes(self, left: list[str]) -> Changes:
        """The references that the command changed."""
        before, after = self._refs, references(self._copy)
        changes = {}
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name, ""), after.get(name, "")
            if old == new:
                continue
            if is_reference(name) and not old.startswith("ref: ") and not new.startswith("ref: "):
                changes[name] = old, new
            else:
                left.append(name)
        if len(changes) > _MAX_CHANGES:
            raise GitRefused(f"it changed more than {_MAX_CHANGES:,} references")
        return changes

    def _index(self) -> tuple[bytes | None, set[str]]:
        """The index to write, None if the command didn't change it, and the objects that it needs."""
        data = self._read("index", MAX_LONG_BYTES)
        if data is None or data == self._files["index"]:
            return None, set()
        return _index.cleaned(data, self._files["index"], self._hash)

    def _check_unchanged(self, changes: Changes, notes: dict[str, bytes | None], index: bool) -> None:
        """Raises `GitRefused` if the user's own git changed the same meanwhile."""
        now = references(self._real)
        other = [name for name, (old, _) in changes.items() if now.get(name, "") != old]
        other += [name for name in ("HEAD", *notes) if name not in _FREE
                  and read(self._own, name) != self._files[name]]  # fmt: skip
        if index:
            real = read(self._own, "index", MAX_LONG_BYTES)
            if not _index.same_entries(real, self._files["index"], self._hash):
                other.append("the index")
        if other:
            raise GitRefused(f"somebody else changed {_named(other)} meanwhile")


def _oids(data: bytes | None) -> list[str]:
    """The names of objects in a file like `MERGE_HEAD`. Raises `GitRefused` for another text."""
    lines = (data or b"").decode("utf-8", "surrogateescape").splitlines()
    if [line for line in lines if not re.fullmatch(f"{HEX}|ref: refs/.*", line)]:
        raise GitRefused("a head names no object")
    return [line for line in lines if not line.startswith("ref: ")]


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(escaped(name) for name in names[:_MAX_NAMED]) + more
