"""What a llama-server is asked, and what is made of its answers: shapes, with no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Sampling, StepStats, Task
from ossia.agent.engine.remote.detect import detect, prove
from ossia.agent.engine.remote.engine import RemoteEngine, RemoteGeneration
from ossia.agent.engine.remote.server import LlamaServer, Vllm, samplers, seed_of
from ossia.agent.errors import EngineFailed
from ossia.harmony.tokenizer import Tokenizer
from tests.support.remote import Canned
from tests.support.streams import harmony_ids

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
    ids = harmony_ids(etude_tokenizer, text)
    events: list[dict[str, Any]] = [{"tokens": [one], "tokens_predicted": at} for at, one in enumerate(ids, 1)]
    timings = {"cache_n": 3, "prompt_n": 1, "prompt_ms": 2.0, "predicted_ms": 4.0}
    final = {"tokens": [], "stop": True, "id_slot": 2, "tokens_predicted": len(ids) + 1, "timings": timings, **why}
    prompt = tuple(harmony_ids(etude_tokenizer, "<|start|>user<|message|>b<|end|><|start|>assistant"))
    generation = generated(Canned([*events, final]), etude_tokenizer, prompt)
    assert [item for item in generation if isinstance(item, int)] == [*ids, etude_tokenizer.vocabulary.control[last]]
    assert generation.stats == StepStats(len(prompt), 3, len(ids) + 1, 0.002, 0.004, "stop", evaluated_tokens=1)


def generated(client: Canned, tokenizer: Tokenizer, prompt: tuple[int, ...] = (1, 2, 3)) -> RemoteGeneration:
    server = LlamaServer(client, {}, tokenizer.vocabulary)
    return RemoteEngine(server, tokenizer.vocabulary, name="x", context_tokens=200).generate(
        Task(Prompt(prompt), stops=tokenizer.control.generation_stops), control=Control()
    )


END = {"tokens": [], "stop": True, "stop_type": "eos", "id_slot": 3}


def test_what_is_asked_and_then_of_the_same_slot(etude_tokenizer: Tokenizer) -> None:
    client = Canned([END, END])
    server = LlamaServer(client, {}, etude_tokenizer.vocabulary)
    task = Task(Prompt((1, 2)), sampling=Sampling(temperature=0))
    for _ in range(2):
        list(server.complete(task, 9, Control()))
    whole = {"prompt": [1, 2], "n_predict": 9, "cache_prompt": True, "return_tokens": True, "stream": True,
             "return_progress": True, "timings_per_token": True, "temperature": 0,
             "samplers": ["temperature"]}  # fmt: skip
    assert client.asked == [whole, {**whole, "id_slot": 3}]


@pytest.mark.parametrize(
    "timings",
    [
        {"cache_n": 10**400, "prompt_n": 10**400, "prompt_ms": 10**400, "predicted_ms": 10**400},
        {"cache_n": True, "prompt_n": True, "prompt_ms": True, "predicted_ms": 1e-320},
        {"cache_n": 500, "prompt_n": 2**30, "prompt_ms": float("nan"), "predicted_ms": float("inf")},
    ],
)
def test_figures_that_cannot_be_are_none(etude_tokenizer: Tokenizer, timings: Mapping[str, Any]) -> None:
    event = {"tokens": [70], "tokens_predicted": 1, "timings": timings}
    generation = generated(Canned([event, {**END, "tokens_predicted": 2, "timings": timings}]), etude_tokenizer)
    list(generation)
    stats = generation.stats
    assert 0 <= stats.reused_tokens <= 3 and 0 <= stats.evaluated_tokens <= 3
    assert 0 <= stats.prefill_s < 10**9 and 0 <= stats.decode_s < 10**9
    assert stats.tokens_per_s is None or stats.tokens_per_s < 10**12


@pytest.mark.parametrize(
    "event",
    [
        {"tokens": ["sesame"]},
        {"tokens": [10**4000]},
        {"tokens": [2**31]},
        {**END, "stop_type": "sesame\n"},
        {**END, "stop_type": ["x" * 999]},
    ],
)
def test_what_is_no_answer_is_one_short_line(etude_tokenizer: Tokenizer, event: Mapping[str, Any]) -> None:
    with pytest.raises(EngineFailed) as caught:
        list(generated(Canned([event]), etude_tokenizer))
    message = str(caught.value)
    assert "sesame" not in message and message.isprintable() and len(message) < 200


def test_what_a_server_calls_itself_is_one_line_without_the_key(etude_tokenizer: Tokenizer) -> None:
    assert Vllm(Canned([]), "0.11\nsesame", "m", 9).kind == "vLLM 0.11 …"
    assert (
        LlamaServer(Canned([]), {"model_alias": "/m/sesame\x1b[m.gguf"}, etude_tokenizer.vocabulary).model
        == "/m/… [m.gguf"
    )


def test_ids_within_a_character_are_found_by_its_text(etude_tokenizer: Tokenizer) -> None:
    tokens = etude_tokenizer.vocabulary.tokens
    ids = [tokens.index(bytes([byte])) for byte in "🦉".encode()]
    event = {"tokens": ids[-1:], "content": "🦉", "tokens_predicted": 4}
    assert list(generated(Canned([event, {**END, "tokens_predicted": 4}]), etude_tokenizer))[1:5] == ids


def test_a_text_that_is_too_long_for_its_ids_is_not_searched(etude_tokenizer: Tokenizer) -> None:
    """It would take hours, in which nothing could stop it."""
    last = etude_tokenizer.vocabulary.tokens.index(b"\x05")
    event = {"tokens": [last], "content": "a" * 8_000_000 + "\x05", "tokens_predicted": 4}
    generation = generated(Canned([event, {**END, "tokens_predicted": 4}]), etude_tokenizer)
    assert next(item for item in generation if isinstance(item, int)) == last


def test_no_context_is_larger_than_the_models_own() -> None:
    props = {"default_generation_settings": {"n_ctx": 10**9}}
    assert detect(Canned([props]), Control()).context_tokens == 131_072
    models = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 10**9}]}
    assert detect(Canned([{}, models]), Control()).context_tokens == 131_072


class Altered(LlamaServer):
    """A server whose vocabulary is ours, but for what a test says."""

    def __init__(self, tokenizer: Tokenizer, read: Mapping[str, str], words: Mapping[str, str]) -> None:
        super().__init__(Canned([]), {}, tokenizer.vocabulary)
        self._tokenizer, self._read, self._words = tokenizer, read, words
        self.ids: list[int] = []

    def tokenize(self, text: str, control: Control) -> list[int]:
        return harmony_ids(self._tokenizer, _replaced(text, self._read))

    def detokenize(self, ids: Sequence[int], control: Control) -> str:
        self.ids = list(ids)
        return _replaced(self._tokenizer.decode(ids), self._words)


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for ours, theirs in words.items():
        text = text.replace(ours, theirs)
    return text


@pytest.mark.parametrize(
    ("read", "words", "what"),
    [
        ({"<|call|>": "<|end|>"}, {}, "'<|call|>' is"),
        ({"<|call|>": ""}, {}, " is "),
        ({}, {"<|call|>": "<call>"}, "isn't ours: ["),
        ({"quick": "quack"}, {}, "The quick brown"),
        ({}, {" brown": " Brown"}, "The quick brown"),
        ({}, {"Ω": "O"}, "'Grüße, naïve"),
        ({}, {"<|start|><|": "<|"}, "is "),
        ({}, {"sesame": ""}, ""),
    ],
)
def test_a_vocabulary_that_differs_in_one_thing(
    etude_tokenizer: Tokenizer, read: dict[str, str], words: dict[str, str], what: str
) -> None:
    server = Altered(etude_tokenizer, read, words)
    if not what:
        prove(server, etude_tokenizer, Control())
        assert len(server.ids) > 2000 and len(set(server.ids)) == len(server.ids)
        return
    with pytest.raises(EngineFailed, match="its vocabulary isn't ours") as caught:
        prove(server, etude_tokenizer, Control())
    assert what in str(caught.value)
