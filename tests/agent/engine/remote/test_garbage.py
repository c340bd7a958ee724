"""Whatever a server sends: ids of the vocabulary come of it, or one line of EngineFailed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.remote.client import Json
from ossia.agent.engine.remote.detect import detect
from ossia.agent.engine.remote.engine import RemoteEngine
from ossia.agent.engine.remote.server import LlamaServer, Vllm
from ossia.agent.errors import EngineFailed
from ossia.harmony.tokenizer import Tokenizer
from tests.support.remote import Canned

VALUES = st.none() | st.booleans() | st.integers(-5, 5000) | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
IDS = st.lists(st.integers(0, 2465), max_size=3) | JSON
COUNTS = st.integers(0, 12) | JSON


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


TIMINGS = some(cache_n=COUNTS, prompt_n=COUNTS, prompt_ms=COUNTS, predicted_ms=COUNTS) | JSON
PROGRESS = some(total=COUNTS, cache=COUNTS, processed=COUNTS) | JSON
LLAMA = some(
    tokens=IDS,
    content=st.text("aé🦉", max_size=3) | JSON,
    tokens_predicted=COUNTS,
    stop=st.booleans() | JSON,
    stop_type=st.sampled_from(["eos", "word", "limit", "none"]) | JSON,
    stopping_word=st.sampled_from(["<|call|>", "x"]) | JSON,
    id_slot=COUNTS,
    truncated=JSON,
    timings=TIMINGS,
    prompt_progress=PROGRESS,
)
CHOICE = some(token_ids=IDS, finish_reason=st.sampled_from(["stop", "length", None]) | JSON, stop_reason=COUNTS) | JSON
USAGE = some(prompt_tokens=COUNTS, prompt_tokens_details=some(cached_tokens=COUNTS) | JSON) | JSON
VLLM = some(choices=st.lists(CHOICE, max_size=2) | JSON, usage=USAGE)


def _asked(server: LlamaServer | Vllm, tokenizer: Tokenizer) -> None:
    engine = RemoteEngine(server, tokenizer.vocabulary, name="x", context_tokens=100)
    generation = engine.generate(
        Task(Prompt((1, 2, 3)), stops=tokenizer.control.generation_stops, max_tokens=5), control=Control()
    )
    try:
        ids = [item for item in generation if isinstance(item, int)]
    except EngineFailed as error:
        assert "\n" not in str(error) and str(error).isprintable()
    else:
        assert len(ids) <= 6 and all(type(one) is int and 0 <= one < tokenizer.vocabulary.size for one in ids)
    stats = generation.stats
    assert stats.prompt_tokens == 3 and min(stats.reused_tokens, stats.evaluated_tokens, stats.completion_tokens) >= 0
    assert stats.prefill_s >= 0 and stats.decode_s >= 0


@given(st.lists(LLAMA, max_size=6))
def test_from_a_llama_server(etude_tokenizer: Tokenizer, events: list[Json]) -> None:
    _asked(LlamaServer(Canned(events), {}, etude_tokenizer.vocabulary), etude_tokenizer)


@given(st.lists(VLLM, max_size=6))
def test_from_a_vllm(etude_tokenizer: Tokenizer, events: list[Json]) -> None:
    _asked(Vllm(Canned(events), "", "m", 100), etude_tokenizer)


MODEL = some(id=st.text(max_size=3) | JSON, owned_by=st.sampled_from(["vllm", "x"]), max_model_len=COUNTS, meta=JSON)


@given(some(default_generation_settings=some(n_ctx=COUNTS) | JSON), some(data=st.lists(MODEL, max_size=2) | JSON))
def test_of_what_a_server_is(props: Json, models: Json) -> None:
    found = detect(Canned([props, models]), Control())
    assert found.kind in ("llama-server", "vllm", "other") and found.context_tokens >= 0
