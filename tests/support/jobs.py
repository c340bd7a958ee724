"""Commands as jobs of a confinement, without the toolbox. Imports no more than that: a plain user's copy runs on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from ossia.tools._scratch import Scratch
from ossia.tools.sandbox import SHELL_LIMITS, Confinement, Job
from ossia.tools.sandbox._command_process import CommandProcess


@contextmanager
def homes() -> Iterator[tuple[Path, Path]]:
    """A home and a workspace in it, in the system's temporary folder, by their real paths."""
    with tempfile.TemporaryDirectory(prefix="ossia-home-") as folder:
        home = Path(folder).resolve()
        (home / "work" / "project").mkdir(parents=True)
        yield home, home / "work" / "project"


def job_in(home: Path, workspace: Path, **parts: object) -> Job:
    """A job with ossia's data in `.local/share/ossia`; its scratch folder comes with its start."""
    data = home / ".local" / "share" / "ossia"
    data.mkdir(parents=True, exist_ok=True)
    job = Job(workspace, workspace, SHELL_LIMITS, home=home, hidden=(data,))
    return replace(job, **parts)  # type: ignore[arg-type]


@contextmanager
def started(confinement: Confinement, job: Job, command: str) -> Iterator[CommandProcess]:
    """The running command, for a shell. Ended with all it started on leaving."""
    with closing(Scratch()) as scratch:
        job = replace(job, scratch=scratch.path, command=command)
        with closing(CommandProcess(confinement.launch(job), job, timeout_s=60, grace_s=1)) as process:
            yield process


def output_of(confinement: Confinement, job: Job, command: str) -> str:
    """Both streams of a command, without its status."""
    with started(confinement, job, command) as process:
        return b"".join(process.output).decode()
