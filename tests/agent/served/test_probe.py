"""What a server is found to be: which API, which model, how much room; see `tests.support.dialects` for the shapes.

LM Studio's list: https://lmstudio.ai/docs/developer/rest/list; Ollama's: https://docs.ollama.com/api/ps.
"""

from __future__ import annotations

import json

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.engine.remote.detect import models_of
from ossia.agent.errors import EngineFailed, ModelNotFound, ServerRefused
from ossia.agent.served.engine import CONTEXT_TOKENS, ServedEngine, api_of, serve
from ossia.harmony.tokenizer import Tokenizer
from tests.support.site import Reply, Request, Site

REFUSED = {"error": {"message": "model is required", "type": "invalid_request_error"}}
OLLAMA = {"object": "list", "data": [{"id": "gpt-oss:20b", "object": "model", "owned_by": "library"}]}
VLLM = {"object": "list", "data": [{"id": "openai/gpt-oss-120b", "object": "model", "max_model_len": 65536}]}
LLAMA = {"object": "list", "data": [{"id": "etude", "object": "model", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}}]}
ENDLESS = {"object": "list", "data": [{"id": "m", "max_model_len": 10**9}]}
THREE = {"object": "list", "data": [{"id": name} for name in ("gemma4", "gpt-oss:20b", "gpt-oss:120b")]}


def client(site: Site, **more: str) -> Client:
    return Client(parse_url(site.url(""), name="team", **more), back_off_s=0.01)


def served(
    site: Site, tokenizer: Tokenizer, named: str | None = None, context_tokens: int | None = None
) -> ServedEngine:
    site.json("/v1/responses", REFUSED, status=400)
    vocabulary = tokenizer.vocabulary
    return serve(
        client(site),
        models=models_of(client(site), Control()),
        named=named,
        context_tokens=context_tokens,
        vocabulary=vocabulary,
        control=Control(),
    )


@pytest.mark.parametrize("status", [400, 422])
def test_which_api(status: int, site: Site) -> None:
    assert api_of(client(site), Control()) is None
    site.json("/v1/chat/completions", REFUSED, status=status)
    assert api_of(client(site), Control()) == "chat"
    site.json("/v1/responses", REFUSED, status=status)
    assert api_of(client(site), Control()) == "responses"
    asked = [json.loads(request.body) for request in site.requests]
    assert all("input" not in body and "messages" not in body for body in asked)


@pytest.mark.parametrize("word", ["fields", "keys"])
def test_transformers_gets_chat_completions(word: str, site: Site) -> None:
    """As 5.23.0 answered, run without a model; `keys` was its word in 2025 (huggingface/transformers#40516)."""

    def answer(request: Request) -> Reply:
        unexpected = set(json.loads(request.body)) - {"model", "input", "messages", "reasoning", "store", "stream"}
        detail = f"Unexpected {word} in the request: {unexpected}"
        return (
            Reply(json.dumps({"detail": detail}).encode(), 422) if unexpected else Reply(b"Internal Server Error", 500)
        )

    site.route("/v1/responses", answer)
    site.route("/v1/chat/completions", answer)
    assert api_of(client(site), Control()) == "chat"


def test_the_router_gets_chat_completions() -> None:
    class Router(Client):
        def __init__(self) -> None:
            self.address = parse_url("https://router.huggingface.co/v1")
            self.asked: list[str] = []

        def post(self, path: str, body: Json, control: Control) -> Json:
            self.asked.append(path)
            raise ServerRefused("router.huggingface.co answered 400: model is required", 400)

    router = Router()
    assert (api_of(router, Control()), router.asked) == ("chat", ["/v1/chat/completions"])


def test_a_server_that_answers_everything(site: Site) -> None:
    site.json("/v1/responses", {"error": "Unexpected endpoint or method. (POST /v1/responses)"})
    site.json("/v1/chat/completions", REFUSED, status=400)
    assert api_of(client(site), Control()) == "chat"


