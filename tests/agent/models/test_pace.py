"""How far something slow is: the seconds left, which count down calmly, and the loading of a model."""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ossia.agent.models.memory import mapped_bytes
from ossia.agent.models.pace import LoadProgress, Pace
from ossia.tools.host import Loading


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_forecast_in_the_first_two_seconds() -> None:
    clock = Clock()
    pace = Pace(clock)
    told = []
    for second in range(6):
        clock.now = 100.0 + second
        told.append(pace.seconds_left(10 * second, 100))
    assert told == [None, None, 8, 7, 6, 5]


def test_nothing_is_forecast_of_what_does_not_move() -> None:
    clock = Clock()
    pace = Pace(clock)
    told = []
    for done in (5, 5, 5, 10):
        told.append(pace.seconds_left(done, 20))
        clock.now += 2
    assert told == [None, None, None, 12]


def test_nothing_is_forecast_from_the_first_words_of_a_long_prompt() -> None:
    clock = Clock()
    pace = Pace(clock)
    told = []
    for done in (0, 1, 9, 10):
        told.append(pace.seconds_left(done, 500))
        clock.now += 3
    assert told == [None, None, None, 441]


@pytest.mark.parametrize("seed", range(5))
def test_the_seconds_do_not_jump_up_and_down(seed: int) -> None:
    """Steps of 64 that take between 4 and 6 s, asked ten times a second."""
    source, clock = random.Random(seed), Clock()
    pace, told, done = Pace(clock), [], 0.0
    while done < 640:
        tenths = source.randrange(40, 60)
        for _ in range(tenths):
            done = min(done + 64 / tenths, 640)
            clock.now += 0.1
            told.append(pace.seconds_left(done, 640))
    numbers = [number for number in told if number is not None]
    assert sum(after > before for before, after in pairwise(numbers)) <= 2
    assert all(before - after <= 1 for before, after in pairwise(numbers[100:])), "it counts down by ones"
    assert numbers[-1] <= 2


def test_a_forecast_that_was_wrong_is_taken_back() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.seconds_left(0, 100)
    clock.now += 2
    assert pace.seconds_left(20, 100) == 8
    clock.now += 10  # and nothing came meanwhile
    assert pace.seconds_left(21, 100) == 46
    clock.now += 100
    assert pace.seconds_left(99, 100) == 2


def test_loading_tells_what_takes_its_time() -> None:
    clock, mapped = Clock(), 7_000
    progress = LoadProgress(100_000, mapped=lambda: mapped, clock=clock)
    assert progress.now() == Loading("loading the model"), "it is planned, and libraries are loaded"
    progress.begin(then="repacking the weights")
    assert progress.now() == Loading("loading the model")
    clock.now, mapped = 110.0, 7_900  # of the vocabulary
    assert progress.now() == Loading("loading the model")
    clock.now, mapped = 120.0, 12_000
    assert progress.now() == Loading("reading the model", 0.05)
    clock.now, mapped = 130.0, 32_000
    assert progress.now() == Loading("reading the model", 0.25, 38)
    assert progress.report(0.05) is True
    assert progress.now() == Loading("repacking the weights", 0.05)
    clock.now, _ = 140.0, progress.report(0.25)
    assert progress.now() == Loading("repacking the weights", 0.25, 38)
    progress.report(1.0)
    assert progress.now() == Loading("preparing the context")


def test_loading_where_nothing_is_known() -> None:
    progress = LoadProgress(100_000, mapped=lambda: None, clock=Clock())
    progress.begin()
    assert progress.now() == Loading("loading the model")
    progress.report(0.5)
    assert progress.now() == Loading("loading the model"), "nothing takes its time there: it isn't worth a number"


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's tables")
def test_what_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/statm").write_text("9 7 3 1 0 2 0\n")
    one = mapped_bytes(root=tmp_path)
    assert one is not None and one % 3 == 0 and one // 3 >= 4096
    assert mapped_bytes(root=tmp_path / "none") is None
    assert (mapped_bytes() or 0) > 0
