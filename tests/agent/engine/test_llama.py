"""llama.cpp in this process: the ids it gives, how it ends, what it says when it can't."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Constraint, Progress, Prompt, Sampling, StepStats, Task
from ossia.agent.engine.generation import LocalGeneration, Prefill
from ossia.agent.engine.llama import LlamaEngine, LlamaSettings
from ossia.agent.engine.sampling import Sampler
from ossia.agent.engine.threads import step_tokens
from ossia.agent.errors import ContextFull, EngineFailed, ModelUnusable
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gpt_oss import read_vocabulary
from tests.support.engines import ETUDE, GREEDY, generate, load_engine, plain_greedy
from tests.support.toy_gguf import write_toy_gguf


@pytest.fixture
def engine(toy: Path) -> Iterator[LlamaEngine]:
    engine = load_engine(toy)
    yield engine
    engine.close()


def _ids(count: int, seed: int, below: int = 250) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(source.randrange(below) for _ in range(count))


def _start(
    engine: LlamaEngine,
    ids: tuple[int, ...],
    *,
    stops: frozenset[int] = frozenset(),
    max_tokens: int | None = 20,
    sampling: Sampling = GREEDY,
    control: Control | None = None,
) -> LocalGeneration:
    return engine.generate(
        Task(Prompt(ids, marks=(len(ids),)), stops=stops, max_tokens=max_tokens, sampling=sampling),
        control=control or Control(),
    )


def _tokens(generation: LocalGeneration) -> list[int]:
    return [item for item in generation if isinstance(item, int)]


@pytest.mark.parametrize("seed", range(10))
def test_greedy_ids_of_the_toy_are_those_of_the_high_level_class(toy: Path, engine: LlamaEngine, seed: int) -> None:
    prompt = _ids(20 + 37 * seed, seed)
    oracle = llama_cpp.Llama(str(toy), n_ctx=2048, n_threads=1, n_threads_batch=1, flash_attn=True, verbose=False)
    oracle.eval(list(prompt))
    expected = []
    for _ in range(60):
        expected.append(int(oracle.sample(temp=0)))
        oracle.eval(expected[-1:])
    oracle.close()

    assert generate(engine, Prompt(prompt), 60) == expected


def test_greedy_ids_of_the_etude_are_those_of_a_plain_loop() -> None:
    engine = load_engine(ETUDE)
    for seed in range(10):
        prompt = _ids(20 + 37 * seed, seed, below=2400)
        assert generate(engine, Prompt(prompt), 60) == plain_greedy(ETUDE, prompt, 60), seed
    engine.close()


class Beside:
    """In place of `Waiting`: three threads fit, whoever asks."""

    fitting = 3
    told: list[str]

    def __init__(self, threads: int) -> None:
        self.told.append(f"{threads} threads")

    def before_step(self) -> None:
        self.told.append("before")

    def after_step(self) -> None:
        self.told.append("after")

    def close(self) -> None:
        self.told.append("close")


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> type[Beside]:
    Beside.told = []
    monkeypatch.setattr("ossia.agent.engine._native.waiting_for", Beside)
    return Beside


def test_how_threads_wait_is_decided_around_each_step(toy: Path, beside: type[Beside]) -> None:
    engine = load_engine(toy)
    assert len(generate(engine, Prompt(_ids(600, seed=1)), 2)) == 2
    engine.close()
    assert beside.told == ["1 threads", *["before", "after"] * 3, "close"]  # two batches of the prompt, one id


def test_what_can_be_had_again_is_computed_with_the_same_number_of_threads(
    toy: Path, beside: type[Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    monkeypatch.setattr(llama_cpp.llama_cpp, "llama_set_n_threads", lambda context, one, batch: used.append(one))
    engine = load_engine(toy)
    for settings in (Sampling(seed=1), GREEDY, Sampling(), Sampling(), Sampling(seed=1)):
        list(_start(engine, _ids(3, seed=1), max_tokens=2, sampling=settings))
    engine.close()
    assert used == [3, 1]


def test_what_a_generation_yields_and_counts(engine: LlamaEngine) -> None:
    ids = _ids(600, seed=1)
    generation = _start(engine, ids, max_tokens=5)

    items = list(generation)

    assert items[:3] == [Progress(0, 600), Progress(512, 600), Progress(600, 600)]
    assert [type(item) for item in items[3:]] == [int] * 5  # plain ints, never numpy's
    stats = generation.stats
    assert stats == StepStats(600, 0, 5, stats.prefill_s, stats.decode_s, "tokens", evaluated_tokens=600)
    assert stats.prefill_s > 0 and stats.decode_s > 0
    assert (engine.name, engine.context_tokens, engine.capabilities) == ("toy", 2048, frozenset({"prefill", "save"}))
    assert engine.vocabulary.size == 266


def test_a_stop_id_is_yielded_and_ends_it(engine: LlamaEngine) -> None:
    ids = _ids(50, seed=2)
    free = generate(engine, Prompt(ids), 30)
    stop = free[12]

    generation = _start(engine, ids, stops=frozenset({stop}), max_tokens=None)

    assert _tokens(generation) == free[: free.index(stop) + 1]
    assert generation.stats.end == "stop"
    assert len(engine.lane.cache) == 50 + free.index(stop)  # the stop id itself isn't decoded


def test_the_end_of_the_context(toy: Path) -> None:
    engine = load_engine(toy, context_tokens=256)
    generation = _start(engine, _ids(250, seed=3), max_tokens=None)
    assert len(_tokens(generation)) == 6
    assert generation.stats.end == "context"

    assert len(_tokens(_start(engine, _ids(255, seed=3), max_tokens=None))) == 1
    with pytest.raises(ContextFull) as full:
        _start(engine, _ids(256, seed=3))
    assert (full.value.prompt_tokens, full.value.context_tokens) == (256, 256)
    assert len(generate(engine, Prompt(_ids(10, seed=4)), 3)) == 3  # and the engine goes on
    engine.close()


def test_max_tokens_of_nothing(engine: LlamaEngine) -> None:
    generation = _start(engine, _ids(10, seed=4), max_tokens=0)
    assert (_tokens(generation), generation.stats.end) == ([], "tokens")


def test_a_seed_gives_the_same_ids_and_no_seed_others(engine: LlamaEngine) -> None:
    ids = _ids(30, seed=5)
    seeded = [_tokens(_start(engine, ids, sampling=Sampling(seed=7))) for _ in range(2)]
    unseeded = [_tokens(_start(engine, ids, sampling=Sampling())) for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert unseeded[0] != unseeded[1]


@pytest.mark.parametrize("after", range(8))
def test_closed_at_any_item_the_engine_is_ready(engine: LlamaEngine, after: int) -> None:
    ids = _ids(600, seed=6)
    expected = generate(engine, Prompt(ids), 10)
    generation = _start(engine, _ids(580, seed=7))
    for _ in range(after):
        next(generation)

    generation.close()
    generation.close()  # twice is once

    assert generation.stats.end == "stop"
    assert generation.stats.completion_tokens == max(0, after - 3)
    assert list(generation) == []
    assert generate(engine, Prompt(ids), 10) == expected


@pytest.mark.parametrize("after", range(8))
def test_stopped_at_any_item(engine: LlamaEngine, after: int) -> None:
    control = Control()
    generation = _start(engine, _ids(580, seed=7), control=control)
    for _ in range(after):
        next(generation)

    control.stop()

    assert list(generation) == ([Progress(0, 580)] if after == 0 else [])
    assert generation.stats.end == "stopped"
    ids = _ids(600, seed=6)
    assert len(generate(engine, Prompt(ids), 3)) == 3


def test_a_stop_from_another_thread_breaks_into_a_batch(tmp_path: Path) -> None:
    # One batch of 8,192 ids takes several seconds here; the stop comes while it runs.
    path = write_toy_gguf(tmp_path / "slow.gguf", layers=8, embd=256, heads=8, quantized=False, context=16384)
    engine = load_engine(path, context_tokens=16384, batch_tokens=8192, step_tokens=8192)
    control = Control()
    ids = _ids(8192, seed=8)
    generation = _start(engine, ids, control=control)
    assert next(generation) == Progress(0, 8192)
    threading.Timer(0.05, control.stop).start()

    assert list(generation) == []

    assert generation.stats.end == "stopped"
    assert len(engine.lane.cache) < 8192
    assert len(generate(engine, Prompt(ids[:40]), 3)) == 3
    engine.close()


@pytest.mark.parametrize(
    ("threads", "expected"), [(1, 32), (2, 64), (3, 128), (4, 128), (6, 256), (8, 256), (9, 512), (64, 512)]
)
def test_what_so_many_threads_read_at_once(threads: int, expected: int) -> None:
    assert step_tokens(threads) == expected


def test_a_prompt_is_cut_the_same_way_each_time(toy: Path) -> None:
    """By the threads that there are, and not by how fast anything went."""
    engine = load_engine(toy, step_tokens=None)
    for seed in range(3):
        generation = _start(engine, _ids(150, seed=seed), max_tokens=1)
        shown = [item.done for item in generation if isinstance(item, Progress)]
        assert shown == ([0, 150] if llama_cpp.llama_supports_gpu_offload() else [0, 32, 64, 96, 128, 150])
    engine.close()


def test_a_stop_ends_a_prefill_that_cannot_be_aborted(engine: LlamaEngine) -> None:
    # llama.cpp asks whether to abort on processors only. Elsewhere a stop counts between two batches.
    control = Control()
    prefill = Prefill(Prompt(_ids(1500, seed=8)), engine.lane)
    generation = LocalGeneration(
        prefill, Sampler(GREEDY, 266), Task(prefill.prompt, max_tokens=10), 4096, control, lambda: None
    )
    assert [next(generation), next(generation)] == [Progress(0, 1500), Progress(512, 1500)]

    control.stop()

    assert list(generation) == []
    assert (generation.stats.end, len(engine.lane.cache)) == ("stopped", 512)


def test_a_late_stop_of_one_turn_does_not_touch_the_next(engine: LlamaEngine) -> None:
    first = Control()
    _tokens(_start(engine, _ids(30, seed=9), control=first))
    generation = _start(engine, _ids(40, seed=10), max_tokens=4)
    next(generation)
    first.stop()
    assert len(_tokens(generation)) == 4


def test_asking_for_the_answer_ends_nothing_here(engine: LlamaEngine) -> None:
    control = Control()
    control.answer_now()  # the responder, which reads the messages, ends the thinking
    assert len(_tokens(_start(engine, _ids(30, seed=9), control=control))) == 20


def test_prefill_ahead_is_reused(engine: LlamaEngine) -> None:
    ids = _ids(300, seed=11)
    engine.prefill(Prompt(ids[:280]), control=Control())
    generation = _start(engine, ids)
    _tokens(generation)
    stats = generation.stats
    assert (stats.reused_tokens, stats.evaluated_tokens, stats.lost_tokens) == (280, 20, 0)


def test_prefill_ahead_can_be_stopped(engine: LlamaEngine) -> None:
    control = Control()
    control.stop()
    engine.prefill(Prompt(_ids(300, seed=12)), control=control)
    assert len(engine.lane.cache) == 0


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_what_is_asked_aside_leaves_the_conversation_as_it_was(toy: Path, read: bool, stops: bool) -> None:
    """Although it takes more room than a sliding window has: what the conversation needs of it is brought back."""
    engine = load_engine(toy, batch_tokens=64)
    talk, question, more = _ids(700, seed=13), _ids(400, seed=14), _ids(9, seed=15)
    if read:
        engine.prefill(Prompt(talk, marks=(200,)), control=Control())
    control = Control()
    generation = engine.generate(
        Task(Prompt((*talk, *question), marks=(200, 700), side_question=700), max_tokens=20, sampling=GREEDY),
        control=control,
    )
    for number, _ in enumerate(item for item in generation if isinstance(item, int)):
        if stops and number == 5:
            control.stop()
    assert engine.lane.cache.ids == talk

    after = _start(engine, (*talk, *more))
    assert _tokens(after) == plain_greedy(toy, (*talk, *more), 20)
    assert (after.stats.reused_tokens, after.stats.evaluated_tokens, after.stats.lost_tokens) == (700, 9, 0)
    engine.close()


def test_ids_that_the_model_does_not_have(engine: LlamaEngine) -> None:
    generation = _start(engine, (1, 2, 999_999))
    with pytest.raises(EngineFailed, match="invalid token"):
        list(generation)
    assert generation.stats.completion_tokens == 0
    assert len(generate(engine, Prompt((1, 2, 3)), 3)) == 3


def test_misuse_is_an_error_of_ours(engine: LlamaEngine) -> None:
    generation = _start(engine, (1, 2, 3))
    with pytest.raises(RuntimeError, match="closed or exhausted"):
        _start(engine, (1, 2, 3))
    generation.close()
    with pytest.raises(ValueError, match="at least one id"):
        _start(engine, ())
    with pytest.raises(ValueError, match="capabilities"):
        engine.generate(Task(Prompt((1,)), max_tokens=1, sampling=GREEDY, constraint=Constraint()), control=Control())


def test_closing_the_engine_ends_what_is_open(toy: Path) -> None:
    engine = load_engine(toy)
    generation = _start(engine, (1, 2, 3))
    next(generation)
    engine.close()
    engine.close()
    assert list(generation) == []
    with pytest.raises(RuntimeError, match="closed"):
        _start(engine, (1, 2, 3))


def test_the_log_goes_to_its_file_and_nothing_to_the_terminal(
    toy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "llama.log"
    engine = load_engine(toy, log_path=log)
    written = log.read_text()
    generate(engine, Prompt(_ids(900, seed=1)), 20)
    engine.close()

    assert "llama_kv_cache" in written
    assert log.read_text() == written  # nothing more for each token
    assert capfd.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_is_dropped(toy: Path, tmp_path: Path) -> None:
    engine = load_engine(toy, log_path=tmp_path)  # a directory
    assert len(generate(engine, Prompt((1, 2, 3)), 3)) == 3
    engine.close()


def test_loading_reports_progress_and_can_be_given_up(toy: Path) -> None:
    shares: list[float] = []

    def report(share: float) -> bool:
        shares.append(share)
        return True

    load_engine(toy, on_progress=report).close()
    assert shares[0] == 0.0 and shares[-1] == 1.0 and shares == sorted(shares)

    with pytest.raises(EngineFailed, match="given up"):
        load_engine(toy, on_progress=lambda share: False)


@pytest.mark.parametrize(
    "content", [b"", b"not a model", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64], ids=["empty", "text", "lying counts"]
)
def test_a_file_that_is_no_model(toy: Path, tmp_path: Path, content: bytes) -> None:
    vocabulary = read_vocabulary(read_header(toy))
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    for file in (path, tmp_path / "missing.gguf"):
        with pytest.raises(ModelUnusable, match=file.name):
            LlamaEngine.load(file, vocabulary=vocabulary, name="bad", settings=LlamaSettings(256))


def test_a_vocabulary_of_another_size(toy: Path) -> None:
    with pytest.raises(ModelUnusable, match=r"llama\.cpp sees 266 tokens, not 2726"):
        LlamaEngine.load(toy, vocabulary=read_vocabulary(read_header(ETUDE)), name="toy", settings=LlamaSettings(256))


@pytest.mark.skipif(sys.platform != "linux", reason="limits its own address space")
def test_a_context_that_does_not_fit_is_out_of_memory(toy: Path) -> None:
    script = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from ossia.agent.errors import OutOfMemory
        from tests.support.engines import load_engine
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + (300 << 20),) * 2)
        try:
            load_engine(Path(sys.argv[1]), context_tokens=4 << 20)
        except OutOfMemory as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(toy)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "not enough memory for a context of 4194304 tokens" in done.stdout


def test_a_seed_repeats_a_step_but_not_the_step_before(engine: LlamaEngine) -> None:
    """At a temperature where the logits don't matter, only the series of draws tells steps apart."""
    hot = Sampling(temperature=1e6, seed=7)
    one, again, longer = (_tokens(_start(engine, _ids(n, seed=3), sampling=hot)) for n in (20, 20, 21))
    assert one == again
    assert sum(a == b for a, b in zip(one, longer, strict=True)) < 5