def test_a_refused_key_is_told(site: Site) -> None:
    site.json("/v1/responses", {"error": {"message": "Invalid token: sesame"}}, status=401)
    with pytest.raises(ServerRefused, match=r"^team \(.*\) answered 401: .*TEAM_KEY$") as caught:
        api_of(client(site, key="sesame", key_env="TEAM_KEY"), Control())
    assert "sesame" not in str(caught.value)


def test_neither_api(site: Site, etude_tokenizer: Tokenizer) -> None:
    with pytest.raises(EngineFailed, match=r"^team has neither /v1/responses nor /v1/chat/completions: is it a server"):
        serve(
            client(site),
            models=(),
            named=None,
            context_tokens=None,
            vocabulary=etude_tokenizer.vocabulary,
            control=Control(),
        )


@pytest.mark.parametrize(
    ("listed", "named", "name", "context_tokens"),
    [
        (OLLAMA, None, "gpt-oss:20b", CONTEXT_TOKENS),
        (VLLM, None, "openai/gpt-oss-120b", 65536),
        (LLAMA, None, "etude", 4096),
        (ENDLESS, None, "m", CONTEXT_TOKENS),
        (THREE, "gemma4", "gemma4", CONTEXT_TOKENS),
        (THREE, "not-listed:groq", "not-listed:groq", CONTEXT_TOKENS),
    ],
)
def test_which_model(
    listed: object, named: str | None, name: str, context_tokens: int, site: Site, etude_tokenizer: Tokenizer
) -> None:
    site.json("/v1/models", listed)
    engine = served(site, etude_tokenizer, named)
    assert (engine.model, engine.context_tokens, engine.capabilities) == (name, context_tokens, frozenset())


def test_several_models(site: Site, etude_tokenizer: Tokenizer) -> None:
    site.json("/v1/models", THREE)
    with pytest.raises(ModelNotFound, match=r"^team has gemma4, gpt-oss:20b, gpt-oss:120b: name one with --model$"):
        served(site, etude_tokenizer)


def test_names_without_an_end_are_cut(site: Site, etude_tokenizer: Tokenizer) -> None:
    site.json("/v1/models", {"object": "list", "data": [{"id": f"{n}" * 5000} for n in range(10)]})
    with pytest.raises(ModelNotFound, match=r"^team has 0{60}, 1{60}, .* and 2 more: name one with --model$"):
        served(site, etude_tokenizer)


def test_the_users_context_may_be_larger(site: Site, etude_tokenizer: Tokenizer) -> None:
    site.json("/v1/models", ENDLESS)
    assert served(site, etude_tokenizer, context_tokens=200_000).context_tokens == 200_000


def test_no_model(site: Site, etude_tokenizer: Tokenizer) -> None:
    site.json("/v1/models", {"object": "list", "data": None})
    with pytest.raises(ModelNotFound, match=r"^team lists no model: load one there$"):
        served(site, etude_tokenizer)


def test_the_room_that_ollama_has(site: Site, etude_tokenizer: Tokenizer) -> None:
    site.json("/v1/models", OLLAMA)
    site.json("/api/ps", {"models": [{"name": "gpt-oss:20b", "context_length": 8192, "size_vram": 1}]})
    assert served(site, etude_tokenizer).context_tokens == 8192
    assert served(site, etude_tokenizer, context_tokens=2048).context_tokens == 2048


def test_the_room_that_lm_studio_has(site: Site, etude_tokenizer: Tokenizer) -> None:
    site.json("/v1/models", {"object": "list", "data": [{"id": "openai/gpt-oss-20b"}]})
    loaded = [{"id": "openai/gpt-oss-20b", "config": {"context_length": 16384}}]
    model = {"type": "llm", "key": "openai/gpt-oss-20b", "loaded_instances": loaded, "max_context_length": 131072}
    site.json("/api/v1/models", {"models": [model]})
    assert served(site, etude_tokenizer).context_tokens == 16384
