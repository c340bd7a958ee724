"""What a process tree and a folder use, seen from outside."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ossia.tools.sandbox._system_memory import beside_processes
from ossia.tools.sandbox.hostile_folder import walk
from ossia.tools.sandbox.job import Limits

_ROOM_BYTES, _ROOM_FILES = 1 << 20, 100
"""What a kernel may add to a folder that was over its limit before."""
_ROOM_ON_DISK_BYTES = 16 << 20
"""The same if the disk was too full before."""
_NAME_BYTES = 32
"""What a name takes in a folder, roughly (ext4: 12 to 264)."""
_LOOKS = 3
"""How often a folder that moves away while we read it is read again."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use now. `processes` counts threads too; `beside_bytes` is memory outside all processes.

    `hidden`: places in the folders that couldn't be looked into. `free_bytes`: what the fullest of their disks
    has left. `names`: those in the folders that a command writes. `inodes`: those in use on the workspace's disk, by
    whomever.
    """

    memory_bytes: int = 0
    beside_bytes: int = 0
    processes: int = 0
    data_bytes: int = 0
    data_files: int = 0
    hidden: int = 0
    free_bytes: int = 1 << 63
    names: int = 0
    inodes: int = 0

    def at_most(self, other: Usage) -> Usage:
        """For the folders the smaller of both numbers: what was cleaned up may not be used again."""
        return replace(
            self,
            data_bytes=min(self.data_bytes, other.data_bytes),
            data_files=min(self.data_files, other.data_files),
            hidden=min(self.hidden, other.hidden),
        )

    def breach(self, limits: Limits, before: Usage) -> str:
        """Which limit is broken, in words for the model; empty if none.

        `before`: what was in use at the start. A folder that was over the limit then may be cleaned up, but not grow.
        """
        if before.free_bytes - self.free_bytes > limits.disk_bytes:
            return f"took more than {limits.disk_bytes / (1 << 30):.1f} GB of disk space"
        if self.names - before.names > limits.new_names or self.inodes - before.inodes > 2 * limits.new_names:
            return f"made more than {limits.new_names:,} files, folders and links"
        if self.processes > limits.processes:  # before the memory: a fork bomb breaks both
            return f"ran more than {limits.processes} processes and threads"
        if self.memory_bytes > limits.memory_bytes:
            where = ", most of it in sockets or files in memory" if 2 * self.beside_bytes > self.memory_bytes else ""
            return f"used more than {gib(limits.memory_bytes)} of memory{where}"
        if self.data_bytes > max(limits.data_bytes, before.data_bytes + _ROOM_BYTES):
            return f"wrote more than {gib(limits.data_bytes)}: delete files in /mnt/data first"
        if self.data_files > max(limits.data_files, before.data_files + _ROOM_FILES):
            return f"made more than {limits.data_files} files: delete files in /mnt/data first"
        if self.hidden > before.hidden:
            return "made folders that can't be looked into"
        if self.free_bytes < min(limits.free_bytes, before.free_bytes - _ROOM_ON_DISK_BYTES):
            return f"the disk has less than {gib(limits.free_bytes)} left"
        return ""


def usage_of_folders(folders: Iterable[Path]) -> Usage:
    """Bytes on disk and number of entries below some folders. Links are counted, never followed."""
    places = tuple(folders)
    free = min((_free_bytes(place) for place in places), default=1 << 63)
    for _ in range(_LOOKS):
        size = files = hidden = 0
        for entry in chain.from_iterable(map(walk, places)):
            if entry is None:
                hidden += 1
            else:
                size += entry.status.st_blocks * 512
                files += 1
        if not hidden:
            break
    return Usage(data_bytes=size, data_files=files, hidden=hidden, free_bytes=free)


def names_below(folders: Iterable[Path], stopped: Callable[[], bool]) -> int:
    """The number of names below some folders, hard links among them. Of closed folders it is guessed by their size."""
    pending, count = [str(folder) for folder in folders], 0
    while pending and not stopped():
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            with suppress(OSError):  # it is gone, or its path too long: then its inodes are counted
                count += Path(folder).lstat().st_size // _NAME_BYTES
    return count


def held_bytes(root: int) -> int:
    """Bytes on disk of deleted files that a process tree still holds open. 0 on macOS."""
    held: dict[tuple[int, int], int] = {}
    for process, _, _ in _tree(root) if sys.platform == "linux" else ():
        with suppress(OSError), os.scandir(process / "fd") as descriptors:  # it ended meanwhile
            for descriptor in descriptors:
                with suppress(OSError):
                    status = descriptor.stat()
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                        held[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(held.values())


def _free_bytes(folder: Path) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 1 << 63
    return disk.f_bavail * disk.f_frsize


def usage_in_all(root: int, memory_bytes: int, processes: int) -> Usage:
    """What a process and all its descendants use, including the system's memory that they hold.

    Looks more closely, which costs more, only if a first sum exceeds `memory_bytes`. Not if there are more than
    `processes` processes and threads: then their number is enough, and a fork bomb must be ended before it grows.
    """
    if sys.platform != "linux":
        found = list(_from_ps(root))
        return Usage(memory_bytes=sum(found), processes=len(found))
    tree = list(_tree(root))
    own, count = sum(resident for _, resident, _ in tree), sum(threads for _, _, threads in tree)
    if count > processes:
        return Usage(memory_bytes=own, processes=count)
    beside = beside_processes([process for process, _, _ in tree], memory_bytes)
    if own + beside > memory_bytes:
        own = _proportional_memory(root)
    return Usage(memory_bytes=own + beside, beside_bytes=beside, processes=count)


def processes_of(root: int) -> list[int]:
    """The ids of a process and of all its descendants, its own first. On macOS those of its process group."""
    if sys.platform == "linux":
        return [int(process.name) for process, _, _ in _tree(root)] or [root]
    done = subprocess.run(["pgrep", "-g", str(root)], capture_output=True, text=True, timeout=10, check=False)
    return [root, *(pid for pid in map(int, done.stdout.split()) if pid != root)]


def _proportional_memory(root: int) -> int:
    """A tree's proportional set size (PSS), where pages shared by forks count once. Slower than the resident sizes."""
    total = 0
    for process, resident, _ in _tree(root):
        try:
            rollup = (process / "smaps_rollup").read_text()
            total += 1024 * int(rollup.partition("\nPss:")[2].split()[0])
        except (OSError, IndexError):
            total += resident
    return total


def own_memory_bytes() -> int:
    """Resident memory of this process, 0 where it can't be read."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _tree(root: int) -> Iterator[tuple[Path, int, int]]:
    """Each process's folder in /proc, resident bytes and threads; it costs as much as the tree is large."""
    pending = [root]
    while pending:
        process = Path("/proc", str(pending.pop()))
        try:
            threads = list((process / "task").iterdir())
            memory = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for thread in threads:
                pending += map(int, (thread / "children").read_text().split())
        except (OSError, IndexError):  # it ended meanwhile
            continue
        yield process, memory, len(threads)


def _from_ps(root: int) -> Iterator[int]:
    """macOS: the resident bytes of each process, by one call of `ps`; it doesn't show threads."""
    command = ["ps", "-A", "-o", "pid=,ppid=,rss="]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines() if line.strip()]
    frontier = {root}
    while frontier:
        yield from (1024 * kib for pid, _, kib in rows if pid in frontier)
        frontier = {pid for pid, parent, _ in rows if parent in frontier}


def gib(number: int) -> str:
    """A number of bytes in words: `4.0 GB`, `700 MB`."""
    return f"{number / (1 << 30):.1f} GB" if number >= 1 << 30 else f"{number / (1 << 20):.0f} MB"
