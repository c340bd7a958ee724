"""One shell command under a supervisor of ours: in a Landlock domain, under sandbox-exec, or not confined at all."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools import _kernel_launcher, _seccomp
from tools._confine import ConfinementName, Launch
from tools._landlock import READ, WRITE, threads_of_this_user
from tools._seatbelt import PROGRAM, SYSTEM, quoted, subpaths
from tools._shell_confine import (
    PRIVATE_FOLDERS,
    PUBLIC_STATE,
    ShellJob,
    on_the_way,
    private_files,
    private_in_workspace,
    shell_description,
    shell_gaps_on_linux,
    shell_program,
)

_SIGNALS_ABI = 6


@dataclass(frozen=True, slots=True)
class ShellLandlock:
    """Runs a command in a Landlock domain. Weaker than bubblewrap, and says where."""

    abi: int
    reason: str = ""

    @property
    def name(self) -> ConfinementName:
        return "landlock"

    @property
    def confines(self) -> tuple[str, ...]:
        return (
            "files: writes the workspace, but for its .git, its .ossia and ossia itself, and a temporary home",
            "files: reads the system's programs and settings, no homes, no keys and passwords",
            "network: no sockets but its own; connecting is refused, also to sockets that have a path",
            "processes: can't read, trace or signal yours; its own end with the call",
            "the environment: PATH, LANG, HOME, TERM and no more",
            "the kernel's rarer calls (ptrace, mounts, bpf, io_uring, namespaces): refused",
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        lines = [
            "files: nothing can be made, renamed or deleted right in a folder that leads to the workspace's .git, its "
            ".ossia or to ossia itself",
            "files: the .git of a repository further down can be changed; its settings and hooks are put back",
            "files: whether any path exists, its size and its times can be seen (its content can't)",
            "files: changing modes, owners and times does nothing and reports success",
            "processes: whether a process number is in use can be seen, nothing else of it",
            "processes: those that fork and end faster than they can be counted may outlive the call",
            "the machine's name, uptime and mounts, its ports and sockets in use, and where links point can be seen",
            "network: a name in the abstract socket namespace can be taken",
            *shell_gaps_on_linux(),
        ]
        if self.abi < _SIGNALS_ABI:
            lines.append(f"processes: yours can be signalled (Landlock ABI {self.abi}; Linux 6.12 closes this)")
        return tuple(lines)

    def describe(self) -> str:
        return shell_description(self)

    def launch(self, job: ShellJob) -> Launch:
        home = _home_of(job)
        writable, readable = _reach(job)
        limits = job.limits
        allowed = limits.processes + 256 + threads_of_this_user()
        settings: dict[str, object] = {
            "read": [*READ, *_settings_of_the_system(), "/opt", *PUBLIC_STATE, *map(str, readable)],
            "write_files": [*WRITE],
            "write": [str(home), *map(str, writable)],
            "list": [str(job.root)],
            "filter": _seccomp.build("landlock").hex(),
            "drop_capabilities": True,
            "limits": {"NPROC": allowed, "FSIZE": limits.file_bytes, "NOFILE": limits.open_files, "CORE": 0},
        }
        return _supervised(job, settings, home)


@dataclass(frozen=True, slots=True)
class ShellSeatbelt:
    """Runs a command under `sandbox-exec` (macOS). Written, not run in the project's checks."""

    reason: str = ""

    @property
    def name(self) -> ConfinementName:
        return "seatbelt"

    @property
    def confines(self) -> tuple[str, ...]:
        return (
            "files: writes the workspace, but for its .git, its .ossia and ossia itself, and a temporary home",
            "files: reads the system's programs, no homes",
            "network: none",
            "processes: signals only its own",
            "the environment: PATH, LANG, HOME, TERM and no more",
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        return (
            "this profile is not run in the project's checks",
            "files: names and times of files can be seen",
            "processes: one that leaves the command's process group outlives it",
            "memory: the limit is checked a few times a second",
            "sandbox-exec is deprecated by Apple, without a replacement",
        )

    def describe(self) -> str:
        return shell_description(self)

    def launch(self, job: ShellJob) -> Launch:
        home, limits = _home_of(job), job.limits
        settings: dict[str, object] = {
            "limits": {"FSIZE": limits.file_bytes, "NOFILE": limits.open_files, "CORE": 0},
            "prefix": [str(PROGRAM), "-p", shell_profile(job, home)],
        }
        return _supervised(job, settings, home)


@dataclass(frozen=True, slots=True)
class ShellUnconfined:
    """The user's own wish: a command can do what the user can. Its processes still end with the call."""

    reason: str = "asked for with --unconfined"

    @property
    def name(self) -> ConfinementName:
        return "unconfined"

    @property
    def confines(self) -> tuple[str, ...]:
        return ()

    @property
    def gaps(self) -> tuple[str, ...]:
        return ("everything: the model's commands can read, change, send and delete whatever you can",)

    def describe(self) -> str:
        return shell_description(self)

    def launch(self, job: ShellJob) -> Launch:
        home = job.home if job.home and job.home.is_dir() else _home_of(job)
        return _supervised(job, {"limits": {"FSIZE": job.limits.file_bytes, "CORE": 0}}, home)


@dataclass(frozen=True, slots=True)
class ShellOff:
    """Nothing confines here: no command is run. `reason` says why, and what to do."""

    reason: str

    @property
    def name(self) -> ConfinementName:
        return "off"

    @property
    def confines(self) -> tuple[str, ...]:
        return ()

    @property
    def gaps(self) -> tuple[str, ...]:
        return ()

    def describe(self) -> str:
        return shell_description(self)

    def launch(self, job: ShellJob) -> Launch:
        raise RuntimeError(f"the shell is off: {self.reason}")


def shell_profile(job: ShellJob, home: Path) -> str:
    """The sandbox profile (SBPL) of one command. Of the lines that match, the last one holds."""
    writes = [str(job.root), str(home.resolve())]
    reads = [*SYSTEM, "/usr", "/sbin", "/opt/homebrew", "/opt/local", "/Library/Developer", "/private/etc", "/dev/fd",
             "/private/var/select", "/Applications/Xcode.app"]  # fmt: skip
    kept = [str(path) for path in (*job.guarded, *job.own)]
    ways = " ".join(f"(literal {quoted(str(path))})" for path in on_the_way(job))
    unseen = [str(path) for path in private_in_workspace(job)]
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow sysctl-read)",
        "(allow file-read-metadata)",
        f"(allow file-read* (literal {quoted('/')}) {subpaths(reads)} {subpaths(writes)})",
        f"(allow file-write* {subpaths(writes)} (literal {quoted('/dev/null')}))",
        "(allow ipc-posix-sem)",
        *([f"(deny file-write* {subpaths(kept)})"] if kept else []),
        *([f"(deny file-write-unlink {ways})"] if ways else []),
        *([f"(deny file-read* file-write* {subpaths(unseen)})"] if unseen else []),
    ]
    return "\n".join(lines)


