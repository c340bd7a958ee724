"""The base of all ways to confine, and the two that don't: `Off`, and `Unconfined` on the user's word."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
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
        settings = {"limits": job.limits.rlimits("AS", "FSIZE", "CORE")}
        home = job.home if job.home and job.home.is_dir() else None
        return supervised(job, settings, sees=lambda _: True, home=home)


# -- our launcher, copied beside a job: it confines itself if nothing else does, then becomes the job ------------------


def supervised(job: Job, settings: Mapping[str, object], *, sees: Sees, home: Path | None = None,
               within: Sequence[str] = ()) -> Launch:  # fmt: skip
    """The job under our supervisor: all of its processes end with it. `home` None: its temporary folder.

    `within`: a command that starts another one, and confines it. No code of the job's own Python, nor of an environment
    (.pth files, sitecustomize), runs before it is confined: until then it is ossia's Python, without its site folders.
    """
    for folder in job.writable:
        folder.mkdir(exist_ok=True)
    if home is None and job.toolchains.git_settings:
        (job.temporary / ".gitconfig").write_text(job.toolchains.git_settings, encoding="utf-8")
    command = (*within, *(kernel_command(job, {}) if job.interpreter else job.program))
    outer = {"supervise": True, "data": str(job.folder), "command": command, **settings}
    launcher = _launcher(Path(sys.executable), job.fixed, "settings.json", outer, "-S")
    folders = uncover(usable(job.search_folders(), sees), sees, job.fixed / "bin")
    env = job.environment(home or job.temporary, job.temporary, folders, own_caches=home is None)
    return Launch(launcher, env, lifeline=True)


def kernel_command(job: Job, settings: dict[str, object]) -> tuple[str, ...]:
    """A command that becomes the job's kernel, to be run confined; its settings lie where the job can't write."""
    assert job.interpreter is not None
    about: dict[str, object] = {"data": str(job.folder), "site": [*map(str, job.interpreter.site)], "limits": {},
                                "connection": str(job.connection), "describe": job.describe}  # fmt: skip
    return _launcher(job.interpreter.executable, job.fixed, "kernel-settings.json", {**about, **settings})


def _launcher(python: Path, folder: Path, name: str, settings: dict[str, object], *flags: str) -> tuple[str, ...]:
    folder.mkdir(exist_ok=True)
    launcher, file = folder / "_kernel_launcher.py", folder / name
    launcher.write_bytes(_source())
    file.write_text(json.dumps(settings))
    return (str(python), *flags, "-I", "-B", "-X", "utf8", str(launcher), str(file))


@cache
def _source() -> bytes:
    """The launcher's source, read once: the workspace may be this project's own folder, and change."""
    return Path(__file__).with_name("_kernel_launcher.py").read_bytes()
