"""Generation under the guide: on the étude's weights, which write well, and on random ones, which write anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Constraint, ConstraintDropped, Forced, Progress, Prompt, Task
from ossia.agent.engine.cache import Logits
from ossia.agent.engine.generation import Decoder, Lane, LocalGeneration, Prefill
from ossia.agent.engine.guiding import Choice, OneOf
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.engine.sampling import Sampler
from ossia.agent.events import Event, Stats
from ossia.agent.request import Request
from ossia.agent.respond import LocalResponder
from ossia.harmony.codec import Codec
from ossia.harmony.messages import Completion, Message, ResponseFormat
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.spec import ToolSpec
from tests.oracle.guided import play
from tests.support.engines import ETUDE, GREEDY, generate, load_engine, load_lanes
from tests.support.streams import harmony_ids
from tests.support.toy_gguf import write_toy_gguf

WEATHER = ToolSpec(
    "functions.get_weather",
    "Returns weather data.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
    provenance="built-in",
)
PYTHON = ToolSpec("python", "", input="text", trained=True, provenance="built-in")
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


@pytest.fixture(scope="module")
def etude() -> Iterator[LlamaEngine]:
    engine = load_engine(ETUDE, guided=True)
    yield engine
    engine.close()


@dataclass
class Step:
    """One step: its events, its ids as they came, and what was made of them."""

    events: list[Event] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    completion: Completion | None = None


def _step(engine: LlamaEngine, question: str, *tools: ToolSpec, guided: bool = True, **more: object) -> Step:
    step = Step()
    codec = Codec(Tokenizer(engine.vocabulary), recipient_position="channel", replay=True)
    responder = LocalResponder(codec, engine, tap=step.ids.extend, guided=guided)
    request = Request((Message("user", (question,)),), tools=tools, date="2026-11-22", sampling=GREEDY, **more)  # type: ignore[arg-type]
    running = responder.respond(request, control=Control())
    while True:
        try:
            step.events.append(next(running))
        except StopIteration as done:
            step.completion = done.value
            return step


@pytest.mark.parametrize(
    ("question", "tools", "answer"),
    [
        ("Hello!", (), None),
        ("What is 48*17?", (PYTHON,), None),
        ("My friend Wilhelmina is 47.", (), ResponseFormat("person", PERSON)),
    ],
)
def test_what_is_written_well_anyway_is_the_same(
    etude: LlamaEngine, question: str, tools: tuple[ToolSpec, ...], answer: ResponseFormat | None
) -> None:
    guided, free = (_step(etude, question, *tools, guided=on, response_format=answer) for on in (True, False))
    assert (guided.ids, guided.completion) == (free.ids, free.completion)
    assert guided.completion is not None and guided.completion.end == "stop"
    assert any(isinstance(token, Forced) for token in guided.ids)
    assert not any(isinstance(token, Forced) for token in free.ids)


def test_each_lane_follows_its_own_guide() -> None:
    """They have one compiler, and ask it for the first time all at once."""
    asked: list[tuple[str, tuple[ToolSpec, ...], ResponseFormat | None]] = [
        ("What is the weather in Paris?", (WEATHER,), None),
        ("What is 48*17?", (PYTHON,), None),
        ("My friend Wilhelmina is 47.", (), ResponseFormat("person", PERSON)),
        ("Hello!", (WEATHER, PYTHON), None),
    ]
    lanes = load_lanes(ETUDE, len(asked), guided=True)
    try:
        for _ in range(2):
            with ThreadPoolExecutor(len(asked)) as pool:
                pairs = zip(lanes, asked, strict=True)
                running = [pool.submit(_step, lane, one[0], *one[1], response_format=one[2]) for lane, one in pairs]
                steps = [one.result(60) for one in running]
            weather, python, person, hello = (step.completion.messages[-1] for step in steps if step.completion)
            assert (weather.recipient, json.loads(weather.text)) == ("functions.get_weather", {"city": "Paris"})
            assert (python.recipient, hello.recipient) == ("python", None)
            assert set(json.loads(person.text)) == {"name", "age"}
    finally:
        for lane in lanes:
            lane.close()


def test_arguments_follow_their_schema(etude: LlamaEngine) -> None:
    step = _step(etude, "What is the weather in Paris?", WEATHER)
    assert step.completion is not None and step.completion.repairs == ()
    call = step.completion.messages[-1]
    assert (call.recipient, call.text) == ("functions.get_weather", '{"city":"Paris"}')


def test_arguments_have_no_name_that_would_be_sent_back(etude: LlamaEngine) -> None:
    """The schema, as people write them, doesn't say that there are no others."""
    note = ToolSpec(
        "functions.add_note",
        "Add a note.",
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        provenance="built-in",
    )
    step = _step(etude, "add_note with text buy milk and eggs", note)
    assert step.completion is not None
    assert list(json.loads(step.completion.messages[-1].text)) == ["text"]


def test_forced_ids_are_counted_yielded_and_kept_like_sampled_ones(etude: LlamaEngine) -> None:
    step = _step(etude, "What is the weather in Paris?", WEATHER)
    stats = next(event.step for event in step.events if isinstance(event, Stats))
    forced = sum(isinstance(token, Forced) for token in step.ids)
    assert stats.forced_tokens == forced > 5
    assert stats.completion_tokens == len(step.ids) - 2  # the tap gets `<|start|>assistant`, too
    sampled = [message.sampled.ids for message in step.completion.messages if message.sampled]  # type: ignore[union-attr]
    assert [token for ids in sampled for token in ids] == step.ids


