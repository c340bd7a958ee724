"""A seccomp filter for the model's code, as classic BPF, without libseccomp.

Two strengths. Under bubblewrap the namespaces do most of the work, and the filter closes what they leave open. Under
Landlock it also covers what Landlock can't: sockets, signals by way of other calls, file attributes.
The numbers are from Linux's own tables (`arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi/asm-generic/unistd.h`).
aarch64 is written from the table and has not been run.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import Literal

Strength = Literal["bwrap", "landlock"]

_LOAD, _AND, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

# name: (x86_64, aarch64); 0: that machine has no such call
_ALWAYS_REFUSED: dict[str, tuple[int, int]] = {
    # other processes, the kernel's keys and hooks
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "fanotify_init": (300, 262), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268),
    "unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    # the machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "personality": (135, 92), "syslog": (103, 116),
    "vhangup": (153, 58), "iopl": (172, 0), "ioperm": (173, 0), "settimeofday": (164, 170), "clock_settime": (227, 112),
    # memory that belongs to no process, so that no limit of a process holds it
    "memfd_secret": (447, 447), "shmget": (29, 194),
}  # fmt: skip
_ALWAYS_MISSING: dict[str, tuple[int, int]] = {  # ENOSYS: callers fall back to one whose arguments a filter can see
    "clone3": (435, 435), "openat2": (437, 437), "memfd_create": (319, 279), "fchmodat2": (452, 452),
}  # fmt: skip
_LANDLOCK_REFUSED: dict[str, tuple[int, int]] = {
    "connect": (42, 203),  # the one way to sockets that have a path: docker.sock, an ssh agent, D-Bus
    "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191), "msgget": (68, 186),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "inotify_add_watch": (254, 27), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}  # fmt: skip
_LANDLOCK_UNSUPPORTED: dict[str, tuple[int, int]] = {
    # Those of any file could be read (where a download came from); shutil.copy2() accepts ENOTSUP
    "getxattr": (191, 8), "lgetxattr": (192, 9), "listxattr": (194, 11), "llistxattr": (195, 12),
    "getxattrat": (464, 464), "listxattrat": (465, 465),
}  # fmt: skip
_LANDLOCK_PRETENDED: dict[str, tuple[int, int]] = {
    # Landlock doesn't restrict these, so they are made to do nothing and return 0: shutil.copy() still works
    "chmod": (90, 0), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, 0), "fchown": (93, 55),
    "lchown": (94, 0), "fchownat": (260, 54), "utime": (132, 0), "utimes": (235, 0), "futimesat": (261, 0),
    "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    # these could slow down any of the user's processes; libzmq aborts if they fail for its own threads
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
}  # fmt: skip
_LANDLOCK_OWN_ONLY = {"prlimit64": (302, 261)}  # the first argument must be 0: the caller itself

_MODES = {"chmod": (90, 0, 1), "fchmod": (91, 52, 1), "fchmodat": (268, 53, 2), "creat": (85, 0, 1),
          "mknod": (133, 0, 1), "mknodat": (259, 33, 2)}  # fmt: skip
"""name: (x86_64, aarch64, position of the mode)."""
_OPENS = {"open": (2, 0, 1), "openat": (257, 56, 2)}
"""name: (x86_64, aarch64, position of the flags; the mode is next)."""
_O_CREAT_OR_TMPFILE = 0x40 | 0x400000
_SETID_BITS = 0o6000
_SOCKET, _SOCKETPAIR, _SENDTO = (41, 198), (53, 199), (44, 206)
_SETSOCKOPT, _SOL_SOCKET = (54, 208), 1
_BUFFER_SIZES = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and both _FORCE: with up to 8 MB a socket, a flood would be faster than the watcher. Setting
them does nothing and reports success."""
_KIND = 0xF
"""Of a socket's type: the rest are flags."""
_CLONE, _NEW_NAMESPACES = (56, 220), 0x7E020000
_IOCTL, _TERMINAL_INJECTION = (16, 29), (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40806685)
"""FS_IOC_SETFLAGS, its 32-bit form, FSSETXATTR, SETVERSION, ENABLE_VERITY: an open that only reads is enough."""
_UNIX, _INET, _NETLINK, _INET6, _DGRAMS = 1, 2, 16, 10, (2, 3)
"""Of Unix sockets those of SOCK_RAW are datagram sockets, too."""
_FAMILIES: dict[Strength, tuple[int, ...]] = {"bwrap": (_UNIX, _INET, _INET6, _NETLINK), "landlock": (_UNIX,)}
_STREAM_OR_DGRAM, _TCP_OR_UDP = (1, 2), (0, 6, 17)
"""0: the one that goes with the kind of socket. Go asks for MPTCP, and takes TCP if that is refused."""


def build(strength: Strength, machine: str | None = None, *, unix: bool = True, network: bool = False) -> bytes:
    """The filter as an array of `struct sock_filter` (8 bytes each), for `bwrap --seccomp` or `PR_SET_SECCOMP`.

    Raises `ValueError` for a machine whose numbers aren't known. `machine` as in `platform.machine()`. `unix`: whether
    Unix sockets can be made. Without them, pairs of connected ones can, as no other program can be reached by these.
    `network`: sockets of TCP and UDP can be made, and no others: the machine's own would be within reach.
    """
    unix = unix and not network
    machine = machine or platform.machine()
    if machine not in _AUDIT_ARCH:
        raise ValueError(f"no seccomp filter for {machine!r}: known are {', '.join(_AUDIT_ARCH)}")
    column = list(_AUDIT_ARCH).index(machine)
    program = [_op(_LOAD, 4), _op(_JEQ, _AUDIT_ARCH[machine], 1, 0), _op(_RET, _KILL), _op(_LOAD, 0)]
    if machine == "x86_64":
        program += [_op(_JGE, _X32_BIT, 0, 1), _error(errno.EPERM)]
    for numbers in _ALWAYS_REFUSED.values():
        program += _answer(numbers[column], errno.EPERM)
    for numbers in _ALWAYS_MISSING.values():
        program += _answer(numbers[column], errno.ENOSYS)
    if strength == "landlock":
        program += _landlock_rules(column, network=network)
    for *modes, argument in _MODES.values():
        program += _on(modes[column], [_load(argument), _op(_JSET, _SETID_BITS, 0, 1), _error(errno.EPERM)])
    for *opens, argument in _OPENS.values():
        program += _on(opens[column], [_load(argument), _op(_JSET, _O_CREAT_OR_TMPFILE, 0, 3), _load(argument + 1),
                                         _op(_JSET, _SETID_BITS, 0, 1), _error(errno.EPERM)])  # fmt: skip
    program += _on(_CLONE[column], [_load(0), _op(_JSET, _NEW_NAMESPACES, 0, 1), _error(errno.EPERM)])
    ioctls = (*_TERMINAL_INJECTION, *(_FILE_FLAGS if strength == "landlock" else ()))
    program += _on(_IOCTL[column], [_load(1), *(op for code in ioctls
                                                for op in (_op(_JEQ, code, 0, 1), _error(errno.EPERM)))])  # fmt: skip
    sizes = [op for size in _BUFFER_SIZES for op in (_op(_JEQ, size, 0, 1), _error(0))]
    program += _on(_SETSOCKOPT[column], [_load(1), _op(_JEQ, _SOL_SOCKET, 0, len(sizes) + 1), _load(2), *sizes])
    if not unix:
        program += _on(_SOCKETPAIR[column], _refuse_datagrams())
    if network:
        program += _on(_SOCKET[column], [*_only(0, (_INET, _INET6), errno.EAFNOSUPPORT),
                                         *_only(1, _STREAM_OR_DGRAM, errno.EPROTONOSUPPORT, mask=_KIND),
                                         *_only(2, _TCP_OR_UDP, errno.EPROTONOSUPPORT)])  # fmt: skip
    else:
        families = tuple(one for one in _FAMILIES[strength] if unix or one != _UNIX)
        program += _on(_SOCKET[column], _only(0, families, errno.EAFNOSUPPORT))
    return b"".join([*program, _op(_RET, _ALLOW)])


def _landlock_rules(column: int, *, network: bool) -> list[bytes]:
    rules: list[bytes] = []
    for name, numbers in _LANDLOCK_REFUSED.items():
        if not (network and name == "connect"):
            rules += _answer(numbers[column], errno.EPERM)
    for numbers in _LANDLOCK_UNSUPPORTED.values():
        rules += _answer(numbers[column], errno.ENOTSUP)
    for numbers in _LANDLOCK_PRETENDED.values():
        rules += _answer(numbers[column], 0)
    for numbers in _LANDLOCK_OWN_ONLY.values():
        rules += _on(numbers[column], [_load(0), _op(_JEQ, 0, 1, 0), _error(errno.EPERM)])
    if not network:
        rules += _on(_SOCKET[column], _refuse_datagrams()) + _on(_SOCKETPAIR[column], _refuse_datagrams())
        rules += _on(_SENDTO[column], [_load(4), _op(_JEQ, 0, 1, 0), _error(errno.EPERM)])
    return rules


def _refuse_datagrams() -> list[bytes]:
    """A datagram socket reaches a path without connect(), and a filter can't see the address of sendmsg()."""
    tests = [op for kind in _DGRAMS for op in (_op(_JEQ, kind, 0, 1), _error(errno.EPERM))]
    return [_load(1), _op(_AND, _KIND), *tests]


def _op(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, k)


def _load(argument: int) -> bytes:
    """The low 32 bits of a call's argument (both machines are little-endian)."""
    return _op(_LOAD, 16 + 8 * argument)


def _error(number: int) -> bytes:
    return _op(_RET, _ERRNO | number)


def _answer(number: int, error: int) -> list[bytes]:
    return [_op(_JEQ, number, 0, 1), _error(error)] if number else []


def _on(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` for one call; if it falls through, the call's number is loaded again and the next rule follows."""
    return [_op(_JEQ, number, 0, len(body) + 1), *body, _op(_LOAD, 0)] if number else []


def _only(argument: int, allowed: tuple[int, ...], error: int, *, mask: int = 0xFFFFFFFF) -> list[bytes]:
    tests = [_op(_JEQ, value, len(allowed) - i, 0) for i, value in enumerate(allowed)]
    return [_load(argument), _op(_AND, mask), *tests, _error(error)]
