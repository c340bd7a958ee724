"""The account of each way to confine: what it holds back, and what it doesn't, for python and for shell commands.

`ossia run --verbose` shows it. The tables of gaps in docs/confinement.md are made from it (`python -m tests.readme`).
"""

from __future__ import annotations

import os

from ossia.tools.sandbox.job import Runs

_SIGNALS_ABI = 6
"""The first Landlock version to confine signals (Linux 6.12)."""
_RARER_CALLS = "system calls: the rarer ones are refused (ptrace, mounts, bpf, io_uring, namespaces)"
_COMMANDS_ENVIRONMENT = (
    "environment: PATH with the visible ones of your folders; LANG, HOME, TERM and the like; where toolchains are; no "
    "other variable of yours"
)
_IF_GIVEN = "with network, which you may give it: TCP, UDP and DNS, never Unix sockets"
_COMMANDS_WRITE = "files: can write to the workspace, except .git, .ossia and ossia itself, and to a temporary home"

CONFINES: dict[tuple[str, Runs], tuple[str, ...]] = {
    ("bwrap", "python"): (
        "files: can read the system's programs and this Python; can write to /mnt/data and an in-memory /tmp; no home",
        "network: none, not even this machine's own services or their sockets",
        "processes: sees and signals only its own; all of them end with the kernel",
        _RARER_CALLS,
    ),
    ("bwrap", "shell"): (
        "files: can write to the workspace, except .git, .ossia and ossia itself; /tmp and home are in memory",
        "files: can read the system and the toolchains in your home; the rest of homes, /run, /var, /mnt, /media, keys "
        "and passwords in /etc appear empty",
        f"network: none, not even this machine's own services; {_IF_GIVEN}",
        "processes: sees and signals only its own; all of them end with the call, background ones too",
        _COMMANDS_ENVIRONMENT,
        _RARER_CALLS,
    ),
    ("landlock", "python"): (
        "files: can read the system's programs and this Python; can write to its data folder and a temporary one",
        "network: only its own sockets; connecting is refused, to Unix sockets too",
        "processes: can't read, trace or signal yours; its own end with the kernel",
        _RARER_CALLS,
    ),
    ("landlock", "shell"): (
        _COMMANDS_WRITE,
        "files: can read the system's programs and settings, and toolchains in your home; nothing else of homes, no "
        "keys or passwords",
        f"network: only its own sockets; connecting is refused, to Unix sockets too; {_IF_GIVEN}",
        "processes: can't read, trace or signal yours; its own end with the call",
        _COMMANDS_ENVIRONMENT,
        _RARER_CALLS,
    ),
    ("seatbelt", "python"): (
        "files: can read the system's programs and this Python; can write to its data folder and a temporary one",
        "network: only its own sockets in its own folder",
        "processes: signals only its own",
    ),
    ("seatbelt", "shell"): (
        _COMMANDS_WRITE,
        "files: can read the system's programs and the toolchains in your home; nothing else of homes",
        f"network: none; {_IF_GIVEN}",
        "processes: signals only its own",
        _COMMANDS_ENVIRONMENT,
    ),
}

_PATHS_CAN_BE_SEEN = "files: whether a path exists, its size and its times are visible (its content isn't)"
_GITS_FOLDER = (
    "files: git in a linked worktree, a submodule or a subfolder of a repository can read that repository, with all "
    "its history, but without settings that may hold secrets"
)
_TOOLCHAINS = (
    "files: all that lies in the folders of your toolchains can be read, but for files that ossia knows to hold "
    "credentials"
)
_NETWORK = (
    "network: a command that you give it can send whatever it can read, and reaches this machine's own services, too"
)
_MODES = "files: changing modes, owners and times has no effect but reports success"
_NUMBERS = "processes: whether a process ID is in use is visible, nothing more"
_MACHINE = "the machine's name, uptime, mounts, ports and sockets in use, and where links point, are visible"
_ABSTRACT = "network: a name in the abstract socket namespace can be claimed"
_NOT_CHECKED = "this profile isn't tested in the project's checks"
_NAMES = "files: names and times of files are visible"
_DEPRECATED = "sandbox-exec is deprecated by Apple and has no replacement"

