"""A short crowd at one server. `python -m tests.oracle.serve` is the long one."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.oracle.serve import held, settled
from tests.support.crowd import crowd
from tests.support.serve import serving


def test_each_client_of_a_crowd_gets_its_own_answer_and_nothing_stays(tmp_path: Path) -> None:
    with serving("--model", "etude", "--parallel", "3", home=tmp_path) as address:
        process = psutil.Process(address.pid)
        crowd(address, requests=8, clients=4, seed=1)
        before = held(process)
        seen = crowd(address, requests=48, clients=8, seed=34)
        after = settled(process, before)
    assert seen.faults == []
    assert seen.own > seen.off
    assert sum(seen.outcomes.values()) == 48
    assert (after.threads, after.descriptors) <= (before.threads, before.descriptors)
