"""Confines itself, then becomes a command; or becomes a kernel. Runs alone: `python -I _kernel_launcher.py SETTINGS`.

It is copied into a folder that the model's code can't write to, since it starts unconfined, by ossia's own Python. A
kernel's Python is started confined, and runs it once more. It imports nothing from this project.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 22, 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 47, 4, 2
CAPABILITY_VERSION_3 = 0x20080522


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    if settings.get("supervise"):
        _become_child_of_a_supervisor()
    _use_site_folders(settings["site"])
    _limit(settings["limits"])
    os.chdir(settings["data"])
    if "read" in settings:
        _landlock(settings)
    if settings.get("drop_capabilities"):
        _drop_capabilities()
    if "filter" in settings:
        _seccomp(bytes.fromhex(settings["filter"]))
    if "command" in settings:
        os.execv(settings["command"][0], settings["command"])
    if settings["describe"]:
        _describe()
    else:
        _run_kernel(settings)


# -- the supervisor: outside the confinement, ends everything when the program that started it ends --------------------


def _become_child_of_a_supervisor() -> None:
    """Fork. The parent stays outside and watches; only the child returns."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    parent, lifeline = os.getpid(), 0
    child = os.fork()
    if child:
        status = _wait_for(child, lifeline)
        _report(lifeline)
        _kill_all(child)
        os._exit(status)  # noqa: TID251 - a process of its own
    os.setsid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # noqa: TID251
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, lifeline)
    os.close(nothing)


def _wait_for(child: int, lifeline: int) -> int:
    """Wait for the child's or the lifeline's end, and reap orphans. The child's exit status, as a shell has it."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [], 1.0)
        if lifeline in ready and not os.read(lifeline, 1):
            return 128 + signal.SIGKILL
        if woken in ready:
            os.read(woken, 4096)
        for pid, status in _reaped():
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


def _reaped() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _report(lifeline: int) -> None:
    """Name what is still running to the program that started us, if it reads that."""
    for pid in _descendants(os.getpid()) or ():
        with contextlib.suppress(OSError):
            os.write(lifeline, (Path("/proc") / str(pid) / "stat").read_bytes())


def _kill_all(child: int) -> None:
    """Stop, then kill every descendant; repeat until none is left, since a fork bomb outruns a single pass."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        found = _descendants(os.getpid())
        if found is None:  # no /proc: the process group is all there is
            _send(-child, signal.SIGKILL)
            return
        if not found:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                _send(pid, number)
        list(_reaped())


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it ended meanwhile
        os.kill(pid, number)


def _descendants(root: int) -> list[int] | None:
    """The process ids; None if there is no /proc."""
    parents: dict[int, int] = {}
    if not Path("/proc/self").exists():
        return None
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += frontier
    return found


# -- the confinement ---------------------------------------------------------------------------------------------------


def _use_site_folders(folders: list[str]) -> None:
    """Add the folders left out by -I; remove those added by a .pth file, such as a project's folder."""
    inside = (sys.prefix, sys.base_prefix, sys.base_exec_prefix)
    known = [path for path in sys.path if any(path.startswith(prefix) for prefix in inside)]
    inherited = [path for path in known if "site-packages" in path or "dist-packages" in path or _is_stdlib(path)]
    sys.path[:] = [*inherited, *(folder for folder in folders if folder not in inherited)]


def _is_stdlib(path: str) -> bool:
    return path.endswith((".zip", "lib-dynload", "DLLs")) or Path(os.__file__).parent == Path(path)


def _limit(limits: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text("1000")
    import resource

    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name)
        _, hard = resource.getrlimit(number)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))


def _landlock(settings: dict[str, Any]) -> None:
    from landlockpy import AccessFS, AccessNet, Ruleset, Scope, fs_for_abi
    from landlockpy.flags import LATEST_ABI

    everything = fs_for_abi(LATEST_ABI) & ~(AccessFS.MAKE_CHAR | AccessFS.MAKE_BLOCK)
    read = AccessFS.EXECUTE | AccessFS.READ_FILE | AccessFS.READ_DIR
    write_file = AccessFS.READ_FILE | AccessFS.WRITE_FILE | AccessFS.TRUNCATE
    rules = [(path, read) for path in (*settings["read"], f"/proc/{os.getpid()}")]
    rules += [(path, write_file) for path in settings["write_files"]]
    rules += [(path, everything) for path in settings["write"]]
    rules += [(path, AccessFS.READ_DIR) for path in settings.get("list", ())]  # names only, at every depth
    net = AccessNet.NONE if settings.get("network") else None  # None: all of it is handled, and so refused
    with Ruleset(handled_net=net, scoped=Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL) as ruleset:
        for path, access in rules:
            if Path(path).is_dir():
                ruleset.allow_path(path, access)
            elif Path(path).exists():
                ruleset.allow_path(path, access & ~AccessFS.READ_DIR & (read | write_file))
        ruleset.restrict()


def _drop_capabilities() -> None:
    """Without its capabilities, root is bound by Landlock and file modes like any user."""
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for number in range(64):
        _prctl(PR_CAPBSET_DROP, number)  # without effect unless root
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _seccomp(program: bytes) -> None:
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program))) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter was refused")


def _prctl(option: int, *arguments: object) -> int:
    if sys.platform != "linux":
        return 0
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in (*arguments, 0, 0, 0, 0)][:4]
    return int(ctypes.CDLL(None, use_errno=True).prctl(option, *words))


# -- the kernel --------------------------------------------------------------------------------------------------------


def _describe() -> None:
    """Print where this Python has the kernel's packages, the suffix of its compiled modules, and all packages."""
    found = [importlib.util.find_spec(name) for name in ("ipykernel", "zmq", "tornado", "traitlets", "IPython")]
    origins = [Path(spec.origin).parent for spec in found if spec is not None and spec.origin]
    site = dict.fromkeys(str(origin.parent) for origin in origins) if found[0] else ()
    facts = {"site": [*site], "suffix": EXTENSION_SUFFIXES[0], "packages": packages()}
    sys.stdout.write(f"\n{json.dumps(facts)}\n")


def packages(folders: list[str] | None = None) -> list[list[Any]]:
    """Each package that is installed in some folders (None: importable): its name, version, and if others need it."""
    from importlib.metadata import distributions  # slow, and the start of a command needs none of it

    found, needed = {}, set()
    for one in distributions(path=sys.path if folders is None else folders):
        if name := one.metadata["Name"]:
            found[_plain(name)] = [name, one.version]
            needed |= {_plain(re.split(r"[^\w.-]", line)[0]) for line in one.requires or () if "extra ==" not in line}
    return [[*found[key], key in needed] for key in sorted(found)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run_kernel(settings: dict[str, Any]) -> None:
    spec = importlib.util.spec_from_file_location("_kernel_inside", Path(__file__).with_name("_kernel_inside.py"))
    assert spec is not None and spec.loader is not None
    inside = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(inside)
    inside.run(settings["connection"], terminals=_has_terminals())


def _has_terminals() -> bool:
    try:
        for end in os.openpty():
            os.close(end)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
