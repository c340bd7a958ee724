"""Which lanes a step is for, and what a stop or an error of it means for each."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ossia.agent.control import Control
from ossia.agent.engine._batch import Part
from ossia.agent.engine._sequence import Gate
from ossia.agent.engine.cache import Logits
from ossia.agent.engine.scheduler import LaneDecoder, Scheduler
from ossia.agent.errors import EngineFailed
from tests.support.site import wait_until


class Steps:
    """A context (`Native`) whose steps end when the test says so. Each lane's logits are the number of the step."""

    batch_tokens, vocabulary_size = 64, 4
    may_use_fewer_threads = False

    def __init__(self, lanes: int, step_tokens: int) -> None:
        self.lanes, self.step_tokens, self.gate, self.count = lanes, step_tokens, Gate(), 0
        self.begun = queue.Queue[list[tuple[int, int]]]()  # of each step: its sequences, and how many ids of each
        self.ends = queue.Queue[str]()
        self.closed = False

    def new_abort_flag(self) -> Callable[[], None]:
        return lambda: self.ends.put("aborted")

    def step(self, parts: list[Part]) -> list[Logits] | None:
        self.count += 1
        self.begun.put([(part.sequence, len(part.ids)) for part in parts])
        end = self.ends.get(timeout=60)
        if end == "fails":
            raise EngineFailed("the GPU is gone")
        return None if end == "aborted" else [np.full(4, self.count, np.float32) for _ in parts]

    def close(self) -> None:
        self.closed = True


