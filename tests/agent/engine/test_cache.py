"""Which prefix is reused, and that its logits are those of a prompt that was never rolled back."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.cache import Logits, PrefixCache
from ossia.agent.engine.generation import Lane, Prefill, checkpoints_of
from ossia.agent.engine.llama import LlamaEngine
from tests.support.engines import GREEDY, fresh_logits, generate, load_engine, prefill
from tests.support.toy_gguf import write_toy_gguf

# With 64 ids a batch, the sliding-window layers keep 256 positions. A roll-back of more than 128 is past them.
_BATCH = 64

# Over 40 roll-backs on this model: 0.077 at most between a restored prefix and a fresh prefill, 0.052 between two
# fresh prefills in different batches; 6 to 13 without the checkpoint. The logits' standard deviation is 3. (It has two
# experts and uses both: where there is a choice, a rounding can turn it, and the logits jump by up to 5 either way.)
_NOISE, _WRONG = 0.3, 2.0


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_gguf(tmp_path_factory.mktemp("toy") / "toy.gguf", layers=4, experts=2, quantized=False)


@pytest.fixture
def engine(toy: Path) -> Iterator[LlamaEngine]:
    engine = load_engine(toy, batch_tokens=_BATCH)
    yield engine
    engine.close()


def _ids(count: int, seed: int) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(source.randrange(250) for _ in range(count))


def _distance(one: object, other: object) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


def test_a_roll_back_past_the_window_gives_the_logits_of_a_fresh_prefill(engine: LlamaEngine, toy: Path) -> None:
    prompt = _ids(300, seed=1)
    generate(engine, Prompt(prompt, marks=(100, 300)), 300)
    following = prompt + _ids(20, seed=2)

    logits, reused = prefill(engine, Prompt(following))

    assert reused == 300
    assert _distance(logits, fresh_logits(toy, following, batch_tokens=_BATCH)) < _NOISE


def test_what_was_held_and_is_read_again_is_counted(engine: LlamaEngine) -> None:
    def counts(prompt: Prompt) -> tuple[int, int, int]:
        generation = engine.generate(Task(prompt, max_tokens=300, sampling=GREEDY), control=Control())
        ids.extend(item for item in generation if isinstance(item, int))
        stats = generation.stats
        return stats.reused_tokens, stats.evaluated_tokens, stats.lost_tokens

    ids: list[int] = []
    prompt = _ids(300, seed=1)
    assert counts(Prompt(prompt, marks=(100, 300))) == (0, 300, 0)
    following = (*prompt, *ids[:5], *_ids(20, seed=2))  # five of the answer's, behind what its window holds by now
    assert counts(Prompt(following)) == (300, 25, 5)
    assert counts(Prompt(prompt[:100])) == (0, 100, 100)  # logits after it were never asked for


def test_without_the_checkpoint_the_logits_are_wrong(engine: LlamaEngine, toy: Path) -> None:
    """What llama.cpp calls a success: the test above would fail if the checkpoint were left out."""
    prompt = _ids(300, seed=1)
    generated = generate(engine, Prompt(prompt), 300)
    following = prompt + _ids(20, seed=2)
    trusting = PrefixCache(engine.memory, window=0, max_bytes=0)  # takes every prefix for usable
    trusting.extend([*prompt, *generated[:-1]])
    work = Prefill(Prompt(following), Lane(engine.native, trusting))

    assert [progress.done for progress in work] == [300, 320]
    assert _distance(work.logits, fresh_logits(toy, following, batch_tokens=_BATCH)) > _WRONG


def test_without_any_checkpoint_everything_is_decoded_again(toy: Path) -> None:
    engine = load_engine(toy, batch_tokens=_BATCH, checkpoint_bytes=0)
    prompt = _ids(300, seed=1)
    generate(engine, Prompt(prompt, marks=(100, 300)), 300)
    following = prompt + _ids(20, seed=2)

    logits, reused = prefill(engine, Prompt(following))

    assert reused == 0
    assert _distance(logits, fresh_logits(toy, following, batch_tokens=_BATCH)) < _NOISE
    engine.close()


def test_a_whole_conversation_is_reused_turn_by_turn(engine: LlamaEngine, toy: Path) -> None:
    static = _ids(120, seed=3)
    ids: tuple[int, ...] = static
    for turn in range(4):
        ids += _ids(40, seed=10 + turn)
        marks = (len(static), len(ids))
        thought = generate(engine, Prompt(ids, marks), 150)
        held = len(engine.lane.cache)
        assert held == len(ids) + 149  # the last id was sampled, not decoded
        ids += tuple(thought)
        result = Prompt(ids + _ids(5, seed=20 + turn), (len(static), len(ids) + 5))
        logits, reused = prefill(engine, result)
        assert reused == held  # what was generated needn't be decoded again
        assert _distance(logits, fresh_logits(toy, result.ids, batch_tokens=_BATCH)) < _NOISE
        ids = ids[: marks[1]] + tuple(thought[-10:])  # the thoughts leave the prompt, the answer stays


def test_a_short_roll_back_needs_no_checkpoint(engine: LlamaEngine, toy: Path) -> None:
    prompt = _ids(100, seed=1)
    generate(engine, Prompt(prompt), 60)
    following = prompt[:70] + _ids(20, seed=2)

    logits, reused = prefill(engine, Prompt(following))

    assert reused == 70
    assert _distance(logits, fresh_logits(toy, following, batch_tokens=_BATCH)) < _NOISE


def test_the_same_prompt_again_is_not_decoded_at_all(engine: LlamaEngine) -> None:
    prompt = Prompt(_ids(300, seed=1), marks=(100, 300))
    first, _ = prefill(engine, prompt)
    answer = generate(engine, prompt, 300)

    again, reused = prefill(engine, prompt)

    assert reused == 300
    assert _distance(first, again) == 0
    assert len(answer) == 300
    assert generate(engine, prompt, 8) == answer[:8]


def test_the_same_prompt_without_a_mark_decodes_its_last_id_again(engine: LlamaEngine) -> None:
    prompt = Prompt(_ids(100, seed=1))
    first, _ = prefill(engine, prompt)

    again, reused = prefill(engine, prompt)

    assert reused == 99
    assert _distance(first, again) < _NOISE


@pytest.mark.parametrize("seed", range(3))
def test_random_roll_backs_agree_with_a_fresh_engine(engine: LlamaEngine, toy: Path, seed: int) -> None:
    source = random.Random(seed)
    ids: tuple[int, ...] = ()
    for step in range(8):
        keep = source.choice([0, len(ids), source.randrange(len(ids) + 1), source.randrange(len(ids) + 1)])
        ids = ids[:keep] + _ids(source.choice([1, 7, 60, 250]), seed=1000 * seed + step)
        marks = tuple(sorted({source.randrange(1, len(ids) + 1) for _ in range(3)} | {len(ids)}))
        logits, _ = prefill(engine, Prompt(ids, marks))
        assert _distance(logits, fresh_logits(toy, ids, batch_tokens=_BATCH)) < _NOISE, (step, keep)
        ids += tuple(generate(engine, Prompt(ids, marks), source.choice([1, 30, 200])))
        ids = ids[:1200]


def test_checkpoints_stay_within_their_bytes_and_the_static_one_survives(toy: Path) -> None:
    probe = load_engine(toy, batch_tokens=_BATCH)
    prefill(probe, Prompt(_ids(200, seed=1), marks=(150,)))
    one = probe.lane.cache.checkpoint_bytes
    probe.close()
    engine = load_engine(toy, batch_tokens=_BATCH, checkpoint_bytes=3 * one)
    ids = _ids(1200, seed=1)

    prefill(engine, Prompt(ids, marks=(150, 350, 550, 750, 950, 1150)))

    cache = engine.lane.cache
    assert cache.checkpoint_lengths == (150, 950, 1150)
    assert cache.checkpoint_bytes <= 3 * one
    logits, reused = prefill(engine, Prompt(ids[:800]))
    assert reused == 150
    assert _distance(logits, fresh_logits(toy, ids[:800], batch_tokens=_BATCH)) < _NOISE
    engine.close()


def test_a_broken_off_decode_leaves_what_the_memory_holds(engine: LlamaEngine, toy: Path) -> None:
    ids = _ids(400, seed=1)
    prefill(engine, Prompt(ids[:250], marks=(250,)))
    stop = engine.native.new_abort_flag()
    stop()
    assert not engine.lane.advance(ids[250:300])
    assert len(engine.lane.cache) == 250
    engine.native.new_abort_flag()

    logits, reused = prefill(engine, Prompt(ids))

    assert reused == 250
    assert _distance(logits, fresh_logits(toy, ids, batch_tokens=_BATCH)) < _NOISE


class _BrokenOff:
    """Decodes the first ten ids; then it is aborted, or interrupted."""

    def __init__(self, engine: LlamaEngine, error: type[BaseException] | None) -> None:
        self._native = engine.native
        self._error = error
        self.batch_tokens = self.step_tokens = engine.native.batch_tokens

    def decode(self, start: int, ids: Sequence[int], *, logits: bool = True) -> bool:
        self._native.decode(start, ids[:10])
        if self._error:
            raise self._error
        return False

    def logits(self) -> Logits:
        return self._native.logits()


class _Watched:
    """Decodes, and keeps the length of each step and whether it asked for logits."""

    def __init__(self, engine: LlamaEngine) -> None:
        self._native = engine.native
        self.batch_tokens = self.step_tokens = engine.native.batch_tokens
        self.steps: list[tuple[int, bool]] = []

    def decode(self, start: int, ids: Sequence[int], *, logits: bool = True) -> bool:
        self.steps.append((len(ids), logits))
        return self._native.decode(start, ids, logits=logits)

    def logits(self) -> Logits:
        return self._native.logits()


def test_a_prefill_asks_for_the_last_logits_alone(engine: LlamaEngine, toy: Path) -> None:
    ids = _ids(50 + _BATCH + 36, seed=1)
    watched = _Watched(engine)
    work = Prefill(Prompt(ids, marks=(50, len(ids))), Lane(watched, engine.lane.cache))

    assert [progress.done for progress in work] == [0, 50, 50 + _BATCH, len(ids)]

    assert watched.steps == [(50, False), (_BATCH, False), (36, True)]
    assert work.logits is not None
    assert _distance(work.logits, fresh_logits(toy, ids, batch_tokens=_BATCH)) < _NOISE


def test_what_an_aborted_decode_took_counts(engine: LlamaEngine) -> None:
    ids = _ids(100, seed=1)
    prefill(engine, Prompt(ids[:40]))

    assert not Lane(_BrokenOff(engine, None), engine.lane.cache).advance(ids[40:70])

    assert len(engine.lane.cache) == 50
    assert prefill(engine, Prompt(ids))[1] == 50


def test_what_an_interrupted_decode_took_counts(engine: LlamaEngine) -> None:
    ids = _ids(100, seed=1)
    prefill(engine, Prompt(ids[:40]))

    with pytest.raises(KeyboardInterrupt):
        Lane(_BrokenOff(engine, KeyboardInterrupt), engine.lane.cache).advance(ids[40:70])

    assert len(engine.lane.cache) == 50
    assert prefill(engine, Prompt(ids))[1] == 50


def test_a_decode_that_lost_the_memory_leaves_an_empty_cache() -> None:
    memory = _Memory(200, 399)
    cache = PrefixCache(memory, window=128, max_bytes=1 << 20)
    cache.extend(range(400))
    cache.checkpoint()
    memory.newest = memory.oldest = -1
    cache.resync([1, 2, 3])
    assert (len(cache), cache.checkpoint_lengths) == (0, ())


def test_another_conversation_starts_from_nothing(engine: LlamaEngine, toy: Path) -> None:
    generate(engine, Prompt(_ids(300, seed=1), marks=(100, 300)), 100)
    other = _ids(200, seed=2)

    logits, reused = prefill(engine, Prompt(other))

    assert (reused, engine.lane.cache.checkpoint_lengths) == (0, ())
    assert _distance(logits, fresh_logits(toy, other, batch_tokens=_BATCH)) < _NOISE


class _Memory:
    """Holds the positions from `oldest` up to `newest` in its sliding-window layers."""

    def __init__(self, oldest: int, newest: int) -> None:
        self.oldest = oldest
        self.newest = newest

    def truncate(self, length: int) -> None:
        self.newest = length - 1

    def save_window(self) -> bytes | None:
        return b"state"

    def restore_window(self, saved: bytes) -> bool:
        return False


@pytest.mark.parametrize(("oldest", "usable"), [(0, 300), (172, 300), (173, 300), (174, 0), (299, 0), (-1, 0)])
def test_the_128_ids_that_the_next_one_sees_must_all_be_there(oldest: int, usable: int) -> None:
    # The id at position 300 sees itself and the 127 before it: positions 173 to 300.
    cache = PrefixCache(_Memory(oldest, 399), window=128, max_bytes=0)
    cache.extend(range(400))

    assert cache.rewind([*range(300), -5]) == usable


def test_what_another_lane_takes_meanwhile_is_missed() -> None:
    """It takes cells from behind the window: those that a way back begins with, just before that is gone."""
    memory = _Memory(170, 299)
    cache = PrefixCache(memory, window=128, max_bytes=1 << 20)
    cache.extend(range(300))

    def truncate(length: int) -> None:
        memory.oldest, memory.newest = 172, length - 1

    memory.truncate = truncate  # type: ignore[method-assign]
    assert cache.rewind([*range(298), -5]) == 0
    assert len(cache) == 0


@pytest.mark.parametrize("restores", [True, False])
def test_a_checkpoint_that_does_not_restore_what_it_should_is_not_used(restores: bool) -> None:
    memory = _Memory(200, 299)
    cache = PrefixCache(memory, window=128, max_bytes=1 << 20)
    cache.extend(range(300))
    cache.checkpoint()
    memory.restore_window = lambda saved: restores  # type: ignore[method-assign]  # it says so, and nothing changed

    assert cache.rewind([*range(300), -5]) == 0
    assert (len(cache), cache.checkpoint_lengths) == (0, ())


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ((), ()),
        ((77,), (77,)),
        ((61, 75, 77), (61, 77)),  # the end of the user message is two ids before the end of the prompt
        ((61, 175, 177), (61, 177)),
        ((61, 175, 240), (61, 175, 240)),
        ((61, 75, 76, 77, 200, 202), (61, 77, 202)),
        ((0, 61, 61, 999), (61,)),  # beyond the prompt, twice, at nothing
    ],
)
def test_marks_worth_stopping_at(marks: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert checkpoints_of(Prompt(tuple(range(300)), marks)) == expected


def test_an_inner_mark_keeps_no_logits_of_where_the_prefill_began(engine: LlamaEngine, toy: Path) -> None:
    """A prompt that ends on a mark that an earlier one only passed: its logits are its own."""
    ids = _ids(300, seed=9)
    prefill(engine, Prompt(ids[:100], marks=(60, 100)))
    prefill(engine, Prompt(ids, marks=(60, 200, 300)))

    logits, _ = prefill(engine, Prompt(ids[:200], marks=(60, 200)))

    assert _distance(logits, fresh_logits(toy, ids[:200], batch_tokens=_BATCH)) < _NOISE
