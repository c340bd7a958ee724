"""Memory that a tree of processes takes without being in any of them: buffers of sockets, files in memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

_INODE_BYTES = 1024
"""A file in memory without content: 300,000 took 298 MB (Linux 6.18), its name included."""
_SOCKET_BUFFER_BYTES = 212_992
"""Linux's own `SK_WMEM_MAX`, where /proc/sys/net/core can't be read."""
_COARSE_BYTES = 2 << 30
"""The machine's figures go up and down with whatever else it does: less is no sign of anything."""
_LOOKS = 3


def beside_processes(tree: Sequence[Path], enough_bytes: int) -> int:
    """An upper bound of what a tree of processes (folders of /proc) takes beside its own memory.

    Each socket counts with all that its buffers can hold (`_seccomp` keeps them at the system's size), a file in memory
    with its content. Counts no further than `enough_bytes`. What is in no tree's reach, a socket that is on its way
    from one process to another, is counted where the tree has a network of its own.
    """
    own_files, own_network = _namespace("mnt", Path("/proc/self")), _namespace("net", Path("/proc/self"))
    inside = next((process for process in tree if _namespace("mnt", process) not in ("", own_files)), None)
    files = _files_in_memory(inside) if inside else 0
    apart = inside is not None and _namespace("net", inside) not in ("", own_network)
    sockets = _sockets_of_network(inside) if inside and apart else _sockets_open(tree, enough_bytes - files)
    return files + sockets * socket_bytes()


@cache
def socket_bytes() -> int:
    """What one socket can hold: a sender may go beyond the size of its buffer by one message as large as it."""
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
    """Content and number of the files on tmpfs that this process sees and we don't."""
    ours, total = {device for device, _ in _in_memory(Path("/proc/self"))}, 0
    for device, place in _in_memory(process):
        if device not in ours:
            ours.add(device)
            with suppress(OSError):  # it ended meanwhile
                disk = os.statvfs(f"{process}/root{place}")
                total += (disk.f_blocks - disk.f_bfree) * disk.f_frsize + (disk.f_files - disk.f_ffree) * _INODE_BYTES
    return total


def _in_memory(process: Path) -> Iterator[tuple[str, str]]:
    """Device and place of each tmpfs in a process's table of mounts (proc(5), mountinfo)."""
    with suppress(OSError):
        for line in (process / "mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            if after.startswith("tmpfs "):
                fields = before.split()
                yield fields[2], fields[4].encode().decode("unicode_escape")


def _sockets_of_network(process: Path) -> int:
    """All sockets of a process's network namespace, those on their way between two processes too."""
    try:
        return int((process / "net/sockstat").read_text().split()[2])
    except (OSError, ValueError, IndexError):
        return 0


def _sockets_open(tree: Sequence[Path], enough_bytes: int) -> int:
    """Sockets that processes hold open. First the number of all their open files, which costs one look a process."""
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
    """Since Linux 6.2 the folder's size is their number; before, and for an unreadable one, it is 0."""
    try:
        return (process / "fd").stat().st_size
    except OSError:
        return 0


class Fall:
    """How far the machine's available memory has fallen, beyond what the own memory of all its programs explains.

    What is left is what the system keeps (page tables, buffers, locks) and files in memory. It has no owner, so it is
    believed in the third look in a row, and not below `least_bytes`.
    """

    def __init__(self, least_bytes: int = _COARSE_BYTES) -> None:
        self._before, self._looks, self._least_bytes = _without_owner(), 0, least_bytes

    def rebase(self) -> None:
        """What has gone until now isn't held against anybody."""
        self._before, self._looks = _without_owner(), 0

    def breach(self, limit_bytes: int) -> str:
        """Take a look. In words for the model where it and the two before found more than a limit gone, else empty."""
        limit = max(limit_bytes, self._least_bytes)
        self._looks = self._looks + 1 if _without_owner() - self._before > limit else 0
        return f"took more than {limit / (1 << 30):.1f} GB of the machine's memory" if self._looks >= _LOOKS else ""


def _without_owner() -> int:
    try:
        return without_owner(Path("/proc/meminfo").read_text()) - _zfs_cache_bytes()
    except OSError:  # not Linux
        return 0


def without_owner(meminfo: str) -> int:
    """Bytes of memory in use that are no program's own and no cache of files on disk, from the text of /proc/meminfo.

    Own memory that was swapped out counts as explained, since zram keeps it in memory. 0 where a figure is missing.
    """
    rows = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    try:
        kib = {name: int(value.split()[0]) for name, value in rows.items()}
        used = kib["MemTotal"] - kib["MemAvailable"]
        return 1024 * (used - kib["AnonPages"] - kib["SwapTotal"] + kib["SwapFree"])
    except (ValueError, KeyError, IndexError):  # an odd container
        return 0


def _zfs_cache_bytes() -> int:
    """ZFS keeps its cache of files where the system doesn't count it as available."""
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/spl/kstat/zfs/arcstats").read_text()
        return int(text.partition("\nsize ")[2].split()[1])
    return 0
