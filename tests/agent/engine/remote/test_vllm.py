"""vLLM, by exchanges of the shapes that its documentation and its own tests show, replayed on loopback.

They are written by hand after them, not recorded from a vLLM that runs:
https://docs.vllm.ai/en/stable/serving/openai_compatible_server/ (the parameters and answers of Completions),
https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/completion/protocol.py (`return_token_ids`: the
ids of the prompt in the first event, of each event's own text in all), and
https://github.com/vllm-project/vllm/blob/main/tests/entrypoints/openai/test_return_token_ids.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, Sampling, StepStats, Task
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.engine.remote.client import Client
from ossia.agent.engine.remote.detect import Found, Listed, detect, prove
from ossia.agent.engine.remote.engine import RemoteEngine, RemoteGeneration
from ossia.agent.engine.remote.server import Vllm
from ossia.agent.errors import EngineFailed
from ossia.harmony.tokenizer import Tokenizer
from tests.support.site import Reply, Request, Site
from tests.support.streams import harmony_ids

MODEL = "openai/gpt-oss-120b"
SAMPLING = Sampling(temperature=0.7, top_p=0.9, top_k=40, min_p=0.05, seed=3)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "root": MODEL, "parent": None,
                "max_model_len": 131072, "permission": []}  # fmt: skip
        site.json("/v1/models", {"object": "list", "data": [card]})
        site.json("/version", {"version": "0.11.0"})
        yield site


@pytest.fixture
def tokenizer(etude_tokenizer: Tokenizer) -> Tokenizer:
    return etude_tokenizer


@pytest.fixture
def engine(site: Site, tokenizer: Tokenizer) -> RemoteEngine:
    client = Client(parse_url(site.url("/v1")), back_off_s=0.01)
    server = Vllm(client, "0.11.0", MODEL, 131072)
    return RemoteEngine(server, tokenizer.vocabulary, name="gpt-oss-120b", context_tokens=131072)


def chunk(ids: list[int] | None, *, finish: str | None = None, stop: int | str | None = None, **more: Any) -> str:
    choice = {"index": 0, "text": "…", "logprobs": None, "finish_reason": finish, "stop_reason": stop, **more}
    choice |= {} if ids is None else {"token_ids": ids}
    event = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL, "choices": [choice]}
    return f"data: {json.dumps(event)}\n\n"


def usage(prompt: int, completion: int, cached: int | None = None) -> str:
    counts = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion,
              "prompt_tokens_details": None if cached is None else {"cached_tokens": cached}}  # fmt: skip
    event = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL, "choices": [], "usage": counts}
    return f"data: {json.dumps(event)}\n\n"


DONE = "data: [DONE]\n\n"


def answers(site: Site, *pieces: str) -> None:
    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    site.route("/v1/completions", lambda _: Reply("".join(pieces).encode(), headers=headers))


def asked(engine: RemoteEngine, ids: tuple[int, ...], most: int | None = 50) -> RemoteGeneration:
    control = engine.vocabulary.control
    return engine.generate(
        Task(
            Prompt(ids),
            stops=frozenset({control["<|call|>"], control["<|return|>"]}),
            max_tokens=most,
            sampling=SAMPLING,
        ),
        control=Control(),
    )


def drawn(generation: RemoteGeneration) -> list[int]:
    return [item for item in generation if isinstance(item, int)]


def test_it_is_found_out(site: Site) -> None:
    client = Client(parse_url(site.url("/v1")))
    assert detect(client, Control()) == Found("vllm", "0.11.0", (Listed(MODEL, 131072, "vllm"),), 131072)


def test_each_of_its_models_has_a_context_of_its_own(site: Site) -> None:
    cards = [{"id": name, "owned_by": "vllm", "max_model_len": length} for name, length in (("a", 10), ("b", 20))]
    site.json("/v1/models", {"object": "list", "data": cards})
    listed = Listed("a", 10, "vllm"), Listed("b", 20, "vllm")
    assert detect(Client(parse_url(site.url())), Control()) == Found("vllm", "0.11.0", listed, 10)


def test_a_completion_by_ids(site: Site, engine: RemoteEngine, tokenizer: Tokenizer) -> None:
    call, prompt = tokenizer.control.call, tuple(tokenizer.encode("abc"))
    answers(
        site,
        chunk([5, 6], prompt_token_ids=list(prompt)),
        chunk([]),
        chunk([7]),
        chunk([call], finish="stop", stop=call),
        usage(len(prompt), 4, cached=2),
        DONE,
    )
    generation = asked(engine, prompt)
    assert drawn(generation) == [5, 6, 7, call]
    stats = generation.stats
    assert stats == StepStats(
        len(prompt), 2, 4, stats.prefill_s, stats.decode_s, "stop", evaluated_tokens=len(prompt) - 2
    )
    assert json.loads(site.requests[-1].body) == {
        "model": MODEL, "prompt": list(prompt), "max_tokens": 50, "stream": True,
        "stream_options": {"include_usage": True}, "add_special_tokens": False, "return_token_ids": True,
        "stop_token_ids": sorted([call, tokenizer.control.return_]), "include_stop_str_in_output": True,
        "skip_special_tokens": False, "spaces_between_special_tokens": False, "temperature": 0.7, "top_p": 0.9,
        "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "seed": 3 + 7919 * len(prompt),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("header", "stop", "ends_with"),
    [
        ("<|channel|>final<|message|>", None, "<|return|>"),
        ("<|channel|>commentary to=functions.f<|constrain|>json<|message|>", None, "<|call|>"),
        (" to=functions.f<|channel|>commentary<|message|>", None, "<|call|>"),
        (
            "<|channel|>analysis<|message|>say to=me<|end|><|start|>assistant<|channel|>final<|message|>",
            None,
            "<|return|>",
        ),
        ("<|channel|>final<|message|>", "<|call|>", "<|call|>"),
        ("<|channel|>final<|message|>", "<|endoftext|>", "<|endoftext|>"),
        ("<|channel|>final<|message|>", 77, "<|return|>"),  # a stop id that means nothing to us
    ],
)
def test_a_withheld_end_is_known_from_the_stop_reason_or_the_recipient(
    site: Site, engine: RemoteEngine, tokenizer: Tokenizer, header: str, stop: str | int | None, ends_with: str
) -> None:
    ids = harmony_ids(tokenizer, f"{header}abc")
    stop_id = tokenizer.vocabulary.control[stop] if isinstance(stop, str) else stop
    answers(site, chunk(ids), chunk([], finish="stop", stop=stop_id), usage(3, 9), DONE)
    generation = asked(engine, tuple(harmony_ids(tokenizer, "<|start|>user<|message|>x<|end|><|start|>assistant")))
    assert drawn(generation) == [*ids, tokenizer.vocabulary.control[ends_with]]
    assert generation.stats.end == "stop"


def test_the_limit(site: Site, engine: RemoteEngine) -> None:
    answers(site, chunk([5]), chunk([6], finish="length"), usage(1, 2), DONE)
    generation = asked(engine, (1,), most=2)
    assert (drawn(generation), generation.stats.end) == ([5, 6], "tokens")
    generation = asked(engine, (1,) * 131070, most=None)
    assert (drawn(generation), generation.stats.end) == ([5, 6], "context")


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ((chunk([5]),), "broke off in mid-answer: it ended without saying why"),
        ((chunk(None), DONE), "sends no token_ids: it must be vLLM 0.10.2 or newer"),
        ((chunk([5]), chunk([], finish="abort"), DONE), r"broke off in mid-answer \(abort\): see its log"),
        ((chunk([5], finish="error"), DONE), r"broke off in mid-answer \(error\)"),
        ((chunk([5, -1]),), "expected a list of ids, not"),
        ((chunk([5, 10**9]),), "the id 1000000000 isn't in the vocabulary: it serves another model"),
        ((chunk([5]), 'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n'), "EngineCore died"),
    ],
)
def test_what_breaks_is_one_line(site: Site, engine: RemoteEngine, pieces: tuple[str, ...], says: str) -> None:
    answers(site, *pieces)
    with pytest.raises(EngineFailed, match=says):
        drawn(asked(engine, (1,)))


@pytest.mark.parametrize("silent", [True, False])
def test_an_answer_that_is_whole_is_kept_though_the_server_breaks(
    site: Site, engine: RemoteEngine, silent: bool
) -> None:
    """Its stop id has come: only figures are lost, if the connection breaks, or nothing more comes."""
    call, over = engine.vocabulary.control["<|call|>"], threading.Event()
    waited_out: list[bool] = []

    def pieces() -> Iterator[bytes]:
        text = (chunk([5, 6]) + chunk([call])).encode()
        yield f"{len(text):x}\r\n".encode() + text + b"\r\n"
        if silent:
            waited_out.append(not over.wait(5))
        yield b"5\r\nda"

    headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    site.route("/v1/completions", lambda _: Reply(pieces(), headers=headers))
    engine.figures_s = 0.1 if silent else 60
    generation = asked(engine, (1, 2))
    assert drawn(generation) == [5, 6, call]
    assert (generation.stats.end, waited_out) == ("stop", [])
    over.set()


def test_reading_ahead_fails_in_silence(site: Site, tokenizer: Tokenizer) -> None:
    told: list[str] = []
    client = Client(parse_url(site.url("/v1")), back_off_s=0.01, notice=told.append)
    site.route("/v1/completions", lambda _: Reply(b"{}", 503))
    engine = RemoteEngine(Vllm(client, "", MODEL, 100), tokenizer.vocabulary, name="x", context_tokens=100)
    engine.prefill(Prompt((1, 2, 3)), control=Control())
    assert (len(site.requests), told) == (1, [])


def test_reading_ahead_asks_for_one_id(site: Site, engine: RemoteEngine) -> None:
    answers(site, chunk([5], finish="length"), usage(3, 1), DONE)
    engine.prefill(Prompt((1, 2, 3)), control=Control())
    body = json.loads(site.requests[-1].body)
    assert (body["prompt"], body["max_tokens"]) == ([1, 2, 3], 1)


def test_its_vocabulary_is_proved(site: Site, engine: RemoteEngine, tokenizer: Tokenizer) -> None:
    def tokenize(request: Request) -> Reply:
        body = json.loads(request.body)
        assert (body["model"], body["add_special_tokens"]) == (MODEL, False)
        tokens = harmony_ids(tokenizer, body["prompt"])
        if "हिन्दी" in body["prompt"]:  # cut otherwise than we do, which doesn't matter
            tokens = [tokenizer.vocabulary.tokens.index(bytes([byte])) for byte in body["prompt"].encode()]
        shape = {"count": len(tokens), "max_model_len": 131072, "tokens": tokens, "token_strs": None}
        return Reply(json.dumps(shape).encode())

    def detokenize(request: Request) -> Reply:
        return Reply(json.dumps({"prompt": tokenizer.decode(json.loads(request.body)["tokens"])}).encode())

    with pytest.raises(EngineFailed, match=r"answered 404: .* nothing proves that its vocabulary is ours"):
        prove(engine.server, tokenizer, Control())
    site.route("/tokenize", tokenize)
    site.route("/detokenize", detokenize)
    prove(engine.server, tokenizer, Control())


def test_progress_begins_before_anything_comes(site: Site, engine: RemoteEngine) -> None:
    answers(site, chunk([5], finish="length"), DONE)
    assert next(iter(asked(engine, (1, 2), most=1))) == Progress(0, 2)