class Bench:
    """Lanes on such steps, each with a thread."""

    def __init__(self, lanes: int, pool: ThreadPoolExecutor, step_tokens: int) -> None:
        self.native: Any = Steps(lanes, step_tokens)
        self.lanes = Scheduler(self.native).lanes
        self._pool = pool

    def decode(self, lane: int, count: int, *, logits: bool = True) -> Future[bool]:
        return self._pool.submit(self.lanes[lane].decode, 0, range(count), logits=logits)

    def begun(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = self.native.begun.get(timeout=60)
        return found

    def end(self, how: str = "done") -> None:
        self.native.ends.put(how)

    def write(self, lane: LaneDecoder, control: Control | None = None) -> Callable[[], None]:
        """Bring it between two ids of an answer."""
        end = lane.open(control or Control())
        done = self.decode(lane.number, 1)
        self.begun()
        self.end()
        assert done.result(60)
        return end


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    benches = list[Bench]()
    with ThreadPoolExecutor(8) as pool:

        def make(lanes: int, step_tokens: int = 32) -> Bench:
            benches.append(Bench(lanes, pool, step_tokens))
            return benches[-1]

        yield make
        for one in benches:
            for lane in one.lanes:
                lane.close()
            assert one.native.closed


def test_those_that_wait_share_the_next_step(bench: Callable[[int], Bench]) -> None:
    few = bench(3)
    first = few.decode(0, 1)
    assert few.begun() == [(0, 1)]
    rest = [few.decode(1, 2), few.decode(2, 3)]
    _until_asked(few, 1, 2)
    few.end()
    assert first.result(60)
    assert sorted(few.begun()) == [(1, 2), (2, 3)]
    few.end()
    assert all(one.result(60) for one in rest)
    assert [lane.logits()[0] for lane in few.lanes] == [1, 2, 2], "each keeps its own"


def _until_asked(bench: Bench, *lanes: int) -> None:
    wait_until(lambda: all(bench.lanes[lane].part for lane in lanes))


def test_prompts_take_turns_beside_those_who_write(bench: Callable[[int], Bench]) -> None:
    few = bench(4)
    few.write(few.lanes[0])
    for lane in few.lanes[1:]:
        lane.open(Control())
    blocked = few.decode(0, 1)
    assert few.begun() == [(0, 1)]
    readers = [few.decode(lane, 8, logits=False) for lane in (1, 2, 3)]
    _until_asked(few, 1, 2, 3)
    served = list[int]()
    while len(served) < 3:
        few.end()
        blocked.result(60)
        blocked = few.decode(0, 1)
        while (0, 1) not in (step := few.begun()):  # it came too late: on a busy machine
            served += [lane for lane, _ in step]
            few.end()
        served += [lane for lane, _ in step[1:]]
        assert len(step) <= 2, "a quarter of 32 ids of prompts in all"
    few.end()
    assert sorted(served) == [1, 2, 3]
    assert all(one.result(60) for one in readers)
    blocked.result(60)


def test_beside_one_who_writes_a_prompt_is_read_in_smaller_parts(bench: Callable[[int], Bench]) -> None:
    few = bench(2)
    writer, reader = few.lanes
    assert reader.step_tokens == 32
    begun = writer.open(Control())
    assert reader.step_tokens == 32, "who reads a prompt makes no difference"
    begun()
    end = few.write(writer)
    assert (reader.step_tokens, writer.step_tokens) == (8, 32)
    few.write(reader)()
    assert reader.step_tokens == 32, "it hasn't fetched its ids meanwhile: nobody waits for it"
    end()


def test_a_prompt_that_fills_a_step_is_read_beside_those_who_write(bench: Callable[..., Bench]) -> None:
    """Its part was made while nobody wrote. Who writes comes first, and would leave no room for it in any step."""
    few = bench(3, step_tokens=64)
    few.lanes[1].open(Control())
    whole = few.lanes[1].step_tokens
    ends = [few.write(few.lanes[lane]) for lane in (0, 2)]
    blocked = few.decode(0, 1)
    few.begun()
    rest = [few.decode(1, whole), few.decode(2, 1)]
    _until_asked(few, 1, 2)
    ends[0]()
    few.end()
    assert blocked.result(60)
    assert few.begun() == [(2, 1), (1, whole)]
    few.end()
    assert all(one.result(60) for one in rest)
    ends[1]()


def test_prompts_alone_share_a_step_as_far_as_it_goes(bench: Callable[[int], Bench]) -> None:
    few = bench(4)
    ends = [lane.open(Control()) for lane in few.lanes]
    first = few.decode(0, 32, logits=False)
    few.begun()
    rest = [few.decode(1, 20, logits=False), few.decode(2, 20, logits=False), few.decode(3, 12, logits=False)]
    _until_asked(few, 1, 2, 3)
    few.end()
    assert first.result(60)
    assert few.begun() == [(1, 20), (3, 12)]
    few.end()
    assert rest[0].result(60) and rest[2].result(60)
    for end in (ends[0], ends[1], ends[3]):
        end()  # nobody waits for them
    assert few.begun() == [(2, 20)]
    few.end()
    assert rest[1].result(60)


def test_a_stop_of_one_does_not_abort_a_step_of_two(bench: Callable[[int], Bench]) -> None:
    few, controls = bench(3), [Control(), Control(), Control()]
    ends = [few.write(lane, control) for lane, control in zip(few.lanes, controls, strict=True)]
    blocked = few.decode(2, 1)
    few.begun()
    waiting = [few.decode(0, 1), few.decode(1, 1)]
    _until_asked(few, 0, 1)
    few.end()
    assert blocked.result(60)
    ends[2]()
    assert few.begun() == [(0, 1), (1, 1)]
    controls[0].stop()
    assert few.native.ends.empty()
    controls[1].stop()
    assert [one.result(60) for one in waiting] == [False, False], "all are stopped"
    ends[0]()
    few.write(few.lanes[0])


def test_a_stop_takes_back_what_waits(bench: Callable[[int], Bench]) -> None:
    few, control = bench(2), Control()
    end = few.write(few.lanes[1], control)
    first = few.decode(0, 1)
    assert few.begun() == [(0, 1)]
    second = few.decode(1, 1)
    _until_asked(few, 1)
    control.stop()
    assert second.result(60) is False, "at once: the step is another's"
    assert few.decode(1, 1).result(60) is False, "nothing of a stopped generation is decoded"
    end()
    few.end()
    assert first.result(60)
    assert few.native.begun.empty()


def test_an_error_is_each_lanes_own(bench: Callable[[int], Bench]) -> None:
    few = bench(3)
    first = few.decode(0, 1)
    few.begun()
    rest = [few.decode(1, 1), few.decode(2, 1)]
    _until_asked(few, 1, 2)
    few.end()
    assert first.result(60)
    few.begun()
    few.end("fails")
    errors = [one.exception(60) for one in rest]
    assert [str(error) for error in errors] == ["the GPU is gone"] * 2 and errors[0] is not errors[1]
    again = few.decode(1, 1)
    few.begun()
    few.end()
    assert again.result(60)
