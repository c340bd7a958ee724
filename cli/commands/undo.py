"""`ossia undo`: the files of a workspace as they were before the last turn."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ossia.cli import paths
from ossia.cli.commands import exit_error
from ossia.cli.streams import stdout

if TYPE_CHECKING:
    from ossia.tools.undo.journal import Journal, Undone

_LABEL_CHARS = 60


def undo(
    workspace: Annotated[
        str | None, typer.Option(metavar="DIR", help="The workspace that was changed. [default: this folder]")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be undone, the last turn first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also restore files that you changed since.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Give up on files that can't be restored.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be undone, and do nothing.")] = False,
) -> None:
    """Undo what the last turn changed in a workspace. Repeat it for earlier turns.

    Files that you changed since are named and left as they are. The exit code is then 1, as it is if there is nothing
    to undo. Changes by commands can be undone if git is installed, except to files that git ignores.
    """
    from ossia.cli.words import count, may_force
    from ossia.tools.undo.journal import Journal

    folder = paths.here() if workspace is None else paths.expanded(workspace)
    if workspace == "" or not paths.is_folder(folder):
        name = "the current folder" if workspace is None else f"--workspace {workspace}"
        raise exit_error(f"{name}: not a folder")
    if force and skip:
        raise exit_error("undo: use --force or --skip, not both")
    root, data = folder.resolve(), paths.data_dir()
    journal = Journal(data, root)
    if listed:
        _list(journal)
        return
    undone = journal.undo(force=force, skip=skip, dry_run=dry_run)
    if undone is None:
        above = next((parent for parent in root.parents if Journal(data, parent).turns()), None)
        other = "--workspace DIR names another folder"
        hint = f"in {above} there is: ossia undo --workspace {shlex.quote(str(above))}" if above else other
        raise exit_error(f"there is nothing to undo in {root}; {hint}", "FAILED")
    _show(undone, skipping=skip, dry_run=dry_run)
    if undone.skipped and not skip:
        left, them = count(len(undone.skipped), "file"), "it" if len(undone.skipped) == 1 else "them"
        again = f"--force overwrites {them}, " if may_force(undone) else ""
        raise exit_error(f"{left} not restored: {again}--skip forgets about {them}", "FAILED")


def _list(journal: Journal) -> None:
    from ossia.cli.clean import one_line
    from ossia.cli.words import files_of, when

    turns = journal.turns()
    if not turns:
        print("ossia: there is nothing to undo", file=sys.stderr)
    for turn in turns:
        label = _shown(one_line(turn.label, _LABEL_CHARS))
        print(f"{when(turn.changed_at)}  {files_of(turn):>9}  {label}")


def _show(undone: Undone, *, skipping: bool, dry_run: bool) -> None:
    from ossia.cli.clean import clean, one_line
    from ossia.cli.words import git_stays, undone_or_not

    would = "would be " if dry_run else ""
    head = undone_or_not(undone, skipping=skipping, dry_run=dry_run)
    print(f"ossia: {head}: {clean(one_line(undone.label, _LABEL_CHARS))}", file=sys.stderr)
    for path in undone.restored:
        print(f"{would}restored  {_shown(path)}")
    for path in undone.removed:
        print(f"{would}removed   {_shown(path)}")
    for one in undone.skipped:
        print(f"left as it is  {_shown(one.path)}  ({one.reason})")
    if undone.git:
        print(f"ossia: {git_stays(undone)}", file=sys.stderr)
    for command in undone.git:
        print(f"  {_shown(command)}")


def _shown(path: str) -> str:
    """A path on its way to stdout: one line in any case, harmless on a terminal."""
    from ossia.cli.visible import seen_line

    return seen_line(path) if stdout().isatty() else path.replace("\n", "␊")
