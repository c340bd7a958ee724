"""The tasks of the suite: each kind of job twice, in repositories of different names and sizes."""

from __future__ import annotations

import random

from ossia.cli.eval.repo.changing import CHANGING
from ossia.cli.eval.repo.mending import MENDING
from ossia.cli.eval.repo.parts import NOUNS, PACKAGES, Filled, Job, filled, patch
from ossia.cli.eval.repo.tending import TENDING
from ossia.cli.eval.task import Call, Task

_JOBS = {**MENDING, **CHANGING, **TENDING}
_TEST: Call = ("container.exec", {"command": ["bash", "-lc", "python3 run_tests.py"]})


def tasks(seed: int) -> list[Task]:
    """`repo/pages-1`, `repo/pages-2`, `repo/rename-1`, …"""
    chance = random.Random(f"repo {seed}")
    made = []
    for kind, job in _JOBS.items():
        packages, nouns = chance.sample(PACKAGES, 2), chance.sample(NOUNS, 2)
        for n, (package, noun) in enumerate(zip(packages, nouns, strict=True), 1):
            made.append(_task(f"repo/{kind}-{n}", filled(job, chance, package=package, noun=noun)))
    return made


def _task(name: str, job: Filled) -> Task:
    change: Call = ("repo_browser.apply_patch", {"patch": patch(job.files, job.after)})
    files = {path: _bytes(text, crlf=path in job.crlf) for path, text in sorted(job.files.items())}
    hidden = {"test_hidden.py": job.hidden.encode()}
    return Task(name, job.prompt, files=files, hidden=hidden, calls=(change, _TEST))


def _bytes(text: str, *, crlf: bool) -> bytes:
    return (text.replace("\n", "\r\n") if crlf else text).encode()


__all__ = ["Job", "tasks"]
