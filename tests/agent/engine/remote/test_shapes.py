"""What a llama-server is asked, and what is made of its answers: shapes, with no server."""

from __future__ import annotations

from typing import Any

import pytest

from agent.control import Control
from agent.engine.base import Prompt, Sampling, StepStats
from agent.engine.remote.engine import RemoteEngine
from agent.engine.remote.llama_server import LlamaServer, samplers
from agent.engine.remote.server import seed_of
from harmony.tokenizer import Tokenizer
from tests.support.remote import Canned, complete_text

PLAIN = {"samplers": ["temperature"], "temperature": 1.0, "top_k": 0, "min_p": 0.0, "top_p": 1.0}


@pytest.mark.parametrize(
    ("sampling", "asked"),
    [
        (Sampling(), PLAIN),
        (Sampling(temperature=None), PLAIN),
        (Sampling(temperature=0, top_k=5, seed=1), {"temperature": 0, "samplers": ["temperature"]}),
        (
            Sampling(temperature=0.5, top_k=40, min_p=0.1, top_p=0.9),
            {"samplers": ["temperature", "top_k", "min_p", "top_p"], "temperature": 0.5, "top_k": 40, "min_p": 0.1,
             "top_p": 0.9},
        ),
        (Sampling(seed=7), {**PLAIN, "seed": 7 + 7919 * 3}),
    ],
)  # fmt: skip
def test_everything_that_is_not_set_is_off(sampling: Sampling, asked: dict[str, Any]) -> None:
    assert samplers(sampling, salt=3) == asked


def test_each_step_and_each_attempt_has_a_seed_of_its_own() -> None:
    seeds = {seed_of(Sampling(seed=2**63, attempt=attempt), salt=salt) for attempt in range(9) for salt in range(900)}
    assert len(seeds) == 8100 and all(seed is not None and 0 <= seed < 2**31 for seed in seeds)
    assert seed_of(Sampling(), salt=1) is None


@pytest.mark.parametrize(
    ("text", "why", "last"),
    [
        ("<|channel|>final<|message|>a", {"stop_type": "word", "stopping_word": "<|call|>"}, "<|call|>"),
        ("<|channel|>final<|message|>a", {"stop_type": "eos", "stopping_word": ""}, "<|return|>"),
        ("<|channel|>commentary to=functions.f<|message|>{}", {"stop_type": "eos"}, "<|call|>"),
        (" to=python<|channel|>analysis<|message|>1", {"stop_type": "eos"}, "<|call|>"),
        ("<|channel|>final<|message|>say to=me", {"stop_type": "eos"}, "<|return|>"),
    ],
)
def test_an_end_that_is_withheld(etude_tokenizer: Tokenizer, text: str, why: dict[str, str], last: str) -> None:
    ids = complete_text(etude_tokenizer, text)
    events: list[dict[str, Any]] = [{"tokens": [one], "tokens_predicted": at} for at, one in enumerate(ids, 1)]
    timings = {"cache_n": 3, "prompt_n": 1, "prompt_ms": 2.0, "predicted_ms": 4.0}
    final = {"tokens": [], "stop": True, "id_slot": 2, "tokens_predicted": len(ids) + 1, "timings": timings, **why}
    server = LlamaServer(Canned([*events, final]), {}, etude_tokenizer.vocabulary)
    engine = RemoteEngine(server, etude_tokenizer.vocabulary, name="x", context_tokens=200)
    prompt = tuple(complete_text(etude_tokenizer, "<|start|>user<|message|>b<|end|><|start|>assistant"))
    generation = engine.generate(
        Prompt(prompt),
        stops=etude_tokenizer.control.generation_stops,
        max_tokens=None,
        sampling=Sampling(),
        constraint=None,
        control=Control(),
    )
    assert [item for item in generation if isinstance(item, int)] == [*ids, etude_tokenizer.vocabulary.control[last]]
    assert generation.stats == StepStats(len(prompt), 3, len(ids) + 1, 0.002, 0.004, "stop", evaluated_tokens=1)
