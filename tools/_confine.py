"""The values that a confinement and the kernel it confines exchange."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tools._interpreter import Interpreter

ConfinementName = Literal["bwrap", "landlock", "seatbelt", "unconfined", "off"]
DATA_PATH = "/mnt/data"
"""Where the model was told that its files are."""
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What one kernel and all its children may use.

    `address_space_bytes`, `file_bytes` and `open_files` hold for each process (rlimits), the others for all together:
    beyond those, a watcher kills the kernel. `free_bytes` is what they leave of the disk.
    """

    address_space_bytes: int = 4 * GIB
    memory_bytes: int = 4 * GIB
    processes: int = 256
    data_bytes: int = 2 * GIB
    data_files: int = 100_000
    free_bytes: int = GIB
    file_bytes: int = 256 * MIB
    open_files: int = 512


@dataclass(frozen=True, slots=True)
class Job:
    """One life of a kernel: the folders made for it (on this machine), its Python, its limits.

    `fixed` holds what the kernel reads (launcher, settings, connection file) and never writes; `sockets` is where it
    binds; `scratch` is for temporary files where /tmp can't be had; `data` outlives it.
    """

    interpreter: Interpreter
    limits: Limits
    fixed: Path
    sockets: Path
    scratch: Path
    data: Path

    @property
    def launcher(self) -> Path:
        return self.fixed / "_kernel_launcher.py"

    @property
    def settings(self) -> Path:
        return self.fixed / "settings.json"

    @property
    def connection(self) -> Path:
        return self.fixed / "kernel.json"

    @property
    def kernel_command(self) -> tuple[str, ...]:
        return (str(self.interpreter.executable), "-I", "-B", "-X", "utf8", str(self.launcher), str(self.settings))

    @property
    def confining_command(self) -> tuple[str, ...]:
        """The same where the launcher itself confines what it starts: before that nothing of the environment runs."""
        executable, *words = self.kernel_command
        return (executable, "-S", *words)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a job: the command, its whole environment, descriptors to hand down (closed by the caller after).

    `settings` go to the launcher. `lifeline`: the first process ends everything when its stdin ends. `group`: a control
    group that was made for it and is removed after it.
    """

    command: tuple[str, ...]
    env: dict[str, str]
    fds: tuple[int, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
    lifeline: bool = False
    group: Path | None = None


class Confinement(Protocol):
    """A way to run the model's code on this machine.

    `reason` is empty for the strongest way; else it says what a stronger one lacks and how to get it. `data_path` is
    what the code sees as `/mnt/data`, None where it sees the folder under its real name.
    """

    @property
    def name(self) -> ConfinementName: ...
    @property
    def reason(self) -> str: ...
    @property
    def data_path(self) -> str | None: ...

    @property
    def confines(self) -> tuple[str, ...]:
        """What it holds back, a line each."""
        ...

    @property
    def gaps(self) -> tuple[str, ...]:
        """What it does not hold back, and what doesn't work in it, a line each."""
        ...

    def describe(self) -> str:
        """Both of the above and the reason, as text."""
        ...

    def launch(self, job: Job) -> Launch:
        """The command for a job. Opens the descriptors that it names."""
        ...


def description(confinement: Confinement) -> str:
    """`python runs under NAME`, then what is confined, what isn't, and the reason, as `doctor` shows it."""
    lines = [f"python: {confinement.name}"]
    lines += [f"  confined: {line}" for line in confinement.confines]
    lines += [f"  not confined: {line}" for line in confinement.gaps]
    return "\n".join([*lines, *([f"  why: {confinement.reason}"] if confinement.reason else [])])


def clean_env(home: Path | str, temporary: Path | str, interpreter: Interpreter) -> dict[str, str]:
    """The whole environment of a kernel: nothing of ours is in it."""
    return {
        "PATH": f"{interpreter.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",  # each thread's own would take 64 MiB of the address space that a limit counts
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "IPYTHONDIR": f"{temporary}/.ipython",
    }


def memory_is_held() -> str:
    """How the limit of all memory together holds on this machine."""
    from tools import _cgroup

    if _cgroup.found():
        return "by a control group"
    return "checked four times a second; what sockets and the system keep is estimated (no control group can be had)"


def gaps_on_linux() -> list[str]:
    """What neither bubblewrap nor Landlock holds, a line each; docs/confinement.md says more."""
    lines = [
        "processor time: only the time limit of a call holds it",
        f"memory: 4 GiB a process at once, 4 GiB in all {memory_is_held()}",
        "disk space: checked four times a second; deleted files that are only mapped, or hidden from a plain "
        "user's look, aren't counted (1 GiB of the disk stays free)",
        "a fault of the Linux kernel itself",
    ]
    if os.geteuid() == 0:
        lines.append("processes: as root their number is only checked, four times a second")
    return lines
