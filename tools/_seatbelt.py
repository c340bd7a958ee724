"""macOS: `sandbox-exec`. Written from Apple's and others' published profiles; not run in CI (no macOS there)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools._confine import ConfinementName, Job, Launch, clean_env, description

PROGRAM = Path("/usr/bin/sandbox-exec")
SYSTEM = ("/usr/lib", "/usr/bin", "/usr/share", "/bin", "/System", "/Library/Apple", "/private/etc/ssl",
           "/private/var/db/timezone", "/private/var/db/dyld", "/dev/null", "/dev/zero", "/dev/random",
           "/dev/urandom")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seatbelt:
    """Runs the kernel under `sandbox-exec -p PROFILE`, everything refused that the profile doesn't name."""

    reason: str = ""

    @property
    def name(self) -> ConfinementName:
        return "seatbelt"

    @property
    def data_path(self) -> str | None:
        return None

    @property
    def confines(self) -> tuple[str, ...]:
        return (
            "files: reads the system's programs and this Python; writes its data folder and a temporary one",
            "network: none but its own sockets in its own folder",
            "processes: signals only its own",
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        return (
            "this profile is not run in the project's checks",
            "files: there is no /mnt/data; the text `/mnt/data` in code and output is replaced",
            "files: names and times of files can be seen",
            "processes: one that leaves the kernel's process group outlives it",
            "memory: checked once a second; the limit of a process is not enforced by macOS",
            "sandbox-exec is deprecated by Apple, without a replacement",
        )

    def describe(self) -> str:
        return description(self)

    def launch(self, job: Job) -> Launch:
        settings: dict[str, object] = {
            "data": str(job.data), "terminals": False, "supervise": True,
            "limits": {"FSIZE": job.limits.file_bytes, "NOFILE": job.limits.open_files, "CORE": 0},
            "prefix": [str(PROGRAM), "-p", profile(job)],
        }  # fmt: skip
        env = clean_env(job.scratch, job.scratch, job.interpreter)
        return Launch(job.confining_command, env, settings=settings, lifeline=True)


def profile(job: Job) -> str:
    """The sandbox profile (SBPL) of one job."""
    reads = [*SYSTEM, *map(str, job.interpreter.roots), str(job.fixed)]
    writes = [str(folder.resolve()) for folder in (job.data, job.sockets, job.scratch)]
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        f"(allow file-read* {subpaths(reads)} {subpaths(writes)})",
        f"(allow file-write* {subpaths(writes)} (literal {quoted('/dev/null')}))",
        f"(allow network-bind network-inbound {subpaths([str(job.sockets.resolve())])})",
        "(allow ipc-posix-sem)",
    ]
    return "\n".join(lines)


def subpaths(paths: list[str]) -> str:
    return " ".join(f"(subpath {quoted(path)})" for path in paths)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
