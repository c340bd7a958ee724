"""The workspace as a command finds it: refused, or with what it may not change and the git folder it may read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ossia.tools.approval.autorun_look import Look
from ossia.tools.approval.shell_words import commands_in
from ossia.tools.own import Own, way
from ossia.tools.sandbox import Confinement, ConfinementName
from ossia.tools.sandbox.job import Job, Repository
from ossia.tools.sandbox.private import GUARDED, too_wide
from ossia.tools.sandbox.repository import repository_of
from ossia.tools.spec import Fault, ToolContext, ToolFailed
from ossia.tools.workspace import Workspace

_MADE_BY = {"cargo": "target", "mvn": "target", "npm": "node_modules", "pnpm": "node_modules", "yarn": "node_modules",
            "gradle": "build", "gradlew": "build", "uv": ".venv"}  # fmt: skip
"""The folder that a program makes at the top of its project."""


def workspace_of(context: ToolContext, confinement: Confinement, home: Path | None) -> Workspace:
    """The workspace to run commands in. Raises `ToolFailed` where none may run."""
    if context.workspace is None:
        raise ToolFailed("Error: there is no workspace to run commands in. Answer without the shell")
    if confinement.name == "off":
        raise ToolFailed(f"Error: the shell is off on this machine: {confinement.reason}")
    refused = too_wide(context.workspace.root, home)
    if refused and confinement.name != "unconfined":
        raise _no_commands(f"{refused}. Choose another way")
    cannot = _cannot_be_held(context.workspace.own, confinement.name)
    if cannot:
        raise _no_commands(f"{cannot}. Tell the user; choose another way")
    return context.workspace


def repository_shown(
    workspace: Workspace, confinement: Confinement, *, home: Path | None, data: Path
) -> Repository | str | None:
    """The git folder to show where it lies outside of the workspace, or why it isn't shown."""
    if confinement.name == "unconfined":
        return None
    found = repository_of(workspace.root, home=home and home.resolve(), data=data, trusted=workspace.trusted)
    if isinstance(found, Repository) and found.left_out and confinement.name != "bwrap":
        names = ", ".join(found.left_out[:3])
        what = f"its settings or logs hold what commands mustn't see ({names})"
        return f"{what}; only bubblewrap can show them without that"
    return found


def guarded_in(root: Path, nested: Sequence[str]) -> tuple[Path, ...]:
    """The paths that a command may not change, and the `nested` repositories' own. Raises `ToolFailed`."""
    try:
        guarded = [_guarded(root, name) for name in dict.fromkeys([*GUARDED, *nested])]
    except OSError as error:
        raise _cannot_look(error) from error
    return tuple(path for path in guarded if path is not None)


def look_at(workspace: Workspace, context: ToolContext, *, keep: bool = True) -> Look:
    """A look at the files that run or instruct later tools, before a command. Raises `ToolFailed`."""
    try:
        return Look(workspace.root, left_out=(context.data_dir,), keep=keep)
    except OSError as error:
        raise _cannot_look(error) from error


@contextmanager
def with_folders_for(command: str, job: Job) -> Iterator[None]:
    """Make the folders that the command's programs make at the top, where Landlock lets nobody; empty ones go after."""
    programs = {Path(words[0]).name for words in commands_in(command)} if job.guarded or job.own else set()
    made = []
    for name in {_MADE_BY[program] for program in programs & _MADE_BY.keys()}:
        with suppress(OSError):
            (job.folder / name).mkdir()
            made.append(job.folder / name)
    try:
        yield
    finally:
        for path in made:
            with suppress(OSError):  # something is in it now
                path.rmdir()


def outside(search_path: str, root: Path) -> str:
    """The folders of a PATH that aren't in the workspace, nor named by way of it: a command may write there."""
    folders = search_path.split(os.pathsep)
    return os.pathsep.join(name for name in folders if not any(hop.is_relative_to(root) for hop in way(Path(name))))


def _cannot_be_held(own: Own, confinement: ConfinementName) -> str:
    """The reason why a command could change parts of ossia itself, in words for people; empty if it can't."""
    if confinement == "unconfined":
        return ""
    if own.gone:
        return f"a part of ossia itself has disappeared ({own.gone[0]}): start ossia again"
    if own.links and confinement != "landlock":
        return f"a link in it leads to a part of ossia itself ({own.links[0]}), which {confinement} can't protect"
    return own.problem


def _guarded(root: Path, name: str) -> Path | None:
    """The path to make read-only: itself, or as a link its target in the workspace; None if it doesn't exist."""
    path = root / name
    if path.is_symlink():
        target = path.resolve()
        return target if target.exists() and target.is_relative_to(root) and target != root else None
    return path if path.exists() else None


def _cannot_look(error: OSError) -> ToolFailed:
    return _no_commands(f"it can't be looked into ({error.strerror or error}). Tell the user")


def _no_commands(why: str) -> ToolFailed:
    return ToolFailed(f"Error: no commands run in this workspace: {why}", fault=Fault("workspace"))
