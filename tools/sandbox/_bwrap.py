"""bubblewrap: namespaces, a read-only view of the system, and a seccomp filter. The strongest way on Linux."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ossia.tools._scratch import Scratch
from ossia.tools.own import outermost
from ossia.tools.sandbox import _seccomp
from ossia.tools.sandbox._interpreter import Interpreter
from ossia.tools.sandbox.confinement import Confinement, ConfinementName, kernel_command
from ossia.tools.sandbox.job import DATA_PATH, MIB, SHELL_LIMITS, Job, Launch, pipe_with
from ossia.tools.sandbox.private import (
    PUBLIC_STATE,
    Shown,
    command_sees,
    on_the_way,
    private_files,
    private_in_workspace,
    shown,
    under,
    usable,
)

_KERNELS_HOME = "/home/user"
_UNPRIVILEGED = 1000
_OUTER_ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
"""bwrap's own environment. It is minimal because process 1 inside is bwrap, so /proc/1/environ shows it."""

_NAMESPACES = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
               "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv",
               "--cap-drop", "ALL")  # fmt: skip
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix/store", "gnu/store")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "timezone", "ssl/certs",
        "ssl/openssl.cnf", "pki/tls/certs", "ca-certificates", "nsswitch.conf", "mime.types", "fonts")  # fmt: skip
