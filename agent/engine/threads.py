"""The number of threads to compute with."""

from __future__ import annotations

import os
from pathlib import Path

_NO_LIMIT = 1 << 20


def default_threads(sysfs: Path = Path("/sys")) -> int:
    """The number of physical cores that this process may use, at least 1: `8` where 8 cores run 16 threads.

    Two threads on one core share its arithmetic units and its path to memory. One thread more than there are processors
    keeps all others waiting at every part of a token. A container's share of the processors is taken into account.
    """
    return max(1, min(_physical_cores(sysfs), _quota(sysfs)))


def step_tokens(threads: int) -> int:
    """The ids of a prompt that these threads take at once: 32 for one, 64 for two, 256 for eight; 512 at most.

    More at once is hardly faster, and delays a stop, which can only come between two of the network's operations: 72 of
    them take nearly all the time with gpt-oss-20b. For 64 ids two cores need 5 s, and 70 ms for each of these
    operations; for 512 ids, 50 s and 0.7 s. A core reads 5.9 ids a second in steps of 64; 4.6 in steps of 16, 4.9 of
    32, 6.1 of 256. The number never adapts to measurements at run time: other steps round differently, and with a seed,
    or greedily, the same answer must come again.
    """
    return min(32 << (threads - 1).bit_length(), 512)


def _physical_cores(sysfs: Path) -> int:
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_siblings(sysfs, cpu) for cpu in os.sched_getaffinity(0)})


def _siblings(sysfs: Path, cpu: int) -> str:
    """The hardware threads that share this one's core: `"0,8"`."""
    try:
        return (sysfs / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota(sysfs: Path) -> int:
    """The processors of a container: 2 for `"200000 100000"`, the microseconds it may use in each 0.1 s."""
    try:
        quota, period = (sysfs / "fs/cgroup/cpu.max").read_text().split()
        return int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return _NO_LIMIT
