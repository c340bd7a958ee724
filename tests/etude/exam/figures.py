"""What was measured of a model, read back from what the commands wrote with `--json`, and from a training's log."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ALL = "all"

_TRAINED = re.compile(
    r"(?P<minutes>[\d.]+) min, step (?P<steps>\d+), .*?(?P<millions>[\d.]+) M tokens, .*?(?P<dialogues>\d+) dialogues"
)
_NAMES = {"values": "new values", "phrasing": "new phrasings", "others": "phrasings of others"}

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of `tests.etude.evaluate`: `skills["browser"]["exact"]`, and the same for each `(skill, kind)`.

    `everyday`: a row of the calls in everyday words, which come with new values only.
    """

    settings: Row
    machine: Row
    load: float | None
    skills: Mapping[str, Row]
    kinds: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    everyday: Row = field(default_factory=dict)

    @property
    def greedy(self) -> bool:
        return float(self.settings["temperature"]) == 0

    @property
    def unseen(self) -> str:
        return str(self.settings["unseen"])

    @property
    def name(self) -> str:
        """`"new phrasings, temperature 1"`"""
        how = "exact" if self.greedy else f"temperature {self.settings['temperature']:g}"
        return f"{_NAMES[self.unseen]}, {how}"

    def right(self, skill: str) -> int:
        """Exact dialogues, if it is greedy; otherwise those that are the same but for thoughts and spelling."""
        return self.count(self.skills[skill])

    def count(self, row: Row) -> int:
        """The same of any row."""
        return int(row["exact" if self.greedy else "same"])

    def percent(self, skill: str) -> float:
        return 100 * self.right(skill) / float(self.skills[skill]["dialogues"])


@dataclass(frozen=True, slots=True)
class Measured:
    """All that is known of a model. `runs` have a greedy one with `unseen` "values".

    `outside` and `in_use`: the tables of the commands of those names; `parity`: the line of that one.
    """

    runs: Sequence[Figures]
    outside: Tables
    in_use: Tables
    parity: str

    @property
    def main(self) -> Figures:
        return next(run for run in self.runs if run.greedy and run.unseen == "values")


def sha256_of(path: Path) -> str:
    """Of the file's content, as the figures have it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_figures(path: Path, sha256: str) -> Figures:
    """What `evaluate --json` wrote. Raises ValueError when it isn't about the file with that hash."""
    told = _read(path, sha256)
    tables = told["tables"]
    skills = {row["skill"]: row for row in tables["by skill"]}
    kinds = {(row["skill"], row["kind"]): row for row in tables["by kind"]}
    failures = {row["failure"]: row["dialogues"] for row in tables.get("by failure", ())}
    everyday = tables.get("everyday calls", [{}])[0]
    return Figures(told["settings"], told["machine"], told["load"]["before"], skills, kinds, failures, everyday)


def read_tables(path: Path, sha256: str) -> Tables:
    """What `outside --json` or `in_use --json` wrote. Raises ValueError likewise."""
    tables: Tables = _read(path, sha256)["tables"]
    return tables


def read_parity(path: Path, sha256: str) -> str:
    """What `tests.etude.parity` printed, without the line that says of which file. Raises ValueError likewise."""
    told, _, of = path.read_text(encoding="utf-8").strip().partition("\nof sha256 ")
    if of != sha256:
        raise ValueError(f"expected parity of {sha256[:12]}…, it is of {of[:12] or 'no file'}…: compare it anew")
    return told


def read_log(text: str) -> dict[str, float]:
    """The last word of a training's log: `{"minutes": 95.0, "steps": 2900, "millions": 21.4, "dialogues": 190000}`.

    Raises ValueError when it has none.
    """
    found = list(_TRAINED.finditer(text))
    if not found:
        raise ValueError("expected a line as '95.00 min, step 2900, …' in the log: is it one of tests.etude.train?")
    numbers = {name: float(value) for name, value in found[-1].groupdict().items()}
    return numbers | {"dialogues": 2 * numbers["dialogues"]}  # one of two processes told its own


def _read(path: Path, sha256: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = told["settings"]["sha256"]
    if found != sha256:
        raise ValueError(f"{path.name}: expected figures of {sha256[:12]}…, they are of {found[:12]}…: evaluate again")
    return told
