"""Results on disk, a line of JSON each: what is done is done, however the process ends."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

VERSION = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run of a task.

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


class Kept:
    """The outcomes of one way to run the tasks (`of`: the model, the effort, …), in a file of their own.

    A line is written whole, in one call, and synced; half a line, as a full disk leaves it, is skipped. `folder` None:
    nothing is kept.
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
        """Keep one more. Raises OSError when it can't be written."""
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

    def forget(self) -> None:
        """Begin anew."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _outcome(line: bytes) -> Outcome | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    known = {field.name for field in fields(Outcome)}
    return Outcome(**value) if isinstance(value, dict) and set(value) == known else None