_GAPS: dict[tuple[str, Runs], tuple[str, ...]] = {
    ("bwrap", "shell"): (
        "files: the rest of the system can be read, including whatever lies outside the folders named above",
        _TOOLCHAINS,
        _GITS_FOLDER,
        _NETWORK,
        "sockets of other programs that lie in the workspace or in an unusual place can be reached without network",
    ),
    ("landlock", "python"): (
        _PATHS_CAN_BE_SEEN,
        "files: there is no /mnt/data; `/mnt/data` in code and output is replaced by the real path, and back",
        _MODES,
        _NUMBERS,
        "processes: those that fork and exit faster than they can be counted may outlive the kernel",
        _MACHINE,
        _ABSTRACT,
        "no terminals or shared memory: `pty` and the locks of `multiprocessing` don't work",
    ),
    ("landlock", "shell"): (
        "files: nothing can be created, renamed or deleted directly in a folder on the way to the workspace's .git, "
        ".ossia or ossia itself",
        "files: the .git of a nested repository can be changed; its settings and hooks are restored",
        _TOOLCHAINS,
        _GITS_FOLDER,
        _NETWORK,
        "files: a toolchain's folder with credentials in it can't be listed, only what else is in it be read",
        _PATHS_CAN_BE_SEEN,
        _MODES,
        _NUMBERS,
        "processes: those that fork and exit faster than they can be counted may outlive the call",
        _MACHINE,
        _ABSTRACT,
    ),
    ("seatbelt", "python"): (
        _NOT_CHECKED,
        "files: there is no /mnt/data; `/mnt/data` in code and output is replaced by the real path, and back",
        _NAMES,
        "processes: one that leaves the kernel's process group outlives it",
        "memory: checked four times a second; macOS doesn't enforce a limit per process",
        _DEPRECATED,
    ),
    ("seatbelt", "shell"): (
        _NOT_CHECKED,
        _TOOLCHAINS,
        _NETWORK,
        _NAMES,
        "processes: one that leaves the command's process group outlives it",
        "memory: checked four times a second",
        _DEPRECATED,
    ),
    ("unconfined", "python"): ("everything: the model's code can read, change, send and delete whatever you can",),
    ("unconfined", "shell"): ("everything: the model's commands can read, change, send and delete whatever you can",),
}


def gaps(name: str, runs: Runs, *, abi: int = _SIGNALS_ABI) -> tuple[str, ...]:
    """The gaps of a way to confine on this machine, a line each. `abi`: Landlock's version."""
    if name not in ("bwrap", "landlock"):
        return _GAPS.get((name, runs), ())
    return gaps_on_linux(name, runs, abi=abi, memory_is_held=_memory_is_held(), as_root=os.geteuid() == 0)


def gaps_on_linux(name: str, runs: Runs, *, abi: int, memory_is_held: str, as_root: bool) -> tuple[str, ...]:
    """The same for any Linux; docs/confinement.md shows it and explains more."""
    time = "processor time: limited only by a call's time limit"
    of_both: tuple[str, ...]
    if runs == "python":
        of_both = (
            time,
            f"memory: 4 GiB per process at once, 4 GiB in all {memory_is_held}",
            "disk space: checked four times a second; deleted files that are still open aren't counted (1 GiB of the "
            "disk stays free)",
        )
    else:
        of_both = (
            "files: what it writes in the workspace may run later (Makefile, scripts, hooks of a new repository): look "
            "at it first",
            "files: one outside that is hard-linked to one in the workspace can be read and changed",
            time,
            f"memory: 4 GiB in all {memory_is_held}",
            "disk space: checked four times a second, 4 GiB in all",
        )
    lines = [*_GAPS.get((name, runs), ()), *of_both, "bugs in the Linux kernel itself"]
    if as_root:
        lines.append("processes: as root, their number is only checked four times a second")
    if name == "landlock" and abi < _SIGNALS_ABI:
        lines.append(f"processes: yours can be signalled (Landlock ABI {abi}; Linux 6.12 closes this)")
    return tuple(lines)


def has_control_groups() -> bool:
    """True where Linux itself limits the memory of a call with all its processes."""
    from ossia.tools.sandbox import _cgroup

    return _cgroup.found() is not None


def _memory_is_held() -> str:
    """The enforcement of the limit on total memory on this machine, in words."""
    if has_control_groups():
        return "by a control group"
    return (
        "checked four times a second; sockets, pipes and files in memory aren't counted, a call ends when the machine "
        "has too little left (no control group is available)"
    )
