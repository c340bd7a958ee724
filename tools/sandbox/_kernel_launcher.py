"""Confines itself, then becomes a command; or becomes a kernel. Runs alone: `python -I _kernel_launcher.py SETTINGS`.

It is copied into a folder that the model's code can't write to, since it starts unconfined, by ossia's own Python. A
kernel's Python is started confined, and runs it once more. It imports nothing from this project, and little else:
of the 45 ms of a command's start, `pathlib` and `typing` took 10.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 22, 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 47, 4, 2
CAPABILITY_VERSION_3 = 0x20080522

# linux/landlock.h: numbers of its system calls, the same on all machines, and rights
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, TRUNCATE = 1 << 6, 1 << 11, 1 << 14
_OF_FILES = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
_FILE_RIGHTS = (13, 14, 15, 15, 16, 16, 16, 16, 17)
"""The number of rights in each version: with 2 came REFER, with 3 TRUNCATE, with 5 ioctl, with 9 sockets."""


def main() -> None:
    settings = json.loads(_read(sys.argv[1]))
    if settings.get("supervise"):
        _become_child_of_a_supervisor()
    if "site" in settings:
        _use_site_folders(settings["site"])
    _limit(settings["limits"])
    os.chdir(settings["data"])
    if "read" in settings:
        _landlock(settings)
    if settings.get("drop_capabilities"):
        _drop_capabilities()
    if "filter" in settings:
        seccomp(bytes.fromhex(settings["filter"]))
    if "command" in settings:
        os.execv(settings["command"][0], settings["command"])
    if settings["describe"]:
        _describe()
    elif _is_orphan():
        os._exit(1)  # noqa: TID251
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
            os.write(lifeline, _read(f"/proc/{pid}/stat"))


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
    if not os.path.exists("/proc/self"):
        return None
    with contextlib.suppress(ChildProcessError):  # without children there are no others: orphans become children
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it ended meanwhile
                parents[int(name)] = int(_read(f"/proc/{name}/stat").rpartition(b")")[2].split()[1])
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


# -- the confinement ---------------------------------------------------------------------------------------------------


def _use_site_folders(folders: list[str]) -> None:
    """Add the folders left out by -I; remove those added by a .pth file, such as a project's folder."""
    inside = (sys.prefix, sys.base_prefix, sys.base_exec_prefix)
    known = [path for path in sys.path if any(path.startswith(prefix) for prefix in inside)]
    inherited = [path for path in known if "site-packages" in path or "dist-packages" in path or _is_stdlib(path)]
    sys.path[:] = [*inherited, *(folder for folder in folders if folder not in inherited)]


def _is_stdlib(path: str) -> bool:
    return path.endswith((".zip", "lib-dynload", "DLLs")) or os.path.dirname(os.__file__) == os.path.normpath(path)


def _limit(limits: dict[str, int]) -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # not Linux
        file.write("1000")
    import resource

    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name)
        _, hard = resource.getrlimit(number)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))


def _landlock(settings: dict[str, Any]) -> None:
    everything = ~(MAKE_CHAR | MAKE_BLOCK)
    write_file = READ_FILE | WRITE_FILE | TRUNCATE
    rules = [(path, EXECUTE | READ_FILE | READ_DIR) for path in (*settings["read"], f"/proc/{os.getpid()}")]
    rules += [(path, write_file) for path in settings["write_files"]]
    rules += [(path, everything) for path in settings["write"]]
    rules += [(path, READ_DIR) for path in settings.get("list", ())]  # names only, at every depth
    landlock(rules, network=settings.get("network", False))


def landlock_abi() -> int:
    """Landlock's version in this kernel, 0 without it."""
    return 0 if sys.platform != "linux" else max(0, _libc().syscall(_CREATE_RULESET, None, _word(0), _word(1)))


def landlock(rules: Iterable[tuple[str, int]], *, network: bool = False) -> None:
    """Refuse this process all files but by the rules: paths, and the rights below each. Raises OSError.

    A path that doesn't exist is left out. It sends no signals out of itself, and without `network` nothing by TCP.
    """
    abi = landlock_abi()
    handled = (1 << _FILE_RIGHTS[min(abi, len(_FILE_RIGHTS)) - 1]) - 1
    tcp = 0 if network or abi < 4 else 0b11 if abi < 10 else 0b1111  # bind, connect; of UDP bind, connect or send, too
    ruleset = _call(_CREATE_RULESET, struct.pack("=QQQ", handled, tcp, 0b11 if abi >= 6 else 0), _word(24), _word(0))
    for path, rights in rules:
        try:
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights &= handled if stat.S_ISDIR(os.fstat(file).st_mode) else handled & _OF_FILES
        if rights:
            _call(_ADD_RULE, _word(ruleset), _word(1), struct.pack("=Qi", rights, file), _word(0))
        os.close(file)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _call(_RESTRICT_SELF, _word(ruleset), _word(0))
    os.close(ruleset)


def _drop_capabilities() -> None:
    """Without its capabilities, root is bound by Landlock and file modes like any user."""
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for number in range(64):
        _prctl(PR_CAPBSET_DROP, number)  # without effect unless root
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if _libc().capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def seccomp(program: bytes) -> None:
    """Filter this process's system calls. Raises OSError where the kernel has no seccomp."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if _prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program))) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter was refused")


def _prctl(option: int, *arguments: object) -> int:
    if sys.platform != "linux":
        return 0
    words = [_word(word) if isinstance(word, int) else word for word in (*arguments, 0, 0, 0, 0)][:4]
    return int(_libc().prctl(option, *words))


def _call(number: int, *arguments: object) -> int:
    """A system call's result. Raises OSError."""
    if (result := int(_libc().syscall(number, *arguments))) < 0:
        raise OSError(ctypes.get_errno(), f"system call {number} was refused")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


_word = ctypes.c_ulong


# -- the kernel --------------------------------------------------------------------------------------------------------


def _describe() -> None:
    """Print where this Python has the kernel's packages, the suffix of its compiled modules, and all packages."""
    import importlib.util
    from importlib.machinery import EXTENSION_SUFFIXES

    found = [importlib.util.find_spec(name) for name in ("ipykernel", "zmq", "tornado", "traitlets", "IPython")]
    origins = [os.path.dirname(spec.origin) for spec in found if spec is not None and spec.origin]
    site = dict.fromkeys(map(os.path.dirname, origins)) if found[0] else ()
    facts = {"site": [*site], "suffix": EXTENSION_SUFFIXES[0], "packages": packages()}
    sys.stdout.write(f"\n{json.dumps(facts)}\n")


def packages(folders: list[str] | None = None) -> list[list[Any]]:
    """Each package that is installed in some folders (None: importable): its name, version, and if others need it."""
    import re
    from importlib.metadata import distributions

    found, needed = {}, set()
    for one in distributions(path=sys.path if folders is None else folders):
        if name := one.metadata["Name"]:
            found[_plain(name)] = [name, one.version]
            needed |= {_plain(re.split(r"[^\w.-]", line)[0]) for line in one.requires or () if "extra ==" not in line}
    return [[*found[key], key in needed] for key in sorted(found)]


def _plain(name: str) -> str:
    import re

    return re.sub(r"[-_.]+", "-", name).lower()


def _is_orphan() -> bool:
    """True if nobody reads stderr any more. bwrap dies with the program that started it only from its own start on."""
    poll = select.poll()
    poll.register(2, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _run_kernel(settings: dict[str, Any]) -> None:
    import importlib.util

    file = os.path.join(os.path.dirname(__file__), "_kernel_inside.py")
    spec = importlib.util.spec_from_file_location("_kernel_inside", file)
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
