"""macOS: `sandbox-exec`. Written from Apple's and others' published profiles; not run in CI (no macOS there)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ossia.tools.sandbox.confinement import Confinement, ConfinementName, supervised
from ossia.tools.sandbox.job import Job, Launch
from ossia.tools.sandbox.private import on_the_way, private_in_workspace, shown, under

PROGRAM = Path("/usr/bin/sandbox-exec")
_SYSTEM = ("/usr/lib", "/usr/bin", "/usr/share", "/bin", "/System", "/Library/Apple", "/private/etc/ssl",
           "/private/var/db/timezone", "/private/var/db/dyld", "/dev/null", "/dev/zero", "/dev/random",
           "/dev/urandom")  # fmt: skip
_FOR_COMMANDS = ("/usr", "/sbin", "/opt/homebrew", "/opt/local", "/Library/Developer", "/private/etc", "/dev/fd",
                 "/private/var/select", "/Applications/Xcode.app")  # fmt: skip


_NETWORK = (
    '(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))',
    "(allow network-bind network-inbound (local ip))",
    "(allow mach-lookup "
    + " ".join(f'(global-name "com.apple.{name}")' for name in (
        "SystemConfiguration.DNSConfiguration", "SystemConfiguration.configd", "trustd.agent"))
    + ")",
)  # fmt: skip
"""TCP, UDP, the system's resolver (the one Unix socket) and its certificates."""


@dataclass(frozen=True, slots=True)
class Seatbelt(Confinement):
    """Runs a job under `sandbox-exec -p PROFILE`: everything outside the profile is refused."""

    name: ClassVar[ConfinementName] = "seatbelt"

    def launch(self, job: Job) -> Launch:
        limits = job.limits.rlimits("FSIZE", "NOFILE", "CORE")
        within = (str(PROGRAM), "-p", profile(job))
        return supervised(job, {"limits": limits}, sees=under([*_readable(job), job.folder]), within=within)


def _readable(job: Job) -> list[Path | str]:
    """The readable parts of the machine, with all below them."""
    if job.interpreter:
        return [*_SYSTEM, *job.interpreter.roots, job.fixed]
    git = (*job.repository.entries, *job.repository.settings) if job.repository else ()
    return [*_SYSTEM, *_FOR_COMMANDS, *git, *shown(job).whole]


def profile(job: Job) -> str:
    """The sandbox profile (SBPL) of one job. The last matching line wins."""
    writes = _subpaths([path.resolve() for path in (*([] if job.read_only else [job.folder]), *job.writable)])
    reads = _subpaths(_readable(job))
    if not job.interpreter:
        reads = f"(literal {_quoted('/')}) {reads}"
    kept, unseen = _subpaths([*job.guarded, *job.own]), _subpaths([*private_in_workspace(job), *shown(job).closed])
    ways = " ".join(f"(literal {_quoted(path)})" for path in on_the_way(job))
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        f"(allow file-read* {reads} {_subpaths([job.folder.resolve()])} {writes})",
        f"(allow file-write* {writes} (literal {_quoted('/dev/null')}))",
        *([f"(allow network-bind network-inbound {_subpaths([job.sockets.resolve()])})"] if job.interpreter else []),
        *(_NETWORK if job.network else ()),
        "(allow ipc-posix-sem)",
        *([f"(deny file-write* {kept})"] if kept else []),
        *([f"(deny file-write-unlink {ways})"] if ways else []),
        *([f"(deny file-read* file-write* {unseen})"] if unseen else []),
    ]
    return "\n".join(lines)


def _subpaths(paths: Sequence[Path | str]) -> str:
    return " ".join(f"(subpath {_quoted(path)})" for path in paths)


def _quoted(path: Path | str) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
