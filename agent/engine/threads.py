"""How many threads to compute with."""

from __future__ import annotations

import os
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def default_threads() -> int:
    """The number of physical cores that this process may use, at least 1: `8` where 8 cores run 16.

    Two threads on one core share its arithmetic units and its path to memory, and a thread more than there are
    processors makes all others wait for it at every part of a token.
    """
    return max(1, min(_physical_cores(), _quota()))


def _physical_cores() -> int:
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    usable = os.sched_getaffinity(0)
    return len({_siblings(cpu) for cpu in usable})


def _siblings(cpu: int) -> str:
    try:
        return (_CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _quota() -> int:
    """The processors that a container's quota is worth: 2 for `"200000 100000"`. Without a quota: no limit."""
    try:
        quota, period = _QUOTA.read_text().split()
        return int(quota) // int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return 1 << 20
