"""The use of the machine by a process tree and its folders, seen from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import psutil

from ossia.tools.sandbox.hostile_folder import walk
from ossia.tools.sandbox.job import Limits

_ROOM_BYTES, _ROOM_FILES = 1 << 20, 100
"""The room left to a kernel whose folder was over its limit before."""
_ROOM_ON_DISK_BYTES = 16 << 20  # the same where the disk was too full before
_ROOM_IN_MEMORY_BYTES = 256 << 20  # the same where the machine had too little memory before
_NAME_BYTES = 32  # a name's share of its folder's size, roughly (ext4: 12 to 264)
_LOOKS = 3  # at a folder that moves away while we read it


@dataclass(frozen=True, slots=True)
class Usage:
    """A job's use of the machine now. `processes` counts threads too; `available_bytes`: the machine's spare memory.

    `hidden`: places in the folders that couldn't be looked into. `free_bytes`: the room on the fullest of their disks.
    `names`: those in the folders that a command writes. `inodes`: those in use on the workspace's disk, by whomever.
    """

    memory_bytes: int = 0
    available_bytes: int = 1 << 63
    processes: int = 0
    data_bytes: int = 0
    data_files: int = 0
    hidden: int = 0
    free_bytes: int = 1 << 63
    names: int = 0
    inodes: int = 0

    def at_most(self, other: Usage) -> Usage:
        """The same with the smaller numbers for the folders: room that was cleaned up may not be used again."""
        return replace(
            self,
            data_bytes=min(self.data_bytes, other.data_bytes),
            data_files=min(self.data_files, other.data_files),
            hidden=min(self.hidden, other.hidden),
        )

    def breach(self, limits: Limits, before: Usage) -> str:
        """The broken limit, in words for the model; "" if all hold.

        `before`: what was in use at the start. A folder that was over the limit then may be cleaned up, but not grow.
        """
        if before.free_bytes - self.free_bytes > limits.disk_bytes:
            return f"took more than {limits.disk_bytes / (1 << 30):.1f} GB of disk space"
        if self.names - before.names > limits.new_names or self.inodes - before.inodes > 2 * limits.new_names:
            return f"made more than {limits.new_names:,} files, folders and links"
        if self.processes > limits.processes:  # before the memory: a fork bomb breaks both
            return f"ran more than {limits.processes} processes and threads"
        if self.memory_bytes > limits.memory_bytes:
            return f"used more than {gib(limits.memory_bytes)} of memory"
        least = max(limits.available_bytes, _share_to_leave_bytes())
        if self.available_bytes < min(least, before.available_bytes - _ROOM_IN_MEMORY_BYTES):
            return f"left the machine less than {gib(least)} of memory"
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


def _free_bytes(folder: Path) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 1 << 63
    return disk.f_bavail * disk.f_frsize


def usage_in_all(root: int, memory_bytes: int, processes: int) -> Usage:
    """The use of a process and all its descendants, and the memory that the machine has left.

    Pages that forks share count once, which costs more to find out: only if the plain sum exceeds `memory_bytes`, and
    there are no more than `processes` processes and threads: a fork bomb must be ended before it grows.
    """
    tree, memory, count = _tree(root), 0, 0
    for process in tree:
        with suppress(psutil.Error):  # it has ended
            memory, count = memory + process.memory_info().rss, count + process.num_threads()
    if memory > memory_bytes and count <= processes:
        memory = sum(map(_proportional_memory, tree))
    return Usage(memory_bytes=memory, processes=count, available_bytes=available_bytes())


def processes_of(root: int) -> list[int]:
    """The ids of a process and of all its descendants, its own first."""
    return [process.pid for process in _tree(root)] or [root]


def own_memory_bytes() -> int:
    """Resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def available_bytes() -> int:
    """The machine's memory for programs without swapping; caches of files count as available."""
    return int(psutil.virtual_memory().available)


@cache
def _share_to_leave_bytes() -> int:
    return int(psutil.virtual_memory().total) // 20


def _tree(root: int) -> list[psutil.Process]:
    try:
        first = psutil.Process(root)
        return [first, *first.children(recursive=True)]
    except psutil.Error:  # it has ended
        return []


def _proportional_memory(process: psutil.Process) -> int:
    """The resident bytes, shared ones divided among their sharers (PSS). macOS shows only plain ones."""
    memory = 0
    with suppress(psutil.Error):  # it has ended, or made itself unreadable
        memory = int(process.memory_info().rss)
        memory = int(getattr(process.memory_full_info(), "pss", 0)) or memory
    return memory


def gib(number: int) -> str:
    """A number of bytes in words: `4.0 GB`, `700 MB`."""
    return f"{number / (1 << 30):.1f} GB" if number >= 1 << 30 else f"{number / (1 << 20):.0f} MB"
