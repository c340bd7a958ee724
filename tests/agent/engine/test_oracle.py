"""The engine's ids are llama.cpp's own, whatever its memory was rolled back from. At length: `tests.oracle.engine`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ossia.agent.engine.cache import PrefixCache
from ossia.agent.engine.generation import Lane
from ossia.agent.engine.llama import LlamaEngine
from tests.oracle.engine import ANSWER_TOKENS, LlamaServer, Parting, ServerError, Tally, compare, report, two_engines
from tests.support.engines import ETUDE, plain_greedy
from tests.support.toy_gguf import write_toy_gguf

# An environment of a test has nothing of the caller's: asked for before.
_SERVER = os.environ.get("OSSIA_LLAMA_SERVER")

needs_server = pytest.mark.skipif(_SERVER is None, reason="OSSIA_LLAMA_SERVER names no llama-server")

_COUNT = 5
_SEED = 81  # some of its 5 prompts go back past the window, on each of the models
_SERVER_COUNT = 20


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_gguf(tmp_path_factory.mktemp("toy") / "toy.gguf", layers=4, experts=2, quantized=False)


@pytest.fixture(params=["étude", "toy"])
def model(request: pytest.FixtureRequest, toy: Path) -> Path:
    return ETUDE if request.param == "étude" else toy


@pytest.fixture
def engines(model: Path) -> Iterator[tuple[LlamaEngine, LlamaEngine]]:
    with two_engines(model) as engines:
        yield engines


def _plain(path: Path) -> Callable[[Sequence[int], int], list[int]]:
    return lambda ids, count: plain_greedy(path, ids, count)


def _trust_llama_cpp(engine: LlamaEngine) -> None:
    """From now on take every prefix for usable, as `llama_memory_seq_rm` does: no checkpoint is restored."""
    engine.lane = Lane(engine.native, PrefixCache(engine.memory, window=0, max_bytes=0))


def test_ids_are_those_of_a_plain_eval(engines: tuple[LlamaEngine, LlamaEngine], model: Path) -> None:
    tally = compare(*engines, _plain(model), count=_COUNT, seed=_SEED)
    assert tally.passed, report(model.stem, tally)
    assert (tally.prompts, tally.compared_tokens) == (_COUNT, _COUNT * ANSWER_TOKENS)
    assert tally.far_returns >= 1


def test_a_checkpoint_that_is_not_restored_is_found(toy: Path) -> None:
    with two_engines(toy) as engines:
        _trust_llama_cpp(engines[0])
        tally = compare(*engines, _plain(toy), count=_COUNT, seed=_SEED)
    assert not tally.passed, report("toy", tally)


@needs_server
def test_ids_are_those_of_llama_server(engines: tuple[LlamaEngine, LlamaEngine], model: Path, tmp_path: Path) -> None:
    with LlamaServer(Path(str(_SERVER)), model, log=tmp_path / "log") as server:
        tally = compare(*engines, server.greedy, count=_SERVER_COUNT)
    assert tally.passed, report(model.stem, tally)
    assert tally.compared_tokens >= 20 * _SERVER_COUNT  # an answer that has ended is shorter than was asked for
    assert tally.far_returns >= 1


@needs_server
def test_llama_server_finds_a_checkpoint_that_is_not_restored(toy: Path, tmp_path: Path) -> None:
    with LlamaServer(Path(str(_SERVER)), toy, log=tmp_path / "log") as server, two_engines(toy) as engines:
        _trust_llama_cpp(engines[0])
        tally = compare(*engines, server.greedy, count=_SERVER_COUNT)
    assert not tally.passed, report("toy", tally)


@needs_server
def test_a_server_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match=r"isn't up \(exit code 1\)"),
        LlamaServer(Path(str(_SERVER)), tmp_path / "no.gguf", log=tmp_path / "log"),
    ):
        pass


@pytest.mark.parametrize(
    ("preferences", "is_tie"),
    [((0.3,), True), ((-0.3,), True), ((1.6, 1.5, -0.9), True), ((1.6, 1.5, 0.9), False), ((-7.0, -6.0), False)],
)
def test_what_counts_as_a_tie(preferences: tuple[float, ...], is_tie: bool) -> None:
    tally = Tally(compared_tokens=100, partings=[Parting(200, 100, 7, 8, preferences)])
    assert (tally.partings[0].is_tie, tally.passed) == (is_tie, is_tie)


def test_many_ties_are_no_pass() -> None:
    tie = Parting(200, 100, 7, 8, (0.1,))
    assert Tally(compared_tokens=100, partings=[tie] * 2).passed
    assert not Tally(compared_tokens=100, partings=[tie] * 3).passed
