"""A control group of its own for what a call starts: in it Linux itself limits all memory, that of sockets included.

Only cgroup v2, and only where we may make one: below a group that was delegated to this program, or as a scope of the
user's systemd. No other group is touched.
"""

from __future__ import annotations

import itertools
import os
import socket
import stat
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ossia.tools.sandbox.job import Launch, pipe_with

_ROOT = Path("/sys/fs/cgroup")
_PROGRAMS = (Path("/usr/bin/systemd-run"), Path("/bin/systemd-run"), Path("/run/current-system/sw/bin/systemd-run"))
_NEEDED = {"memory", "pids"}
_MORE_PROCESSES = 256
"""Linux's own limit is this much higher: the watcher can say what happened, so it acts first."""
_numbers = itertools.count()

_ALL_OR_NOTHING = """\
while read -r line; do case $line in 0::*) group=${line#0::};; esac; done </proc/self/cgroup
test -w "/sys/fs/cgroup$group/memory.oom.group" && echo 1 >"/sys/fs/cgroup$group/memory.oom.group"
exec "$0" "$@"
"""
"""When the group runs out of memory, all of it is killed, not only its largest process (systemd has this since 253)."""
_PROBE = """\
while read -r line; do case $line in 0::*) group=${line#0::};; esac; done </proc/self/cgroup
read -r fd <"/proc/self/fd/$1"; read -r said
cd "/sys/fs/cgroup$group" && echo "$(cat memory.max pids.max memory.oom.group)" "$fd" "$said" '$HOME ${HOME}' $(env)
"""


@dataclass(frozen=True, slots=True)
class Scopes:
    """Scopes of this user's systemd. They end with their last process. `flags`: known to this systemd-run."""

    program: Path
    bus: Path
    flags: tuple[str, ...] = ()

    def around(self, launch: Launch, *, memory_bytes: int, processes: int) -> Launch:
        """The same launch in a group of its own with these limits. Raises `OSError` where it can't be made."""
        with closing(socket.socket(socket.AF_UNIX)) as bus:  # it may end before we do, and leave its file behind
            bus.settimeout(1)
            bus.connect(str(self.bus))
        bounds = (f"MemoryMax={memory_bytes}", "MemorySwapMax=0", f"TasksMax={processes + _MORE_PROCESSES}")
        command = (str(self.program), "--user", "--scope", "--quiet", "--collect", *self.flags,
                   *(word for bound in bounds for word in ("-p", bound)), "--",
                   "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in launch.env.items()),
                   "/bin/sh", "-c", _ALL_OR_NOTHING, *launch.command)  # fmt: skip
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(self.bus.parent),
               "DBUS_SESSION_BUS_ADDRESS": f"unix:path={self.bus}"}  # fmt: skip
        return replace(launch, command=command, env=env)

    def probe(self) -> bool:
        """True if a scope keeps its limits, and passes on a descriptor, the input, the arguments and nothing else."""
        reading = pipe_with(b"handed down\n")
        inner = Launch(("/bin/sh", "-c", _PROBE, "sh", str(reading)), {"PATH": "/usr/bin:/bin"}, (reading,))
        try:
            launch = self.around(inner, memory_bytes=1 << 28, processes=64)
            done = subprocess.run(launch.command, env=launch.env, pass_fds=launch.fds, input="said\n", text=True,
                                  capture_output=True, timeout=5, cwd="/")  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return False
        finally:
            os.close(reading)
        words = done.stdout.split()
        wanted = [str(1 << 28), str(64 + _MORE_PROCESSES), "1", "handed", "down", "said", "$HOME", "${HOME}"]
        return words[: len(wanted)] == wanted and not any(word.startswith("DBUS_") for word in words)


@dataclass(frozen=True, slots=True)
class Delegated:
    """Our own groups below one delegated to the starter of this program (systemd's `Delegate=`)."""

    parent: Path

    def around(self, launch: Launch, *, memory_bytes: int, processes: int) -> Launch:
        """As `Scopes.around`."""
        group = self.parent / f"ossia-{os.getpid()}-{next(_numbers)}"
        group.mkdir()
        bounds = {"memory.max": memory_bytes, "memory.oom.group": 1, "pids.max": processes + _MORE_PROCESSES}
        try:
            for name, value in bounds.items():
                (group / name).write_text(str(value))
        except OSError:
            remove(group)
            raise
        with suppress(OSError):  # a system without swap accounting
            (group / "memory.swap.max").write_text("0")
        join = ("/bin/sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(group))
        return replace(launch, command=(*join, *launch.command), group=group)


ENDED_BY_LINUX = (-9, -15)
"""SIGKILL, SIGTERM: how the first process ends when its group is out of memory: killed with the group, or by systemd
(252), which ends the rest. Under bubblewrap nothing inside can signal that process: a kill inside is exit status 137. A
logout ends it in the same way."""


def remove(group: Path | None) -> None:
    """Remove a group of `Delegated`, and kill the processes in it."""
    if group is not None:
        with suppress(OSError):
            (group / "cgroup.kill").write_text("1")
        for _ in range(20):  # killed processes take a moment to be gone
            try:
                group.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)
            else:
                return


def in_group(launch: Launch, *, memory_bytes: int, processes: int) -> tuple[Launch, bool]:
    """The launch in a group of its own and True, or the same launch and False if none can be made."""
    groups = found()
    if groups is None:
        return launch, False
    try:
        return groups.around(launch, memory_bytes=memory_bytes, processes=processes), True
    except OSError:
        return launch, False


@cache
def found() -> Scopes | Delegated | None:
    """The way to make control groups here. Determined once; that starts a scope if the user's systemd answers."""
    if not (_ROOT / "cgroup.controllers").exists():  # macOS; cgroup v1, where nothing is delegated
        return None
    return _delegated() or scopes(Path(f"/run/user/{os.geteuid()}/bus"))


def scopes(bus: Path, programs: tuple[Path, ...] = _PROGRAMS) -> Scopes | None:
    """The user's systemd, if it answers on a bus and its scopes hold (see `probe`)."""
    program = next((path for path in programs if path.exists()), None)
    if program is None or not bus.exists() or not stat.S_ISSOCK(bus.stat().st_mode):
        return None
    for flags in (("--expand-environment=no",), ()):  # before 254 there is no such flag, and nothing is expanded
        candidate = Scopes(program, bus, flags)
        if candidate.probe():
            return candidate
    return None


def _delegated() -> Delegated | None:
    """The group above ours, if this program was put into a leaf of a delegated one, as systemd asks for."""
    with suppress(OSError, ValueError):
        line = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
        parent = (_ROOT / line.removeprefix("0::/")).parent
        marked = parent != _ROOT and os.getxattr(parent, "user.delegate") == b"1"
        ours = marked and not parent.name.startswith("user@") and os.access(parent / "cgroup.procs", os.W_OK)
        if ours and set((parent / "cgroup.subtree_control").read_text().split()) >= _NEEDED:
            return Delegated(parent)
    return None