_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_TEMPORARY = (("/dev/shm", 64), ("/tmp", 256), ("/home", 16))
"""Writable folders in memory, gone with the kernel: path, MiB."""
_OWN_PROCESSES = 4
"""Room for bwrap's two processes in the watcher's count: so a program meets Linux's limit, an error, before that."""
_READ_ONLY = ("--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc")
"""/ and /dev are tmpfs without a size limit: full, they would take half of the machine's memory. And root could write
/proc/sys despite the namespaces: core_pattern there names a program that the machine runs as root."""
_KILLED_FIRST = ("/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$0" "$@"')
"""If memory runs out, the system kills this before the user's processes. Inherited; inside, /proc is read-only."""
_LIMITED = """\
{ ulimit -c 0; ulimit -f "$1"; ulimit -n "$2"; ulimit -u "$3" || ulimit -p "$3"; } 2>/dev/null; shift 3
exec 9>&0 </dev/null 8>&2 2>/dev/null; trap : TERM
echo >&9 || exit
(exec "$@" 2>&8 8>&- 9>&-); status=$?
for process in /proc/[0-9]*/stat; do
    case $process in /proc/1/*|/proc/$$/*) continue;; esac
    read -r line <"$process" && echo "$line" >&9
done
exit $status
"""
"""Set inside, where the process limit counts only this namespace. bash spells it -u, dash -p. What the command left
running ends with this shell, which names it on its stdin first, a socket. It ends at once if nobody reads that: bwrap
dies with the program that started it only from its own start on."""
_FIRST_WITH_OVERLAYS = (0, 11)
_BLOCK_BYTES = 512  # the unit of ulimit -f in sh


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap(Confinement):
    """Runs a job under `bwrap`. `nested`: this bwrap knows --disable-userns (0.8 and later).

    `overlays`: it can make a folder writable for a job alone (0.11 and later).
    """

    name: ClassVar[ConfinementName] = "bwrap"
    data_path: ClassVar[str | None] = DATA_PATH
    program: Path
    nested: bool = True
    overlays: bool = False

    def launch(self, job: Job) -> Launch:
        inside = _kernel(job, job.interpreter) if job.interpreter else _command(job, overlays=self.overlays)
        # a socket in the folder leads to one who can change it
        return self._around(inside, unix=not job.read_only, network=job.network)

    def _around(self, inside: _Inside, *, unix: bool = True, network: bool = False) -> Launch:
        variables = [word for name, value in inside.env.items() for word in ("--setenv", name, value)]
        filter_fd = pipe_with(_seccomp.build("bwrap", unix=unix, network=network))
        command = (*_KILLED_FIRST, self.program, *_NAMESPACES, *(() if network else ("--unshare-net",)),
                   *(("--disable-userns",) if self.nested else ()),
                   # uid 0 inside would be root's own files outside
                   *(("--uid", _UNPRIVILEGED, "--gid", _UNPRIVILEGED) if os.geteuid() == 0 else ()),
                   *inside.view, *_READ_ONLY, "--chdir", inside.folder, *variables, "--seccomp", filter_fd, "--",
                   *inside.program)  # fmt: skip
        return Launch(tuple(map(str, command)), _OUTER_ENV, (filter_fd, *inside.fds))

    def probe(self, interpreter: Interpreter | None) -> str:
        """Start Python, or `true`, with the real flags. Returns "", or bwrap's last line."""
        with closing(Scratch()) as scratch:
            job = Job(scratch.path, scratch.path, SHELL_LIMITS, command="true")
            python = interpreter and _Inside(_system(interpreter), (interpreter.executable, "-I", "-S", "-c", "pass"))
            inside = python or _command(job)
            if self.overlays:
                inside.view.extend(_overlay(Path("/usr")))
            launch = self._around(inside)
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


def find(search_path: str | None = None) -> str | None:
    """The bwrap on `search_path` (None: PATH), the system's before others. Never one from a relative folder.

    `./bwrap` may be anybody's, and bwrap itself runs unconfined. (One in the `bin` of a project's environment counts
    only where the system has none.)
    """
    given = os.get_exec_path() if search_path is None else search_path.split(os.pathsep)
    folders = sorted(filter(os.path.isabs, given), key=lambda folder: folder not in _SYSTEM_FOLDERS)
    return shutil.which("bwrap", path=os.pathsep.join(folders))


def knows_overlays(program: str) -> bool:
    """The ability to make overlays, by bubblewrap's version."""
    try:
        said = subprocess.run([program, "--version"], env=_OUTER_ENV, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=20).stdout  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    found = re.search(r"(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_WITH_OVERLAYS


def advice(said: str) -> str:
    """A line for the user: what to do about a bwrap that doesn't start."""
    if any(sign in said for sign in ("uid map", "RTM_NEWADDR", "namespace", "Operation not permitted")):
        return (
            "this system refuses user namespaces to programs; on Ubuntu add an AppArmor profile: "
            "`profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` in /etc/apparmor.d/bwrap, "
            "then `sudo apparmor_parser -r /etc/apparmor.d/bwrap`"
        )
    return "install bubblewrap from your distribution, 0.8 or later"


@dataclass(frozen=True, slots=True)
class _Inside:
    """The view inside, as arguments of bwrap, and the program with its folder."""

    view: list[object]
    program: tuple[object, ...]
    folder: Path | str = "/"
    env: dict[str, str] = field(default_factory=dict)
    fds: tuple[int, ...] = ()


def _kernel(job: Job, interpreter: Interpreter) -> _Inside:
    folders = ("--ro-bind", job.fixed, job.fixed, "--bind", job.sockets, job.sockets, "--bind", job.folder, DATA_PATH)
    uid, gid = (os.geteuid(), os.getegid()) if os.geteuid() else (_UNPRIVILEGED, _UNPRIVILEGED)
    (job.fixed / "passwd").write_text(f"user:x:{uid}:{gid}::{_KERNELS_HOME}:/bin/sh\n")
    (job.fixed / "group").write_text(f"user:x:{gid}:\n")
    names = [word for name in ("passwd", "group") for word in ("--ro-bind", job.fixed / name, f"/etc/{name}")]
    limits = {**job.limits.rlimits("AS", "FSIZE", "NOFILE", "CORE"), "NPROC": job.limits.processes - _OWN_PROCESSES}
    program = kernel_command(job, {"data": DATA_PATH, "limits": limits})
    sees = under([*(Path("/", name) for name in _SYSTEM), *interpreter.roots])
    env = job.environment(_KERNELS_HOME, "/tmp", usable(job.search_folders(), sees))
    return _Inside([*_system(interpreter), *folders, *names], program, DATA_PATH, env)


def _command(job: Job, *, overlays: bool = False) -> _Inside:
    home = job.home.resolve() if job.home and job.home.is_dir() else Path("/tmp")
    limits, seen = job.limits, shown(job)
    bounds = (limits.file_bytes // _BLOCK_BYTES, limits.open_files, limits.processes - _OWN_PROCESSES)
    program = ("/bin/sh", "-c", _LIMITED, "sh", *bounds, *job.program)
    folders = usable(job.search_folders(), command_sees(job, seen.hidden, seen.whole))
    env = job.environment(home, "/tmp", folders, own_caches=not overlays)
    view, fds = _machine(job, seen, overlays=overlays), []
    if job.toolchains.git_settings and not home.is_relative_to(job.folder):
        fds = [pipe_with(job.toolchains.git_settings.encode())]
        view += ["--file", fds[0], home / ".gitconfig"]
    return _Inside(view, program, job.folder, env, tuple(fds))


def _system(interpreter: Interpreter) -> list[object]:
    """A kernel's view: the system's programs and its Python, nothing else."""
    words: list[object] = []
    for name in _SYSTEM:
        words += _bind_as_it_lies(Path("/", name))
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for place, mib in _TEMPORARY:
        words += ["--size", mib * MIB, "--tmpfs", place]
    words += ["--dir", _KERNELS_HOME]
    for root in interpreter.roots:
        if not root.is_relative_to("/usr"):
            words += _bind_as_it_lies(root)
    return words


def _machine(job: Job, seen: Shown, *, overlays: bool) -> list[object]:
    """A command's view: everything without its private parts."""
    words: list[object] = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--size", 64 * MIB, "--tmpfs", "/dev/shm"]
    hidden, home, temporary = seen.hidden, job.home.resolve() if job.home else None, Path("/tmp").resolve()
    for folder in hidden:
        words += ["--size", job.limits.temporary_bytes if folder in (home, temporary) else MIB, "--tmpfs", folder]
    if home is not None and home not in hidden and any(home.is_relative_to(folder) for folder in hidden):
        words += ["--size", job.limits.temporary_bytes, "--tmpfs", home]
    for state in map(Path, PUBLIC_STATE):
        if state.is_dir() and Path("/var") in hidden:
            words += ["--ro-bind", state, state]
    words += _toolchains(seen, overlays=overlays)
    for file in private_files():
        words += ["--ro-bind", "/dev/null", file]
    words += _repository(job)
    bind = "--ro-bind" if job.read_only else "--bind"
    words += [bind, job.folder, job.folder]
    for path in on_the_way(job):
        words += [bind, path, path]  # where something is mounted can't be renamed
    for path in (*job.guarded, *job.own):
        words += ["--ro-bind", path, path]
    words += _given_git(job)
    for path in (*private_in_workspace(job), *_closed_elsewhere(seen)):
        words += ["--size", MIB, "--tmpfs", path] if path.is_dir() else ["--ro-bind", "/dev/null", path]
    # empty and not writable: what was written there would be lost, so writing fails instead
    closed = [folder for folder in hidden if folder not in (home, temporary)]
    return [*words, *(word for folder in closed for word in ("--remount-ro", folder))]


def _toolchains(seen: Shown, *, overlays: bool) -> list[object]:
    """The places in hidden folders, read-only. One with something closed in it is a folder of its other entries."""
    words: list[object] = []
    covered = under(seen.hidden)
    parted = [place for place in seen.places if place not in seen.whole and covered(place)]
    for place in parted:
        words += ["--size", MIB, "--tmpfs", place]
    for path in filter(covered, seen.whole):
        words += ["--ro-bind", path, path]
    for link, target in seen.links:
        words += ["--symlink", target, link] if covered(link) else []
    for path in seen.caches if overlays else ():
        words += _overlay(path)
    return [*words, *(word for place in parted for word in ("--remount-ro", place))]


def _closed_elsewhere(seen: Shown) -> list[Path]:
    """The closed parts of places outside the hidden folders."""
    within, covered = under(seen.places), under(seen.hidden)
    return outermost(path for path in seen.closed if within(path) and not covered(path) and path.exists())


def _overlay(folder: Path) -> list[object]:
    """The folder with a layer in memory above it: writable, and gone with the job."""
    return ["--overlay-src", folder, "--tmp-overlay", folder]


def _repository(job: Job) -> list[object]:
    """The git folder with copies of its settings, and without anything else in it."""
    if job.repository is None or (job.git and job.git.place == job.repository.folder):
        return []
    folder = job.repository.folder
    words: list[object] = ["--size", MIB, "--tmpfs", folder]
    for path in job.repository.entries:
        words += ["--ro-bind", path, path]
    job.fixed.mkdir(exist_ok=True)
    for number, (path, text) in enumerate(job.repository.settings.items()):
        copy = job.fixed / f"settings-{number}"
        copy.write_text(text, encoding="utf-8")
        words += ["--ro-bind", copy, path]
    return [*words, "--remount-ro", folder]


def _given_git(job: Job) -> list[object]:
    """The copy of the git folder where the real one is, and the real objects beside it."""
    if job.git is None:
        return []
    words: list[object] = ["--bind", job.git.copy, job.git.place]
    words += ["--ro-bind", job.git.place / "objects", job.git.objects]
    return [*words, *(word for path in job.git.read_only for word in ("--ro-bind", path, path))]


def _bind_as_it_lies(path: Path) -> list[object]:
    if path.is_symlink():
        return ["--symlink", path.readlink(), path]
    return ["--ro-bind-try", path, path]
