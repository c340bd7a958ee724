"""How many threads the engine takes by default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ossia.agent.engine.threads import default_threads

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="reads Linux's sysfs")


def _sysfs(folder: Path, *, siblings: str | None = None, quota: str | None = None) -> Path:
    for cpu in os.sched_getaffinity(0):
        topology = folder / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text((siblings or str(cpu)) + "\n")
    if quota is not None:
        (folder / "fs/cgroup").mkdir(parents=True)
        (folder / "fs/cgroup/cpu.max").write_text(quota + "\n")
    return folder


def test_each_core_counts_once(tmp_path: Path) -> None:
    usable = len(os.sched_getaffinity(0))
    assert default_threads(_sysfs(tmp_path / "one")) == usable
    assert default_threads(_sysfs(tmp_path / "shared", siblings="0-63")) == 1
    assert default_threads(tmp_path / "nothing to read") == usable


@pytest.mark.parametrize(
    ("quota", "expected"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("garbage", None)]
)
def test_a_containers_share_counts(tmp_path: Path, quota: str, expected: int | None) -> None:
    usable = len(os.sched_getaffinity(0))
    assert default_threads(_sysfs(tmp_path, quota=quota)) == (expected or usable)
