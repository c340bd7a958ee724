"""`ossia undo`: the files of a workspace as they were before the last turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.undo.journal import Journal, Undone

_LABEL_CHARS = 60


def undo(
    workspace: Annotated[
        str | None, typer.Option(metavar="DIR", help="The workspace that was changed. [default: this folder]")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be undone, the last turn first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also files that were changed since the turn.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Forget about files that can't be undone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
) -> None:
    """Take back what the last turn changed in a workspace. Repeat it for the turns before.

    Files that you changed since are left as they are and named; the exit code is then 1, as it is when there is nothing
    to undo. What commands change in a workspace of more than 20,000 files or 200 MB isn't kept.
    """
    import shlex

    from cli import paths
    from cli.exits import ExitCode, ExitError
    from tools.undo.journal import Journal

    folder = Path() if workspace is None else paths.expanded(workspace)
    if workspace == "" or not folder.is_dir():
        raise ExitError(f"--workspace {workspace}: expected a folder", ExitCode.USAGE)
    if force and skip:
        raise ExitError("undo: expected --force or --skip, not both", ExitCode.USAGE)
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
        raise ExitError(f"there is nothing to undo in {root}; {hint}", ExitCode.FAILED)
    _show(undone, dry_run=dry_run)
    if undone.skipped and not skip:
        count = f"{len(undone.skipped)} file{'s were' if len(undone.skipped) > 1 else ' was'} left as above"
        raise ExitError(f"{count}: --force overwrites, --skip forgets about it", ExitCode.FAILED)


def _list(journal: Journal) -> None:
    import sys
    from datetime import datetime

    from cli.clean import one_line

    show, turns = _showing(), journal.turns()
    if not turns:
        print("ossia: there is nothing to undo", file=sys.stderr)
    for turn in turns:
        when = datetime.fromtimestamp(turn.changed_at).strftime("%Y-%m-%d %H:%M")
        files = f"{len(turn.paths)} file{'' if len(turn.paths) == 1 else 's'}"
        print(f"{when}  {files:>9}  {show(one_line(turn.label, _LABEL_CHARS))}")


def _show(undone: Undone, *, dry_run: bool) -> None:
    import sys

    from cli.clean import one_line

    show = _showing()
    would = "would be " if dry_run else ""
    begin = "this would be undone" if dry_run else "undone"
    print(f"ossia: {begin}: {_cleaned(one_line(undone.label, _LABEL_CHARS))}", file=sys.stderr)
    for path in undone.restored:
        print(f"{would}restored  {show(path)}")
    for path in undone.removed:
        print(f"{would}removed   {show(path)}")
    for one in undone.skipped:
        print(f"left as it is  {show(one.path)}  ({one.reason})")


def _showing() -> Callable[[str], str]:
    """What a path goes through on its way to stdout: one line in any case, harmless on a terminal."""
    import sys

    return _cleaned if sys.stdout.isatty() else _one_line


def _cleaned(text: str) -> str:
    from cli.clean import clean

    return _one_line(clean(text))


def _one_line(text: str) -> str:
    return text.replace("\n", "␊")
