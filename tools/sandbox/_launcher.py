"""Our launcher, copied beside a job and started: it confines itself if nothing else does, then becomes the job."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

from ossia.tools.sandbox._search_path import Sees, uncover, usable
from ossia.tools.sandbox.job import Job, Launch


def supervised(job: Job, settings: dict[str, object], *, sees: Sees, home: Path | None = None, bare: bool = True
               ) -> Launch:  # fmt: skip
    """The job under our supervisor, which ends all of its processes with it. `home` None: its temporary folder."""
    for folder in job.writable:
        folder.mkdir(exist_ok=True)
    command = launcher_command(job, {"supervise": True, **settings}, bare=bare)
    folders = uncover(usable(job.search_folders(), sees), sees, job.programs)
    return Launch(command, job.environment(home or job.temporary, job.temporary, folders), lifeline=True)


def launcher_command(job: Job, settings: dict[str, object], *, bare: bool) -> tuple[str, ...]:
    """The command that starts the launcher. What it reads is written to where the job can't write.

    `bare`: no code of Python's environment (.pth files, sitecustomize) runs before the launcher is confined.
    """
    job.fixed.mkdir(exist_ok=True)
    launcher, file = job.fixed / "_kernel_launcher.py", job.fixed / "settings.json"
    launcher.write_bytes(_source())
    file.write_text(json.dumps({"data": str(job.folder), **job.launcher_settings, **settings}))
    python = job.interpreter.executable if job.interpreter else sys.executable
    return (str(python), *(("-S",) if bare else ()), "-I", "-B", "-X", "utf8", str(launcher), str(file))


@cache
def _source() -> bytes:
    """The launcher's source, read once: the workspace may be this project's own folder, and change."""
    return Path(__file__).with_name("_kernel_launcher.py").read_bytes()
