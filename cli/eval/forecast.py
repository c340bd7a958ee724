"""A forecast of the time that tasks take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ossia.cli.eval.results import Outcome
from ossia.cli.eval.task import Task

USUAL: Mapping[str, tuple[int, int]] = {
    "harmony": (350, 1200),
    "chain": (900, 1600),
    "repo": (3500, 9000),
    "math": (1200, 900),
    "aime": (7000, 1500),
}
"""Tokens that a task of a suite takes at medium effort, by a guess: generated, and read (the rest is cached)."""
_EFFORT = {"low": 0.4, "medium": 1.0, "high": 2.5}


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second: generated, and read."""

    tokens_per_s: float
    read_per_s: float


def remaining_s(tasks: Iterable[Task], done: Iterable[Outcome], speed: Speed | None, effort: str) -> float | None:
    """Seconds that these tasks will take. None: nothing is known of one of their suites.

    Once two tasks of a suite are done, their mean is what another one of it takes.
    """
    taken: dict[str, list[float]] = {}
    for one in done:
        taken.setdefault(one.suite, []).append(one.seconds)
    total = 0.0
    for task in tasks:
        seconds = taken.get(task.suite, [])
        if len(seconds) >= 2:
            total += sum(seconds) / len(seconds)
        elif speed is not None:
            generated, read = USUAL.get(task.suite, (1000, 1000))
            total += generated * _EFFORT[task.effort or effort] / speed.tokens_per_s + read / speed.read_per_s
        else:
            return None
    return total
