"""The machine is idle enough to read ahead, or it isn't."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ossia.cli.runtime.idleness import Idleness, on_battery
from tests.support.screen import Clock

CPUS = os.cpu_count() or 1


class Machine:
    """One that others, and we, keep busy."""

    def __init__(self, supplies: Path) -> None:
        self.supplies, self.busy_s, self.own_s, self.clock = supplies, 1000.0, 10.0, Clock()

    def passes(self, seconds: float, *, others: float = 0, ours: float = 0) -> None:
        """`others` and `ours`: so many processors are kept busy."""
        self.clock.now += seconds
        self.busy_s += seconds * (others + ours)
        self.own_s += seconds * ours

    def battery(self, name: str, **values: str) -> None:
        folder = self.supplies / name
        folder.mkdir(parents=True, exist_ok=True)
        for key, value in values.items():
            (folder / key).write_text(value + "\n")

    def idleness(self, threads: int) -> Idleness:
        return Idleness(threads, busy=lambda: self.busy_s, own=lambda: self.own_s, clock=self.clock,
                       battery=lambda: on_battery(self.supplies))  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_others_count_and_we_do_not(machine: Machine) -> None:
    idleness = machine.idleness(CPUS)
    machine.passes(1, others=0.2)
    assert idleness.now()
    machine.passes(2, others=1.0)
    assert not idleness.now()
    machine.passes(2, ours=CPUS)
    assert idleness.now()
    machine.passes(2, ours=CPUS - 1, others=1)
    assert not idleness.now()


def test_where_there_is_room_for_both_both_go_on(machine: Machine) -> None:
    idleness = machine.idleness(CPUS - 1)
    machine.passes(1, others=1)
    assert idleness.now()
    machine.passes(1, others=2)
    assert not idleness.now()


def test_a_look_too_soon_says_what_the_last_one_said(machine: Machine) -> None:
    idleness = machine.idleness(CPUS)
    machine.passes(1, others=1)
    assert not idleness.now()
    machine.passes(0.01)
    assert not idleness.now()


def test_a_system_that_does_not_tell_is_taken_to_be_idle() -> None:
    assert Idleness(CPUS, busy=lambda: None, battery=lambda: False).now()


def test_this_machine_can_be_asked() -> None:
    assert Idleness(10 * CPUS).now() is False


@pytest.mark.skipif(sys.platform != "linux", reason="a folder of Linux's")
def test_a_battery_that_gives_power_is_spared(machine: Machine) -> None:
    machine.battery("AC", type="Mains", online="0")
    machine.battery("hidpp_battery_0", type="Battery", scope="Device", status="Discharging")  # a mouse's
    assert not on_battery(machine.supplies)
    machine.battery("BAT0", type="Battery", status="Charging")
    idleness = machine.idleness(CPUS)
    assert idleness.now()
    machine.battery("BAT0", status="Discharging")
    assert on_battery(machine.supplies)
    machine.passes(60)
    assert not idleness.now()
