"""A conversation that had to give its lane to another goes on without reading its prompt again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Static, Task
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.engine.parked import Parked, ParkedCache
from tests.support.engines import ETUDE, GREEDY, generate, load_engine, load_lanes

HEAD = tuple(range(100, 200))


@pytest.fixture
def lanes() -> Iterator[tuple[LlamaEngine, ...]]:
    lanes = load_lanes(ETUDE, 2, step_tokens=64)
    yield lanes
    for lane in lanes:
        lane.close()


def _prompt(own: range) -> Prompt:
    ids = (*HEAD, *own)
    return Prompt(ids, marks=(len(HEAD), len(ids)), static=(Static(len(HEAD)),))


def _evaluated(engine: LlamaEngine, prompt: Prompt) -> int:
    generation = engine.generate(Task(prompt, max_tokens=1, sampling=GREEDY), control=Control())
    assert len([item for item in generation if isinstance(item, int)]) == 1
    return generation.stats.evaluated_tokens


def test_a_parked_conversation_goes_on_in_any_lane(lanes: tuple[LlamaEngine, ...]) -> None:
    one, other = lanes
    first, second = _prompt(range(200, 500)), _prompt(range(300, 700))
    said = generate(one, first, 20)

    assert one.change_conversation("first", "second") == 0
    assert _evaluated(one, second) == len(second.ids) - len(HEAD), "of another's only what is static"
    assert other.change_conversation(None, "first") == len(first.ids) + 19
    following = Prompt((*first.ids, *said[:19], 7, 8), (len(HEAD), len(first.ids)), first.static)
    assert _evaluated(other, following) == 2

    plain = load_engine(ETUDE, step_tokens=64)
    assert generate(other, following, 5) == generate(plain, following, 5)
    plain.close()
    assert one.change_conversation("second", "first") == 0, "it is parked no longer"
    assert one.change_conversation(None, "second") == len(second.ids)


def test_those_parked_longest_ago_make_room() -> None:
    parked = Parked(max_bytes=100)
    cache = ParkedCache((1, 2), (), bytearray(40))
    for key in ("a", "b", "a", "c"):
        parked.put(key, cache)
    assert parked.take("b") is None
    assert (parked.take("a"), parked.take("a"), parked.take("c")) == (cache, None, cache)
    parked.put("e", cache)
    parked.put("d", replace(cache, state=bytearray(101)))
    assert (parked.take("d"), parked.take("e")) == (None, cache), "for one that is too large, none is dropped"


def test_no_more_than_so_many_are_parked() -> None:
    parked = Parked(max_caches=2)
    for key in ("a", "b", "c"):
        parked.put(key, ParkedCache((1, 2), (), bytearray(1)))
    assert [parked.take(key) is not None for key in ("a", "b", "c")] == [False, True, True]