@dataclass
class Counting:
    """A decoder that notes how many ids each step took."""

    inner: Decoder
    sizes: list[int] = field(default_factory=list)

    @property
    def batch_tokens(self) -> int:
        return self.inner.batch_tokens

    @property
    def step_tokens(self) -> int:
        return self.inner.step_tokens

    def decode(self, start: int, ids: Sequence[int], *, logits: bool = True) -> bool:
        self.sizes.append(len(ids))
        return self.inner.decode(start, ids, logits=logits)

    def logits(self) -> Logits:
        return self.inner.logits()


@dataclass
class Chain:
    """A guide: anything may come, and after the first id `following` must."""

    following: Sequence[int]
    only: Sequence[int] = ()

    def next(self) -> Choice:
        return OneOf.of(self.only) if self.only else None

    def unlikely(self) -> ConstraintDropped | None:
        self.only = ()
        return ConstraintDropped("header", "a test")

    def take(self, token: int) -> Sequence[int]:
        following, self.following = self.following, ()
        return following

    def dropped(self) -> ConstraintDropped | None:
        return None


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_gguf(tmp_path_factory.mktemp("toy") / "toy.gguf", context=8192)


_IDS = tuple(range(40, 80))


def _generation(
    engine: LlamaEngine,
    guide: Chain,
    *,
    most: int = 12,
    stops: frozenset[int] = frozenset(),
    prompt: tuple[int, ...] = _IDS,
) -> tuple[LocalGeneration, Counting, Control]:
    counting, control = Counting(engine.native), Control()
    lane = Lane(counting, engine.lane.cache)
    sampler = Sampler(GREEDY, engine.vocabulary.size)
    prefill = Prefill(Prompt(prompt), lane)
    return (
        LocalGeneration(
            prefill, sampler, Task(prefill.prompt, stops=stops, max_tokens=most), 4096, control, lambda: None, guide
        ),
        counting,
        control,
    )


def _ids(items: Iterable[object]) -> list[int]:
    return [item for item in items if isinstance(item, int)]


def test_what_must_come_goes_through_the_network_in_one_batch(toy: Path) -> None:
    engine = load_engine(toy)
    following = [65, 66, 67, 68]
    generation, counting, _ = _generation(engine, Chain(following))

    ids = _ids(generation)

    assert counting.sizes == [40, 5, *[1] * 6]
    assert [isinstance(token, Forced) for token in ids] == [False, *[True] * 4, *[False] * 7]
    assert ids[1:5] == following and generation.stats.forced_tokens == 4
    fresh = load_engine(toy)  # which reads the same ids in the prompt
    assert generate(fresh, Prompt((*_IDS, *ids[:5])), 7) == ids[5:]
    for one in (engine, fresh):
        one.close()


def test_more_than_a_batch_takes_goes_in_several(toy: Path) -> None:
    engine = load_engine(toy, batch_tokens=32)
    generation, counting, _ = _generation(engine, Chain([65] * 70), most=72)
    assert len(_ids(generation)) == 72
    assert counting.sizes == [32, 8, 32, 32, 7]
    engine.close()


@pytest.mark.parametrize("after", range(6))
def test_ended_anywhere_in_what_must_come_the_engine_is_ready(toy: Path, after: int) -> None:
    engine = load_engine(toy)
    expected = generate(engine, Prompt(_IDS[:20]), 5)
    for kind in ("close", "stop", "limit", "stop id"):
        stops = frozenset({65 + after}) if kind == "stop id" else frozenset()
        most = after if kind == "limit" else 100
        generation, _, control = _generation(engine, Chain([65, 66, 67, 68, 69, 70]), most=most, stops=stops)
        ids: list[int] = []
        for item in generation:
            ids += _ids([item])
            if kind == "close" and len(ids) == after + 1:
                generation.close()
            if kind == "stop" and len(ids) == after + 1:
                control.stop()
        assert len(ids) == {"limit": after, "stop id": after + 2}.get(kind, after + 1)
        assert generation.stats.completion_tokens == len(ids)
        assert generate(engine, Prompt(_IDS[:20]), 5) == expected
    engine.close()


def test_a_header_that_is_let_go_is_told_before_its_id(etude: LlamaEngine) -> None:
    tokenizer = Tokenizer(etude.vocabulary)
    start = tuple(harmony_ids(tokenizer, "<|start|>user<|message|>Hello!<|end|><|start|>assistant"))
    generation, _, _ = _generation(etude, Chain((), only=[65]), most=1, prompt=start)
    told = [item for item in generation if not isinstance(item, Progress)]
    assert told == [ConstraintDropped("header", "a test"), tokenizer.control.channel]  # of which it is sure


def test_an_engine_without_guides_says_so(toy: Path) -> None:
    engine = load_engine(toy)
    assert "constraint" not in engine.capabilities
    with pytest.raises(ValueError, match="compiles no constraint"):
        engine.generate(Task(Prompt(_IDS), max_tokens=1, sampling=GREEDY, constraint=Constraint()), control=Control())
    engine.close()


def test_random_weights_write_nothing_malformed(toy: Path) -> None:
    """At length: `python -m tests.oracle.guided`."""
    engine = load_engine(toy, context_tokens=8192, guided=True, insists=True)
    tokenizer = Tokenizer(engine.vocabulary)
    seen = play(engine, tokenizer, (11, 29, 33, 37, 43, 45, 49), guided=True, max_tokens=300)
    assert seen.faults == 0
    assert seen.calls and seen.structured and seen.cut  # all of it was there to go wrong
    assert play(engine, tokenizer, range(1), guided=False, max_tokens=400).malformed
    engine.close()