def _reach(job: ShellJob) -> tuple[list[Path], list[Path]]:
    """What of the workspace may be written, and what only read.

    Landlock gives rights and can't take a part of them back: each folder on the way to what is guarded is taken apart,
    and its other entries get rules of their own. A link gets none, since the rule would be for what it points to.
    """
    unseen, kept = private_in_workspace(job), (*job.guarded, *job.own)
    writable: list[Path] = []
    readable: list[Path] = []
    folders = [job.root]
    apart = {above for path in (*unseen, *kept) for above in path.parents}
    if job.root not in apart:
        return [job.root], []
    for folder in folders:  # it grows
        for path in folder.iterdir():
            if path.is_symlink() or path in unseen:
                continue
            if path in kept:
                readable.append(path)
            elif path in apart:
                folders.append(path)
            else:
                writable.append(path)
    return writable, readable


def _settings_of_the_system() -> list[str]:
    """What lies in /etc, without keys and passwords."""
    private = [*private_files(), *map(Path, PRIVATE_FOLDERS)]
    return [str(path) for path in Path("/etc").iterdir() if not any(one.is_relative_to(path) for one in private)]


def _home_of(job: ShellJob) -> Path:
    home = job.scratch / "tmp"
    home.mkdir(exist_ok=True)
    return home


def _supervised(job: ShellJob, settings: dict[str, object], home: Path) -> Launch:
    """Our launcher confines itself, then becomes the shell. It reads what the command can't write."""
    fixed = job.scratch / "fixed"
    fixed.mkdir()
    launcher = fixed / "launcher.py"
    launcher.write_bytes(_launcher_source())
    whole = {"supervise": True, "data": str(job.root), "site": _site(),
             "command": [shell_program(), "-c", job.command], **settings}  # fmt: skip
    (fixed / "settings.json").write_text(json.dumps(whole))
    command = (sys.executable, "-I", "-S", "-B", "-X", "utf8", str(launcher), str(fixed / "settings.json"))
    env = {**job.environment, "HOME": str(home), "TMPDIR": str(job.scratch / "tmp")}
    return Launch(command, env, lifeline=True)


@cache
def _launcher_source() -> bytes:
    """As it was when it was first needed: the workspace may be this project's own folder."""
    return Path(str(_kernel_launcher.__file__)).read_bytes()


@cache
def _site() -> list[str]:
    spec = importlib.util.find_spec("landlockpy")
    return [str(Path(spec.origin).parent.parent)] if spec and spec.origin else []
