"""Landlock and a seccomp filter: for a Linux without bubblewrap, or one that refuses user namespaces. Weaker."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tools import _seccomp
from tools._confine import ConfinementName, Job, Launch, clean_env, description, gaps_on_linux

OLDEST_ABI = 3
"""Linux 6.2: before it truncate() of any file of the user's was open."""
_SIGNALS_ABI = 6

READ = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
         "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
         "/etc/timezone", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/nsswitch.conf",
         "/etc/mime.types", "/etc/fonts", "/etc/passwd", "/dev/zero", "/dev/random", "/dev/urandom", "/proc/cpuinfo",
         "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
         "/sys/devices/system/cpu")  # fmt: skip
WRITE = ("/dev/null", "/dev/full")


@dataclass(frozen=True, slots=True)
class Landlock:
    """Runs the kernel in a Landlock domain, under a supervisor of ours that ends all its processes with it."""

    abi: int
    reason: str = ""

    @property
    def name(self) -> ConfinementName:
        return "landlock"

    @property
    def data_path(self) -> str | None:
        return None

    @property
    def confines(self) -> tuple[str, ...]:
        return (
            "files: reads the system's programs and this Python; writes its data folder and a temporary one",
            "network: no sockets but its own; connecting is refused, also to sockets that have a path",
            "processes: can't read, trace or signal yours; its own end with the kernel",
            "the kernel's rarer calls (ptrace, mounts, bpf, io_uring, namespaces): refused",
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        lines = [
            "files: whether any path exists, its size and its times can be seen (its content can't)",
            "files: there is no /mnt/data; the text `/mnt/data` in code and output is replaced",
            "files: changing modes, owners and times does nothing and reports success",
            "processes: whether a process number is in use can be seen, nothing else of it",
            "processes: those that fork and end faster than they can be counted may outlive the kernel",
            "the machine's name, uptime and mounts, its ports and sockets in use, and where links point can be seen",
            "network: a name in the abstract socket namespace can be taken",
            "no terminals and no shared memory: `pty` and the locks of `multiprocessing` don't work",
            *gaps_on_linux(),
        ]
        if self.abi < _SIGNALS_ABI:
            lines.append(f"processes: yours can be signalled (Landlock ABI {self.abi}; Linux 6.12 closes this)")
        return tuple(lines)

    def describe(self) -> str:
        return description(self)

    def launch(self, job: Job) -> Launch:
        limits, allowed = job.limits, job.limits.processes + 256 + threads_of_this_user()
        settings: dict[str, object] = {
            "data": str(job.data),
            "supervise": True,
            "terminals": False,
            "read": [*READ, *map(str, job.interpreter.roots), str(job.fixed)],
            "write_files": [*WRITE],
            "write": [str(folder) for folder in (job.data, job.sockets, job.scratch)],
            "filter": _seccomp.build("landlock").hex(),
            "drop_capabilities": True,
            "limits": {"AS": limits.address_space_bytes, "NPROC": allowed, "FSIZE": limits.file_bytes,
                       "NOFILE": limits.open_files, "CORE": 0},
        }  # fmt: skip
        env = clean_env(job.scratch, job.scratch, job.interpreter)
        return Launch(job.confining_command, env, settings=settings, lifeline=True)


def abi_version() -> int:
    """Landlock's version in this kernel, 0 without it."""
    if sys.platform != "linux":
        return 0
    try:
        import landlockpy
    except ImportError:
        return 0
    return int(landlockpy.abi_version())


def threads_of_this_user() -> int:
    """RLIMIT_NPROC counts every thread of the user, not only the kernel's: the limit starts above those."""
    count = 0
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and process.stat().st_uid == os.getuid():
                count += sum(1 for _ in (process / "task").iterdir())
        except OSError:  # it ended meanwhile
            continue
    return count
