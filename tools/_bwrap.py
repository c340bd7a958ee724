"""bubblewrap: namespaces, a read-only view of the system, and a seccomp filter. The strongest way on Linux."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools import _seccomp
from tools._confine import DATA_PATH, MIB, ConfinementName, Job, Launch, clean_env, description, gaps_on_linux
from tools._interpreter import Interpreter

_HOME = "/home/user"
UNPRIVILEGED = 1000
OUTER_ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
"""bwrap's own environment: process 1 inside is bwrap, and /proc/1/environ shows what bwrap was started with."""

NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
               "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv",
               "--cap-drop", "ALL")  # fmt: skip
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store", "gnu/store")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone", "ssl/certs",
        "ssl/openssl.cnf", "pki/tls/certs", "ca-certificates", "nsswitch.conf", "mime.types", "fonts")  # fmt: skip
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_TEMPORARY = (("/dev/shm", 64), ("/tmp", 256), ("/home", 16))
"""Writable, in memory, gone with the kernel: where, MiB."""


OWN_PROCESSES = 4
"""bwrap is two, which the watcher counts: with room for them a program meets Linux's limit, an error, before that."""
READ_ONLY = ("--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc")
"""/ and /dev lie in memory without a size: written full they would take half of the machine's. And whoever is root

outside may write /proc/sys from inside, whatever the namespace says: core_pattern there names a program that the
machine runs as root.
"""
FIRST_TO_GO = ("/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$0" "$@"')
"""If memory runs out, this ends before anything of the user's. Inherited; inside, /proc is read-only."""


@dataclass(frozen=True, slots=True)
class Bwrap:
    """Runs the kernel under `bwrap`. `nested`: this bwrap knows --disable-userns (0.8 and later)."""

    program: Path
    nested: bool = True
    reason: str = ""

    @property
    def name(self) -> ConfinementName:
        return "bwrap"

    @property
    def data_path(self) -> str | None:
        return DATA_PATH

    @property
    def confines(self) -> tuple[str, ...]:
        return (
            "files: reads the system's programs and this Python; writes /mnt/data, and /tmp in memory; no home folder",
            "network: none, not even this machine's own services or their sockets",
            "processes: sees and signals only its own; all of them end with the kernel",
            "the kernel's rarer calls (ptrace, mounts, bpf, io_uring, namespaces): refused",
        )

    @property
    def gaps(self) -> tuple[str, ...]:
        return tuple(gaps_on_linux())

    def describe(self) -> str:
        return description(self)

    def launch(self, job: Job) -> Launch:
        folders = ("--ro-bind", job.fixed, job.fixed, "--bind", job.sockets, job.sockets, "--bind", job.data, DATA_PATH)
        env = clean_env(_HOME, "/tmp", job.interpreter)
        variables = [word for name, value in env.items() for word in ("--setenv", name, value)]
        (job.fixed / "passwd").write_text(f"user:x:{_inner_uid()}:{_inner_gid()}::{_HOME}:/bin/sh\n")
        (job.fixed / "group").write_text(f"user:x:{_inner_gid()}:\n")
        names = [word for name in ("passwd", "group") for word in ("--ro-bind", job.fixed / name, f"/etc/{name}")]
        filter_fd = pipe_with(_seccomp.build("bwrap"))
        command = (*FIRST_TO_GO, *self._view(job.interpreter), *folders, *names, *READ_ONLY, "--chdir", DATA_PATH,
                   *variables, "--seccomp", filter_fd, "--", *job.kernel_command)  # fmt: skip
        return Launch(
            tuple(map(str, command)),
            OUTER_ENV,
            (filter_fd,),
            {"data": DATA_PATH, "limits": _rlimits(job), "terminals": True},
        )

    def _view(self, interpreter: Interpreter) -> list[object]:
        words: list[object] = [self.program, *NAMESPACES, *(("--disable-userns",) if self.nested else ())]
        if os.geteuid() == 0:  # uid 0 inside would be root's own files outside
            words += ["--uid", UNPRIVILEGED, "--gid", UNPRIVILEGED]
        for name in _SYSTEM:
            words += _bind_as_it_lies(Path("/", name))
        for name in _ETC:
            words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        for place, mib in _TEMPORARY:
            words += ["--size", mib * MIB, "--tmpfs", place]
        words += ["--dir", _HOME]
        for root in interpreter.roots:
            if not root.is_relative_to("/usr"):
                words += ["--ro-bind", root, root]
        return words

    def probe(self, interpreter: Interpreter) -> str:
        """Start Python with the real flags. Returns an empty string, or what bwrap said."""
        filter_fd = pipe_with(_seccomp.build("bwrap"))
        words = [*self._view(interpreter), *READ_ONLY, "--seccomp", filter_fd, "--"]
        command = [*map(str, words), str(interpreter.executable), "-I", "-S", "-c", "pass"]
        try:
            done = subprocess.run(command, env=OUTER_ENV, pass_fds=(filter_fd,), stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=20, cwd="/")  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        finally:
            os.close(filter_fd)
        said = done.stderr.decode(errors="replace").strip()
        return "" if done.returncode == 0 else (said.splitlines() or [f"exit status {done.returncode}"])[-1]


def find(search_path: str | None = None) -> str | None:
    """The bwrap of `search_path` (None: PATH), the system's before others. Never one of a relative folder.

    `./bwrap` may be anybody's, and it runs unconfined itself. (One in the `bin` of a project's environment counts only
    where the system has none.)
    """
    given = os.get_exec_path() if search_path is None else search_path.split(os.pathsep)
    folders = sorted(filter(os.path.isabs, given), key=lambda folder: folder not in _SYSTEM_FOLDERS)
    return shutil.which("bwrap", path=os.pathsep.join(folders))


def advice(said: str) -> str:
    """What to do about a bwrap that doesn't start: a line for the user."""
    if any(sign in said for sign in ("uid map", "RTM_NEWADDR", "namespace", "Operation not permitted")):
        return (
            "this system refuses user namespaces to programs; on Ubuntu add an AppArmor profile: "
            "`profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` in /etc/apparmor.d/bwrap, "
            "then `sudo apparmor_parser -r /etc/apparmor.d/bwrap`"
        )
    return "install bubblewrap from your distribution, 0.8 or later"


def _rlimits(job: Job) -> dict[str, int]:
    limits = job.limits
    return {"AS": limits.address_space_bytes, "NPROC": limits.processes - OWN_PROCESSES, "FSIZE": limits.file_bytes,
            "NOFILE": limits.open_files, "CORE": 0}  # fmt: skip


def _bind_as_it_lies(path: Path) -> list[object]:
    if path.is_symlink():
        return ["--symlink", path.readlink(), path]
    return ["--ro-bind", path, path] if path.is_dir() else []


def _inner_uid() -> int:
    return os.geteuid() or UNPRIVILEGED


def _inner_gid() -> int:
    return os.getegid() if os.geteuid() else UNPRIVILEGED


def pipe_with(data: bytes) -> int:
    """The reading end of a pipe that holds `data` (small enough for its buffer) and then ends."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading
