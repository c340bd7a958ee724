"""Memory that a process tree uses outside its processes: socket buffers, files in memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

_INODE_BYTES = 1024
"""What an empty file in memory takes, name included: 300,000 took 298 MB (Linux 6.18)."""
_SOCKET_BUFFER_BYTES = 212_992
"""Linux's own `SK_WMEM_MAX`, where /proc/sys/net/core can't be read."""
_COARSE_BYTES = 2 << 30
"""The machine's figures vary with whatever else it does: a smaller change means nothing."""
_LOOKS = 3


def beside_processes(tree: Sequence[Path], enough_bytes: int) -> int:
    """An upper bound of what a process tree (folders of /proc) uses beside its processes' own memory.

    Each socket counts with all that its buffers can hold (`_seccomp` keeps them at the system's size), each file in
    memory with its content. Stops counting at `enough_bytes`. A socket on its way from one process to another is open
    in neither; it is counted only if the tree has a network namespace of its own.
    """
    own_files, own_network = _namespace("mnt", Path("/proc/self")), _namespace("net", Path("/proc/self"))
    inside = next((process for process in tree if _namespace("mnt", process) not in ("", own_files)), None)
    files = _files_in_memory(inside) if inside else 0
    apart = inside is not None and _namespace("net", inside) not in ("", own_network)
    sockets = _sockets_of_network(inside) if inside and apart else _sockets_open(tree, enough_bytes - files)
    return files + sockets * socket_bytes()


@cache
def socket_bytes() -> int:
    """What one socket can hold: a sender may exceed its buffer by one message of the buffer's size."""
    sizes = [_SOCKET_BUFFER_BYTES]
    for name in ("wmem_default", "rmem_default"):
        with suppress(OSError, ValueError):
            sizes.append(int(Path("/proc/sys/net/core", name).read_text()))
    return 2 * max(sizes)


def _namespace(kind: str, process: Path) -> str:
    """Its name, "" where it can't be read."""
    try:
        return str((process / "ns" / kind).readlink())
    except OSError:
        return ""


def _files_in_memory(process: Path) -> int:
    """The bytes of the tmpfs files that this process sees and we don't, with a constant for each file."""
    ours, total = {device for device, _ in _in_memory(Path("/proc/self"))}, 0
    for device, place in _in_memory(process):
        if device not in ours:
            ours.add(device)
            with suppress(OSError), _opened(f"{process}/root{place}") as place_fd:  # it ended meanwhile
                if not _is_on(place_fd, device):
                    continue  # the sandbox is still mounting: this name stands for another disk now, or for none yet
                disk = os.statvfs(place_fd)
                total += (disk.f_blocks - disk.f_bfree) * disk.f_frsize + (disk.f_files - disk.f_ffree) * _INODE_BYTES
    return total


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Only to ask about it: nothing is read, and a FIFO or a device stays as it is."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_on(descriptor: int, device: str) -> bool:
    """Is it on this device, as mountinfo writes it? `"0:42"`"""
    found = os.fstat(descriptor).st_dev
    return device == f"{os.major(found)}:{os.minor(found)}"


def _in_memory(process: Path) -> Iterator[tuple[str, str]]:
    """Device and mount point of each tmpfs that a process has mounted (proc(5), mountinfo)."""
    with suppress(OSError):
        for line in (process / "mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            if after.startswith("tmpfs "):
                fields = before.split()
                yield fields[2], fields[4].encode().decode("unicode_escape")


def _sockets_of_network(process: Path) -> int:
    """All sockets of a process's network namespace, including those on their way between two processes."""
    try:
        return int((process / "net/sockstat").read_text().split()[2])
    except (OSError, ValueError, IndexError):
        return 0


def _sockets_open(tree: Sequence[Path], enough_bytes: int) -> int:
    """How many sockets processes hold open; 0 if the number of open files alone, cheap to get, is small enough."""
    most = enough_bytes // socket_bytes()
    if sum(map(_open_files, tree)) <= most:
        return 0
    found: set[int] = set()
    for process in tree:
        with suppress(OSError), os.scandir(process / "fd") as descriptors:  # it ended meanwhile
            for descriptor in descriptors:
                with suppress(OSError):
                    status = descriptor.stat()
                    if stat.S_ISSOCK(status.st_mode):
                        found.add(status.st_ino)
        if len(found) > most:
            break
    return len(found)


def _open_files(process: Path) -> int:
    """How many files a process has open: since Linux 6.2 the folder's size. Before that, or if unreadable, 0."""
    try:
        return (process / "fd").stat().st_size
    except OSError:
        return 0


class Fall:
    """How far the machine's available memory has fallen, beyond what its programs' own memory explains.

    The rest is what the system keeps (page tables, buffers, locks) and files in memory. It can't be assigned to
    anybody, so it counts only when three looks in a row show it, and only above `least_bytes`.
    """

    def __init__(self, least_bytes: int = _COARSE_BYTES) -> None:
        self._before, self._looks, self._least_bytes = _without_owner(), 0, least_bytes

    def rebase(self) -> None:
        """Start over from now: what is in use already doesn't count."""
        self._before, self._looks = _without_owner(), 0

    def breach(self, limit_bytes: int) -> str:
        """Take a look. Returns a reason for the model if this look and the two before were over the limit, else ""."""
        limit = max(limit_bytes, self._least_bytes)
        self._looks = self._looks + 1 if _without_owner() - self._before > limit else 0
        return f"took more than {limit / (1 << 30):.1f} GB of the machine's memory" if self._looks >= _LOOKS else ""


def _without_owner() -> int:
    try:
        return without_owner(Path("/proc/meminfo").read_text()) - _zfs_cache_bytes()
    except OSError:  # not Linux
        return 0


def without_owner(meminfo: str) -> int:
    """Bytes in use that are neither programs' own memory nor a cache of disk files, from the text of /proc/meminfo.

    Swapped-out memory of programs counts as theirs, since zram keeps it in memory. 0 if a figure is missing.
    """
    rows = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    try:
        kib = {name: int(value.split()[0]) for name, value in rows.items()}
        used = kib["MemTotal"] - kib["MemAvailable"]
        return 1024 * (used - kib["AnonPages"] - kib["SwapTotal"] + kib["SwapFree"])
    except (ValueError, KeyError, IndexError):  # an odd container
        return 0


def _zfs_cache_bytes() -> int:
    """ZFS's file cache, which the system doesn't count as available."""
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/spl/kstat/zfs/arcstats").read_text()
        return int(text.partition("\nsize ")[2].split()[1])
    return 0
