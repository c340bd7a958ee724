"""The base of all ways to confine, and the two that don't: `Off`, and `Unconfined` on the user's word."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from ossia.tools.sandbox import account
from ossia.tools.sandbox.job import Job, Launch, Runs
from ossia.tools.sandbox.private import Sees, uncover, usable

ConfinementName = Literal["bwrap", "landlock", "seatbelt", "unconfined", "off"]


@dataclass(frozen=True, slots=True)
class Confinement:
    """A way to run the model's code, or its commands (`runs`), on this machine.

    `reason` is empty for the strongest way; else it says why a stronger one is missing and how to get it. `data_path`:
    a kernel's name of its folder, `/mnt/data`; None: the real one.
    """

    name: ClassVar[ConfinementName]
    data_path: ClassVar[str | None] = None
    runs: Runs
    reason: str = ""

    @property
    def confines(self) -> tuple[str, ...]:
        """Its restrictions, a line each."""
        return account.CONFINES.get((self.name, self.runs), ())

    @property
    def gaps(self) -> tuple[str, ...]:
        """Its gaps, and things that don't work in it, a line each."""
        return account.gaps(self.name, self.runs)

    def describe(self) -> str:
        """`python: NAME`, then its restrictions, gaps and reason, as `ossia run --verbose` shows them."""
        lines = [f"{self.runs}: {self.name}"]
        lines += [f"  confined: {line}" for line in self.confines]
        lines += [f"  not confined: {line}" for line in self.gaps]
        return "\n".join([*lines, *([f"  why: {self.reason}"] if self.reason else [])])

    def launch(self, job: Job) -> Launch:
        """The start of a job. Opens the descriptors to hand down, and writes the job's settings into `job.fixed`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Off(Confinement):
    """Nothing confines here, so nothing is run. `reason` says why, with a next step."""

    name: ClassVar[ConfinementName] = "off"

    def launch(self, job: Job) -> Launch:
        raise RuntimeError(f"{self.runs} is off: {self.reason}")


@dataclass(frozen=True, slots=True)
class Unconfined(Confinement):
    """At the user's request: the code has all of the user's rights. Its processes still end with the job."""

    name: ClassVar[ConfinementName] = "unconfined"
    reason: str = "asked for with --unconfined"

    def launch(self, job: Job) -> Launch:
        settings = {"terminals": True, "limits": job.limits.rlimits("AS", "FSIZE", "CORE")}
        home = job.home if job.home and job.home.is_dir() else None
        return supervised(job, settings, sees=lambda _: True, home=home, bare=job.interpreter is None)


# -- our launcher, copied beside a job: it confines itself if nothing else does, then becomes the job ------------------


def supervised(job: Job, settings: dict[str, object], *, sees: Sees, home: Path | None = None, bare: bool = True
               ) -> Launch:  # fmt: skip
    """The job under our supervisor: all of its processes end with it. `home` None: its temporary folder."""
    for folder in job.writable:
        folder.mkdir(exist_ok=True)
    command = launcher_command(job, {"supervise": True, **settings}, bare=bare)
    folders = uncover(usable(job.search_folders(), sees), sees, job.fixed / "bin")
    return Launch(command, job.environment(home or job.temporary, job.temporary, folders), lifeline=True)


def launcher_command(job: Job, settings: dict[str, object], *, bare: bool) -> tuple[str, ...]:
    """A command for the launcher, with its settings written where the job can't write.

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
