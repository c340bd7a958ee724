"""Landlock and a seccomp filter: for a Linux without bubblewrap, or without user namespaces. Weaker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ossia.tools.sandbox import _seccomp, account
from ossia.tools.sandbox.confinement import Confinement, ConfinementName, supervised
from ossia.tools.sandbox.job import Job, Launch
from ossia.tools.sandbox.private import (
    PRIVATE_FOLDERS,
    PUBLIC_STATE,
    one_by_one,
    private_files,
    private_in_workspace,
    shown,
    under,
)

OLDEST_ABI = 3
"""Linux 6.2. Before it, truncate() was possible on any of the user's files."""

_READ = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
         "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
         "/etc/timezone", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/nsswitch.conf",
         "/etc/mime.types", "/etc/fonts", "/etc/passwd", "/dev/zero", "/dev/random", "/dev/urandom", "/proc/cpuinfo",
         "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
         "/sys/devices/system/cpu")  # fmt: skip
_WRITE = ("/dev/null", "/dev/full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landlock(Confinement):
    """Runs a job in a Landlock domain, under our supervisor. Weaker than bubblewrap; `gaps` says where."""

    name: ClassVar[ConfinementName] = "landlock"
    abi: int

    @property
    def gaps(self) -> tuple[str, ...]:
        return account.gaps(self.name, self.runs, abi=self.abi)

    def launch(self, job: Job) -> Launch:
        writable, readable = _reach(job)
        if job.read_only:
            writable, readable = [], [*readable, *writable]
        allowed = job.limits.processes + 256 + threads_of_this_user()
        read, write = [*_READ, *map(str, (*_shown(job), *readable))], [*map(str, (*job.writable, *writable))]
        settings: dict[str, object] = {
            "read": read,
            "write_files": [*_WRITE],
            "write": write,
            "list": [str(job.folder)],
            "network": job.network,
            "filter": _seccomp.build("landlock", network=job.network).hex(),
            "drop_capabilities": True,
            "limits": {**job.limits.rlimits("AS", "FSIZE", "NOFILE", "CORE"), "NPROC": allowed},
        }
        return supervised(job, settings, sees=under([*read, *write]))


def _shown(job: Job) -> list[Path]:
    """Readable places of this job alone: a kernel's Python; for a command most of /etc and more programs."""
    if job.interpreter:
        return [*job.interpreter.roots, job.fixed]
    private = {path for one in (*private_files(), *map(Path, PRIVATE_FOLDERS)) for path in (one, *one.parents)}
    settings = [path for path in Path("/etc").iterdir() if path not in private]
    git = (*job.repository.entries, *job.repository.settings) if job.repository else ()
    return [*settings, Path("/opt"), *map(Path, PUBLIC_STATE), *git, *shown(job).whole]


def _reach(job: Job) -> tuple[list[Path], list[Path]]:
    """The parts of the workspace that may be written, and those that may only be read.

    Landlock grants rights and can't revoke a part of them. So a folder on the way to something guarded gets no rule;
    each of its other entries gets its own. A link gets none, since the rule would apply to its target.
    """
    unseen, kept = private_in_workspace(job), (*job.guarded, *job.own)
    writable: list[Path] = []
    readable: list[Path] = []
    for path in one_by_one([job.folder], {*unseen, *kept}):
        if not path.is_symlink() and path not in unseen:
            (readable if path in kept else writable).append(path)
    return writable, readable


def threads_of_this_user() -> int:
    """The user's threads now: RLIMIT_NPROC counts them too, so they are added to the limit."""
    import psutil

    found = [process.info for process in psutil.process_iter(["uids", "num_threads"])]
    return sum(one["num_threads"] or 0 for one in found if one["uids"] and one["uids"].real == os.getuid())
