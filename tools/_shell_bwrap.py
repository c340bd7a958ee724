"""One shell command under bubblewrap: the system read-only, the workspace writable, homes and sockets gone."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tools import _seccomp
from tools._bwrap import FIRST_TO_GO, NAMESPACES, OUTER_ENV, OWN_PROCESSES, READ_ONLY, UNPRIVILEGED, pipe_with
from tools._confine import MIB, ConfinementName, Launch
from tools._scratch import Scratch
from tools._shell_confine import (
    PUBLIC_STATE,
    ShellJob,
    ShellLimits,
    on_the_way,
    private_files,
    private_folders,
    private_in_workspace,
    shell_description,
    shell_gaps_on_linux,
    shell_program,
)

_LIMITED = """\
{ ulimit -c 0; ulimit -f "$1"; ulimit -n "$2"; ulimit -u "$3" || ulimit -p "$3"; } 2>/dev/null; shift 3; exec "$@"
"""
"""Inside, where the number of processes counts those of this namespace alone. bash says -u, dash -p."""
_BLOCK_BYTES = 512  # what ulimit -f counts in sh


@dataclass(frozen=True, slots=True)
class ShellBwrap:
    """Runs a command under `bwrap`. `nested`: this bwrap knows --disable-userns (0.8 and later)."""

    program: Path
    nested: bool = True
    reason: str = ""

    @property
    def name(self) -> ConfinementName:
        return "bwrap"

    @property
    def confines(self) -> tuple[str, ...]:
        return (
            "files: writes the workspace, but for its .git, .ossia and ossia itself; an empty /tmp and home in memory",
            "files: reads the system; homes, /run, /var, /mnt, /media, keys and passwords in /etc are empty",
            "network: none, not even this machine's own services",
            "processes: sees and signals only its own; all of them end with the call, also those in the background",
            "the environment: PATH, LANG, HOME, TERM and no more",
            "the kernel's rarer calls (ptrace, mounts, bpf, io_uring, namespaces): refused",
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        return (
            "files: the rest of the system can be read, with whatever lies outside the folders named above",
            "files: programs below your home aren't there (rustup, pyenv, uv's Pythons)",
            "sockets of other programs that lie in the workspace or in an unusual place can be reached",
            *shell_gaps_on_linux(),
        )

    def describe(self) -> str:
        return shell_description(self)

    def launch(self, job: ShellJob) -> Launch:
        filter_fd = pipe_with(_seccomp.build("bwrap"))
        home = job.home.resolve() if job.home and job.home.is_dir() else Path("/tmp")
        variables = [word for name, value in {**job.environment, "HOME": str(home), "TMPDIR": "/tmp"}.items()
                     for word in ("--setenv", name, value)]  # fmt: skip
        limits = job.limits
        bounds = (limits.file_bytes // _BLOCK_BYTES, limits.open_files, limits.processes - OWN_PROCESSES)
        command = (*FIRST_TO_GO, self.program, *NAMESPACES, *(("--disable-userns",) if self.nested else ()),
                   *(("--uid", UNPRIVILEGED, "--gid", UNPRIVILEGED) if os.geteuid() == 0 else ()),
                   *_view(job), *READ_ONLY, *variables, "--chdir", job.root, "--seccomp", filter_fd, "--",
                   "/bin/sh", "-c", _LIMITED, "sh", *bounds, shell_program(), "-c", job.command)  # fmt: skip
        return Launch(tuple(map(str, command)), OUTER_ENV, (filter_fd,))

    def probe(self) -> str:
        """Run `true` with the real flags. Returns an empty string, or what bwrap said."""
        with closing(Scratch()) as scratch:
            root = scratch.path
            launch = self.launch(ShellJob("true", root, ShellLimits(), root))
            try:
                done = subprocess.run(launch.command, env=launch.env, pass_fds=launch.fds, stdin=subprocess.DEVNULL,
                                      capture_output=True, timeout=20, cwd="/")  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                return str(error)
            finally:
                for fd in launch.fds:
                    os.close(fd)
        said = done.stderr.decode(errors="replace").strip()
        return "" if done.returncode == 0 else (said.splitlines() or [f"exit status {done.returncode}"])[-1]


def _view(job: ShellJob) -> list[object]:
    words: list[object] = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--size", 64 * MIB, "--tmpfs", "/dev/shm"]
    hidden, home, temporary = private_folders(job), job.home.resolve() if job.home else None, Path("/tmp").resolve()
    for folder in hidden:
        words += ["--size", job.limits.temporary_bytes if folder in (home, temporary) else MIB, "--tmpfs", folder]
    if home is not None and home not in hidden and any(home.is_relative_to(folder) for folder in hidden):
        words += ["--size", job.limits.temporary_bytes, "--tmpfs", home]
    for state in map(Path, PUBLIC_STATE):
        if state.is_dir() and Path("/var") in hidden:
            words += ["--ro-bind", state, state]
    for file in private_files():
        words += ["--ro-bind", "/dev/null", file]
    words += ["--bind", job.root, job.root]
    for path in on_the_way(job):
        words += ["--bind", path, path]  # where something is mounted can't be renamed
    for path in (*job.guarded, *job.own):
        words += ["--ro-bind", path, path]
    for path in private_in_workspace(job):
        words += ["--size", MIB, "--tmpfs", path] if path.is_dir() else ["--ro-bind", "/dev/null", path]
    # empty and also closed: what was written there would be lost, and that should be seen
    closed = [folder for folder in hidden if folder not in (home, temporary)]
    return [*words, *(word for folder in closed for word in ("--remount-ro", folder))]
