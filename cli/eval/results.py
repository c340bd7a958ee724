"""Results on disk, a line of JSON each, and their table: the solved share of each suite, with its interval."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ossia.cli.chart import Bar, Chart

VERSION = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run of a task.

    `run` counts from 1; `end` is how the turn ended; `tokens` were generated, `read` were read of prompts. `session`
    is the id that `ossia sessions show` takes. `task_digest`: which version of the task it was.
    """

    task: str
    run: int
    passed: bool
    reason: str
    f1: float | None
    end: str
    seconds: float
    tokens: int
    read: int
    calls: int
    session: str | None
    task_digest: str

    @property
    def suite(self) -> str:
        return self.task.partition("/")[0]


class Results:
    """The outcomes of one way to run the tasks (`of`: the model, the effort, …), in a file of their own.

    A line is written whole, in one call, and synced; half a line, as a full disk leaves it, is skipped. `folder` None:
    nothing is stored.
    """

    def __init__(self, folder: Path | None, of: Mapping[str, object]) -> None:
        self._of = dict(of)
        name = hashlib.sha256(json.dumps(self._of, sort_keys=True).encode()).hexdigest()[:16]
        self.path = folder / f"{name}.jsonl" if folder else None

    def load(self) -> list[Outcome]:
        """The outcomes so far."""
        if self.path is None or not self.path.exists():
            return []
        found = (_outcome(line) for line in self.path.read_bytes().split(b"\n"))
        return [one for one in found if one is not None]

    def add(self, outcome: Outcome) -> None:
        """Store one more. Raises OSError when it can't be written."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            lines = [] if size else [{"version": VERSION, "of": self._of}]
            data = "".join(f"{json.dumps(line)}\n" for line in [*lines, asdict(outcome)]).encode()
            if size:
                file.seek(size - 1)
                data = data if file.read(1) == b"\n" else b"\n" + data  # the last line is half a one
            file.write(data)
            os.fsync(file.fileno())

    def delete(self) -> None:
        """Delete the file: begin anew."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _outcome(line: bytes) -> Outcome | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    known = {field.name for field in fields(Outcome)}
    return Outcome(**value) if isinstance(value, dict) and set(value) == known else None


_Z = 1.959964  # of 95 %


@dataclass(frozen=True, slots=True)
class Row:
    """One suite: shares from 0 to 1. `low` and `high` bound the 95 % interval; `f1` is the mean, where measured."""

    suite: str
    tasks: int
    runs: int
    passed: int
    share: float
    low: float
    high: float
    f1: float | None
    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Published:
    """Somebody else's figure for a suite, an effort and the models whose names hold `model`."""

    suite: str
    model: str
    effort: str
    percent: float
    source: str


PUBLISHED = (
    Published("aime", "20b", "medium", 90.4, "OpenAI for gpt-oss-20b with tools, as arXiv 2604.00362 quotes it"),
    Published("aime", "20b", "medium", 91.7, "gpt-oss-20b with python, arXiv 2604.00362"),
)
"""Only where the tasks are the same. (SWE-bench's are not those of `repo`: see docs/eval.md.)"""


def row_of(suite: str, outcomes: Sequence[Outcome]) -> Row:
    """The figures of a suite's outcomes, of which there is at least one."""
    runs: dict[str, list[bool]] = defaultdict(list)
    for one in outcomes:
        runs[one.task].append(one.passed)
    low, high = interval(list(runs.values()))
    fits = [one.f1 for one in outcomes if one.f1 is not None]
    return Row(
        suite,
        len(runs),
        len(outcomes),
        sum(one.passed for one in outcomes),
        sum(sum(of) / len(of) for of in runs.values()) / len(runs),
        low,
        high,
        sum(fits) / len(fits) if fits else None,
        sum(one.seconds for one in outcomes),
        sum(one.tokens for one in outcomes),
    )


def interval(runs: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """Wilson's 95 % interval of the mean share; `runs` are the results of each task's runs.

    Runs of one task are no independent trials: they count for as many as the spread between the tasks allows, at least
    one and at most their number.

        interval([[True], [True], [False]])    # (0.2077, 0.9385)
    """
    shares = [sum(of) / len(of) for of in runs]
    tasks, trials = len(shares), sum(map(len, runs))
    mean = sum(shares) / tasks
    spread = sum((share - mean) ** 2 for share in shares) / max(1, tasks - 1) / tasks
    counted = min(max(mean * (1 - mean) / spread, tasks), trials) if spread else trials if 0 < mean < 1 else tasks
    half = _Z * math.sqrt(mean * (1 - mean) / counted + _Z**2 / (4 * counted**2))
    middle, whole = mean + _Z**2 / (2 * counted), 1 + _Z**2 / counted
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def table(rows: Iterable[Row]) -> list[str]:
    """The lines of the table: `harmony   22 of 25    88.0 %   70 – 96 %`."""
    rows = list(rows)
    head = ("suite", "solved", "share", "95 % interval", "F1 of calls", "time")
    keep = [True, True, True, True, any(row.f1 is not None for row in rows), True]
    cells = [head, *(_cells(row) for row in rows)]
    kept = [[cell for cell, wanted in zip(line, keep, strict=True) if wanted] for line in cells]
    widths = [max(map(len, column)) for column in zip(*kept, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in kept]


def _cells(row: Row) -> tuple[str, ...]:
    fit = "" if row.f1 is None else f"{row.f1:.2f}"
    share, between = f"{100 * row.share:.1f} %", f"{100 * row.low:.0f} – {100 * row.high:.0f} %"
    return row.suite, f"{row.passed} of {row.runs}", share, between, fit, duration(row.seconds)


def chart_of(rows: Iterable[Row], title: str) -> Chart:
    """The shares with their intervals."""
    bars = (
        Bar(row.suite, 100 * row.share, 100 * row.low, 100 * row.high, f"{row.passed} of {row.runs}") for row in rows
    )
    return Chart(title, "%", tuple(bars), "95 % interval", most=100)


def published(rows: Iterable[Row], *, model: str, effort: str) -> list[str]:
    """Lines with the published figures that can stand beside these rows."""
    suites = {row.suite for row in rows}
    near = [one for one in PUBLISHED if one.suite in suites and one.model in model and one.effort == effort]
    return [f"published, not measured here: {one.suite} {one.percent} % ({one.source})" for one in near]


def duration(seconds: float) -> str:
    """`8 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def by_suite(outcomes: Iterable[Outcome]) -> Mapping[str, list[Outcome]]:
    """The outcomes of each suite, in the order in which the suites came."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        found[one.suite].append(one)
    return found
