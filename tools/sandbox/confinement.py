"""What every way to confine has in common, and the two that don't confine: off, and unconfined on the user's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ossia.tools.sandbox import account
from ossia.tools.sandbox._launcher import supervised
from ossia.tools.sandbox.job import Job, Launch, Runs

ConfinementName = Literal["bwrap", "landlock", "seatbelt", "unconfined", "off"]


@dataclass(frozen=True, slots=True)
class Confinement:
    """A way to run the model's code, or its commands (`runs`), on this machine.

    `reason` is empty for the strongest way; else it says why a stronger one is missing and how to get it. `data_path`:
    what a kernel sees as `/mnt/data`; None where it sees the folder under its real name.
    """

    name: ClassVar[ConfinementName]
    data_path: ClassVar[str | None] = None
    runs: Runs
    reason: str = ""

    @property
    def confines(self) -> tuple[str, ...]:
        """What it holds back, a line each."""
        return account.CONFINES.get((self.name, self.runs), ())

    @property
    def gaps(self) -> tuple[str, ...]:
        """What it doesn't hold back, and what doesn't work in it, a line each."""
        return account.gaps(self.name, self.runs)

    def describe(self) -> str:
        """`python: NAME`, then what is confined, what isn't, and the reason, as `ossia run --verbose` shows it."""
        lines = [f"{self.runs}: {self.name}"]
        lines += [f"  confined: {line}" for line in self.confines]
        lines += [f"  not confined: {line}" for line in self.gaps]
        return "\n".join([*lines, *([f"  why: {self.reason}"] if self.reason else [])])

    def launch(self, job: Job) -> Launch:
        """How to start a job. Opens the descriptors to hand down, and writes what the job reads into `job.fixed`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Off(Confinement):
    """Nothing confines here, so nothing is run. `reason` says why, and what to do."""

    name: ClassVar[ConfinementName] = "off"

    def launch(self, job: Job) -> Launch:
        raise RuntimeError(f"{self.runs} is off: {self.reason}")


@dataclass(frozen=True, slots=True)
class Unconfined(Confinement):
    """At the user's request: the code can do what the user can. Its processes still end with the job."""

    name: ClassVar[ConfinementName] = "unconfined"
    reason: str = "asked for with --unconfined"

    def launch(self, job: Job) -> Launch:
        settings = {"terminals": True, "limits": job.limits.rlimits("AS", "FSIZE", "CORE")}
        home = job.home if job.home and job.home.is_dir() else None
        return supervised(job, settings, sees=lambda _: True, home=home, bare=job.interpreter is None)
