"""Several generations at once on one loaded model: each as if it were alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Sampling, Static, StepStats, Task
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.engine.sampling import Sampler
from ossia.agent.errors import EngineFailed
from tests.support.engines import GREEDY, fresh_logits, generate, load_engine, load_lanes, prefill
from tests.support.toy_gguf import write_toy_gguf

LANES = 4
HEAD = tuple(range(20, 220))
# As in test_cache: the logits' standard deviation is 3, and lanes are rounded differently by 0.08 at most. (With
# quantised weights a rounding can choose another expert, and the logits jump: the oracle `lanes` counts that.)
_NOISE = 0.3
Engines = tuple[LlamaEngine, ...]


@pytest.fixture(scope="module")
def shared(toy: Path) -> Iterator[Engines]:
    engines = load_lanes(toy, LANES, step_tokens=32)
    yield engines
    for engine in engines:
        engine.close()


@pytest.fixture
def engines(shared: Engines) -> Engines:
    for engine in shared:
        engine.lane.cache.clear()
    return shared


def _ids(count: int, seed: int) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(source.randrange(250) for _ in range(count))


def _prompts(count: int, head: Sequence[int] = ()) -> list[Prompt]:
    """`count` prompts of different lengths that begin with `head`."""
    prompts = []
    for seed in range(count):
        ids = (*head, *_ids(40 + 7 * seed, seed))
        static = (Static(len(head)),) if head else ()
        prompts.append(Prompt(ids, marks=tuple(filter(None, (len(head), len(ids)))), static=static))
    return prompts


def _at_once(*jobs: Callable[[], object]) -> list[Any]:
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(60) for future in [pool.submit(job) for job in jobs]]


def _answer(engine: LlamaEngine, task: Task, control: Control | None = None) -> tuple[list[int], StepStats]:
    generation = engine.generate(task, control=control or Control())
    ids = [item for item in generation if isinstance(item, int)]
    return ids, generation.stats


def _greedy(prompt: Prompt, tokens: int = 40) -> Task:
    return Task(prompt, max_tokens=tokens, sampling=GREEDY)


class Alone:
    """A single lane, to compare with."""

    def __init__(self, path: Path) -> None:
        self.engine = load_engine(path, step_tokens=32)

    def check(self, prompt: Prompt, got: Sequence[int]) -> None:
        """It gives the same greedy ids, up to the first place where two are as good as equal."""
        self.engine.lane.cache.clear()
        wanted = generate(self.engine, Prompt(prompt.ids, prompt.marks), len(got))
        assert len(wanted) == len(got)
        place = next((n for n, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]), None)
        if place is not None:
            self.engine.lane.cache.clear()
            logits, _ = prefill(self.engine, Prompt((*prompt.ids, *wanted[:place])))
            assert abs(logits[got[place]] - logits[wanted[place]]) < _NOISE, place


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_gguf(tmp_path_factory.mktemp("toy") / "toy.gguf", layers=4, experts=2, quantized=False)


@pytest.fixture(scope="module")
def alone(toy: Path) -> Iterator[Alone]:
    alone = Alone(toy)
    yield alone
    alone.engine.close()


def test_greedy_answers_are_those_of_one_after_the_other(engines: Engines, alone: Alone) -> None:
    prompts = _prompts(8)

    def two(lane: int) -> list[list[int]]:
        return [_answer(engines[lane], _greedy(prompts[lane + more]))[0] for more in (0, LANES)]

    answers = _at_once(*(lambda lane=lane: two(lane) for lane in range(LANES)))
    for lane, pair in enumerate(answers):
        for more, ids in zip((0, LANES), pair, strict=True):
            alone.check(prompts[lane + more], ids)


def test_one_lane_computes_what_the_calls_themselves_do(toy: Path) -> None:
    """The logits are equal, bit for bit: no other batch, no copy, and no thread between."""
    prompt = _ids(100, seed=3)
    engine, plain = load_engine(toy, step_tokens=32), load_engine(toy, step_tokens=32)
    try:
        ids = generate(engine, Prompt(prompt), 20)
        last = np.array(engine.native.logits())
        for start in range(0, 100, 32):
            assert plain.native.decode(start, prompt[start : start + 32], logits=start == 96)
        for n, token in enumerate(ids[:-1]):
            assert int(np.argmax(plain.native.logits())) == token
            assert plain.native.decode(100 + n, (token,))
        assert np.array_equal(plain.native.logits(), last)
        assert engine.decoder is engine.native
    finally:
        engine.close()
        plain.close()


def test_a_static_part_is_read_once(engines: Engines, alone: Alone) -> None:
    prompts = _prompts(LANES, HEAD)
    answers = _at_once(*(lambda lane=lane: _answer(engines[lane], _greedy(prompts[lane])) for lane in range(LANES)))
    own = [len(prompt.ids) - len(HEAD) for prompt in prompts]
    read = sorted(stats.evaluated_tokens for _, stats in answers)
    first = next(lane for lane, (_, stats) in enumerate(answers) if not stats.reused_tokens)
    assert read == sorted(count + len(HEAD) * (lane == first) for lane, count in enumerate(own))
    for prompt, (ids, _) in zip(prompts, answers, strict=True):
        alone.check(prompt, ids)


def test_what_a_lane_shared_is_its_siblings_after_it_has_gone_on(engines: Engines, alone: Alone) -> None:
    first, second, third = _prompts(3, HEAD)
    generate(engines[0], first, 1)
    assert _answer(engines[1], _greedy(second))[1].reused_tokens == len(HEAD)
    generate(engines[0], Prompt(_ids(900, seed=9)), 200)
    assert _answer(engines[2], _greedy(third))[1].reused_tokens == len(HEAD)
    again, stats = _answer(engines[1], _greedy(Prompt((*second.ids, 7, 8, 9), second.marks, second.static)))
    assert stats.reused_tokens == len(second.ids)
    alone.check(Prompt((*second.ids, 7, 8, 9)), again)
    generate(engines[1], Prompt(_ids(50, seed=8)), 1)
    generate(engines[2], Prompt(_ids(50, seed=7)), 1)
    assert _answer(engines[3], _greedy(first))[1].reused_tokens == 0, "nobody holds it any more"


def test_a_conversation_is_never_shared(engines: Engines) -> None:
    prompt = _prompts(1, HEAD)[0]
    generate(engines[0], prompt, 1)
    assert _answer(engines[1], _greedy(prompt))[1].reused_tokens == len(HEAD)
    plain = Prompt(prompt.ids, prompt.marks)
    assert _answer(engines[2], _greedy(plain))[1].reused_tokens == 0


@pytest.mark.parametrize("way", ["stop", "fail"])
def test_who_waits_for_a_part_goes_on_alone_if_its_reader_ends(engines: Engines, way: str, alone: Alone) -> None:
    reading, waiting = _prompts(2, HEAD)
    control = Control()
    generation = engines[0].generate(_greedy(reading), control=control)
    assert next(generation) is not None  # it has begun, and reads no further for now
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(_answer, engines[1], _greedy(waiting))
        if way == "stop":
            control.stop()
            assert list(generation) == []
        else:
            generation.close()
        ids, stats = other.result(60)
    assert stats.evaluated_tokens == len(waiting.ids)
    alone.check(waiting, ids)


def test_who_waits_for_a_part_can_be_stopped(engines: Engines) -> None:
    reading, waiting = _prompts(2, HEAD)
    generation, control = engines[0].generate(_greedy(reading), control=Control()), Control()
    next(generation)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(_answer, engines[1], _greedy(waiting), control)
        control.stop()
        ids, stats = other.result(60)
    assert (ids, stats.end, stats.evaluated_tokens) == ([], "stopped", 0)
    generation.close()


def test_a_stop_ends_one_lane_and_no_other(engines: Engines, alone: Alone) -> None:
    prompts, control = _prompts(LANES), Control()

    def stopped() -> StepStats:
        generation = engines[0].generate(_greedy(prompts[0], 400), control=control)
        for item in generation:
            if isinstance(item, int) and generation.stats.completion_tokens == 10:
                control.stop()
        return generation.stats

    rest = [lambda lane=lane: _answer(engines[lane], _greedy(prompts[lane])) for lane in range(1, LANES)]
    stats, *answers = _at_once(stopped, *rest)
    assert (stats.end, stats.completion_tokens) == ("stopped", 10)
    for prompt, (ids, _) in zip(prompts[1:], answers, strict=True):
        alone.check(prompt, ids)
    alone.check(prompts[0], generate(engines[0], prompts[0], 40))


@pytest.mark.parametrize("after", (0, 7, 60))
def test_all_stopped_at_any_moment(engines: Engines, after: int, alone: Alone) -> None:
    """Even in the middle of a step, which then ends at once; what was read by then counts."""
    prompts, control = [Prompt(_ids(600, seed=seed), marks=(600,)) for seed in range(LANES)], Control()
    steps = 0

    def watched(engine: LlamaEngine, prompt: Prompt) -> StepStats:
        nonlocal steps
        generation = engine.generate(_greedy(prompt, 100), control=control)
        for _ in generation:
            steps += 1
            if steps > after:
                control.stop()
        return generation.stats

    all_stats = _at_once(*(lambda lane=lane: watched(engines[lane], prompts[lane]) for lane in range(LANES)))
    for engine, stats in zip(engines, all_stats, strict=True):
        assert stats.end == "stopped"
        assert engine.memory.newest + 1 == len(engine.lane.cache)
    control = Control()
    answers = _at_once(*(lambda lane=lane: _answer(engines[lane], _greedy(prompts[lane], 8)) for lane in range(2)))
    for prompt, (ids, _) in zip(prompts[:2], answers, strict=True):
        alone.check(prompt, ids)


def test_a_lane_may_join_and_leave_in_the_middle(engines: Engines, alone: Alone) -> None:
    prompts = _prompts(3)
    long = engines[0].generate(_greedy(prompts[0], 120), control=Control())
    ids = [item for _, item in zip(range(30), long, strict=False) if isinstance(item, int)]
    answers = _at_once(*(lambda lane=lane: _answer(engines[lane], _greedy(prompts[lane])) for lane in (1, 2)))
    ids += [item for item in long if isinstance(item, int)]
    for prompt, (got, _) in zip(prompts[1:], answers, strict=True):
        alone.check(prompt, got)
    alone.check(prompts[0], ids)


def test_seeds_and_limits_are_each_lanes_own(engines: Engines, alone: Alone) -> None:
    prompt, seeds = Prompt(_ids(40, seed=1)), (1, 2, 3, 4)
    tasks = [Task(prompt, max_tokens=20 + seed, sampling=Sampling(seed=seed)) for seed in seeds]
    answers = _at_once(*(lambda lane=lane: _answer(engines[lane], tasks[lane]) for lane in range(LANES)))

    def drawn(ids: Sequence[int], seed: int) -> int:
        """The number of ids that this seed draws from the logits before them."""
        sampler = Sampler(Sampling(seed=seed), alone.engine.vocabulary.size, salt=len(prompt.ids))
        before = (Prompt((*prompt.ids, *ids[:n])) for n in range(len(ids)))
        return sum(sampler.pick(prefill(alone.engine, one)[0]) == token for one, token in zip(before, ids, strict=True))

    for seed, (ids, stats) in zip(seeds, answers, strict=True):
        assert (len(ids), stats.end) == (20 + seed, "tokens")
        assert drawn(ids, seed) >= len(ids) - 2 > drawn(ids, seed + 1)  # a rounding decides at most a few


def test_an_error_of_a_step_reaches_its_lanes_and_they_go_on(engines: Engines, alone: Alone) -> None:
    prompts = _prompts(LANES)
    unknown = Prompt((*prompts[0].ids, engines[0].vocabulary.size + 5))

    def answer(lane: int) -> tuple[list[int], StepStats] | None:
        try:
            return _answer(engines[lane], _greedy(prompts[lane] if lane else unknown))
        except EngineFailed:  # that lane, or one that was in the same step
            return None

    failed, *others = _at_once(*(lambda lane=lane: answer(lane) for lane in range(LANES)))
    assert failed is None
    for lane, (prompt, before) in enumerate(zip(prompts, [None, *others], strict=True)):
        assert engines[lane].memory.newest + 1 == len(engines[lane].lane.cache)
        for ids in filter(None, (before and before[0], generate(engines[lane], prompt, 40))):
            alone.check(prompt, ids)


def test_each_lane_has_room_for_a_whole_context(toy: Path) -> None:
    engines = load_lanes(toy, LANES, context_tokens=256, step_tokens=64)
    try:
        prompts = [Prompt(_ids(100, seed=seed)) for seed in range(LANES)]
        tasks = [Task(prompt, sampling=GREEDY) for prompt in prompts]
        answers = _at_once(*(lambda lane=lane: _answer(engines[lane], tasks[lane]) for lane in range(LANES)))
        assert [(len(ids), stats.end) for ids, stats in answers] == [(156, "context")] * LANES
    finally:
        for engine in engines:
            engine.close()


def test_a_lane_is_closed_while_others_run(alone: Alone, toy: Path) -> None:
    engines, prompts = load_lanes(toy, 3, step_tokens=32), _prompts(3)

    def closed() -> None:
        generation = engines[0].generate(_greedy(prompts[0], 400), control=Control())
        for _, _ in zip(range(20), generation, strict=False):
            pass
        engines[0].close()

    rest = [lambda lane=lane: _answer(engines[lane], _greedy(prompts[lane], 100)) for lane in (1, 2)]
    _, *answers = _at_once(closed, *rest)
    with pytest.raises(RuntimeError, match="closed"):
        generate(engines[0], prompts[0], 1)
    assert engines[0].native.is_open
    engines[1].close()
    engines[2].close()
    assert not engines[0].native.is_open
    for prompt, (ids, _) in zip(prompts[1:], answers, strict=True):
        alone.check(prompt, ids)


def test_random_roll_backs_in_all_lanes_agree_with_a_fresh_engine(toy: Path) -> None:
    """With 64 ids a batch the window's cells are few, and lanes take them from each other."""
    engines = load_lanes(toy, 3, batch_tokens=64)

    def wander(lane: int) -> None:
        source, ids = random.Random(lane), tuple[int, ...]()
        for _ in range(8):
            keep = source.choice([0, len(ids), source.randrange(len(ids) + 1), source.randrange(len(ids) + 1)])
            ids = ids[:keep] + tuple(source.randrange(250) for _ in range(source.choice([1, 7, 60, 250])))
            marks = tuple(sorted({source.randrange(1, len(ids) + 1) for _ in range(3)} | {len(ids)}))
            logits, _ = prefill(engines[lane], Prompt(ids, marks))
            distance = np.abs(logits - fresh_logits(toy, ids, batch_tokens=64)).max()
            assert distance < _NOISE, (lane, keep, len(ids))
            ids = (ids + tuple(generate(engines[lane], Prompt(ids, marks), source.choice([1, 30, 200]))))[:1200]

    try:
        _at_once(*(lambda lane=lane: wander(lane) for lane in range(3)))
    finally:
        for engine in engines:
            engine.close()
