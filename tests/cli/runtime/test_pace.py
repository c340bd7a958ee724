"""How far something slow is: the words for it, and seconds that are told calmly."""

from __future__ import annotations

import io
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ossia.agent.events import Progress
from ossia.agent.models.memory import mapped_bytes
from ossia.cli.chat.view import ChatView
from ossia.cli.runtime.loading import LoadProgress
from ossia.cli.runtime.pace import Pace, Reading, worded
from ossia.cli.runtime.progress import LiveLine
from ossia.cli.terminal.markdown.paint import Painter


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


@pytest.mark.parametrize(
    ("left_s", "said"), [(None, "x · 1 of 2"), (24, "x · 1 of 2 · 24 s"), (99, "x · 1 of 2 · 99 s"),
                         (100, "x · 1 of 2 · 1 min 40 s")],
)  # fmt: skip
def test_words(left_s: int | None, said: str) -> None:
    assert worded("x", "1 of 2", left_s) == said


def test_reading_a_prompt() -> None:
    """What the cache holds isn't read; a second prompt begins anew."""
    clock = Clock()
    reading = Reading(clock)
    assert reading.text() == ""
    reading.see(Progress(100, 1733, 100))
    assert reading.text() == "reading the prompt · 0 of 1,633"
    clock.now += 4
    reading.see(Progress(140, 1733, 100))
    assert reading.text() == "reading the prompt · 40 of 1,633 · 2 min 40 s"
    reading.see(Progress(164, 1733, 100))
    assert reading.text() == "reading the prompt · 64 of 1,633 · 99 s"
    reading.see(Progress(0, 50))
    assert reading.text() == "reading the prompt · 0 of 50"


def test_a_live_line_asks_each_time() -> None:
    stream, texts = io.StringIO(), iter(["one", "", "three"])
    line = LiveLine(stream, shown=True)
    line.set(lambda: next(texts))
    line.tick()
    assert stream.getvalue().endswith(" one")
    assert line.text == "" and line.text == "three"


def test_the_chat_says_the_same() -> None:
    clock = Clock()
    view = ChatView(Painter(80), think="off", page=lambda cursor: None, clock=clock)
    view.begin()
    view.see(Progress(0, 633))
    clock.now += 5
    view.see(Progress(100, 633))
    assert view.activity() == "reading the prompt · 100 of 633 · 27 s"


def test_loading_tells_what_takes_its_time() -> None:
    clock, mapped = Clock(), 7_000
    progress = LoadProgress(100_000, mapped=lambda: mapped, clock=clock)
    assert progress.text() == "loading the model", "it is planned, and libraries are loaded"
    progress.begin(then="repacking the weights")
    assert progress.text() == "loading the model"
    clock.now, mapped = 110.0, 7_900  # of the vocabulary
    assert progress.text() == "loading the model"
    clock.now, mapped = 120.0, 12_000
    assert progress.text() == "reading the model · 5 %"
    clock.now, mapped = 130.0, 32_000
    assert progress.text() == "reading the model · 25 % · 38 s"
    assert progress.report(0.05) is True
    assert progress.text() == "repacking the weights · 5 %"
    clock.now, _ = 140.0, progress.report(0.25)
    assert progress.text() == "repacking the weights · 25 % · 38 s"
    progress.report(1.0)
    assert progress.text() == "preparing the context"


def test_loading_where_nothing_is_known() -> None:
    progress = LoadProgress(100_000, mapped=lambda: None, clock=Clock())
    progress.begin()
    assert progress.text() == "loading the model"
    progress.report(0.5)
    assert progress.text() == "loading the model", "nothing takes its time there: it isn't worth a number"


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's tables")
def test_what_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/statm").write_text("9 7 3 1 0 2 0\n")
    one = mapped_bytes(root=tmp_path)
    assert one is not None and one % 3 == 0 and one // 3 >= 4096
    assert mapped_bytes(root=tmp_path / "none") is None
    assert (mapped_bytes() or 0) > 0
