"""How many threads to compute with."""

from __future__ import annotations

import os
from pathlib import Path

_NO_LIMIT = 1 << 20


def default_threads(sysfs: Path = Path("/sys")) -> int:
    """The number of physical cores that this process may use, at least 1: `8` where 8 cores run 16 threads.

    Two threads on one core share its arithmetic units and its path to memory, and a thread more than there are
    processors makes all others wait for it at every part of a token. A container's share of the processors counts.
    """
    return max(1, min(_physical_cores(sysfs), _quota(sysfs)))


def _physical_cores(sysfs: Path) -> int:
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    return len({_siblings(sysfs, cpu) for cpu in os.sched_getaffinity(0)})


def _siblings(sysfs: Path, cpu: int) -> str:
    """Which hardware threads share the core of this one: `"0,8"`."""
    try:
        return (sysfs / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota(sysfs: Path) -> int:
    """The processors that a container may use up: 2 for `"200000 100000"`, which are microseconds of each 0.1 s."""
    try:
        quota, period = (sysfs / "fs/cgroup/cpu.max").read_text().split()
        return int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return _NO_LIMIT
