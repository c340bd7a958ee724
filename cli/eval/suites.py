"""The suites by name, and their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ossia.cli.eval import chain, harmony, sums
from ossia.cli.eval.repo import repo
from ossia.cli.eval.task import Task
from ossia.cli.exits import ExitError
from ossia.cli.settings.config import nearest

SUITES = {"harmony": harmony.tasks, "chain": chain.tasks, "repo": repo.tasks, "math": sums.tasks}


def chosen(suites: Sequence[str], ids: Sequence[str], *, seed: int, aime: Path | None) -> list[Task]:
    """The tasks of these suites (empty: all), of which only `ids` if any are named. Raises ExitError."""
    for name in suites:
        if name not in SUITES:
            raise ExitError(f"there is no suite {name!r}: {', '.join(SUITES)} are known")
    wanted = suites or ([] if aime else list(SUITES))
    tasks = [task for name in SUITES if name in wanted for task in SUITES[name](seed)]
    tasks += sums.aime(aime) if aime else []
    known = {task.id: task for task in tasks}
    for one in ids:
        if one not in known:
            raise ExitError(f"--task {one}: there is no such task in {', '.join(wanted)}{_near(one, list(known))}")
    return [known[one] for one in dict.fromkeys(ids)] if ids else tasks


def _near(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return near if "did you mean" in near else ": `ossia eval --list` lists them all"
