"""A connection to a server: its model, its vocabulary, and what is shown of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.engine.remote.connect import Connected, connect
from ossia.agent.errors import EngineFailed, ModelNotFound
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.spec import ModelSpec
from ossia.agent.served.engine import ServedEngine
from ossia.agent.served.respond import ServedResponder
from ossia.harmony.codec import Codec
from ossia.harmony.tokenizer import Tokenizer, Vocabulary
from ossia.tools.host import Host, silent
from tests.support.host import host_in
from tests.support.remote import serve
from tests.support.served import Server
from tests.support.site import Reply, Request, Site
from tests.support.streams import harmony_ids


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_in(tmp_path)


@pytest.fixture
def vllm(host: Host, etude_tokenizer: Tokenizer) -> Iterator[Site]:
    """A vLLM with two models, and their vocabulary in what is taken for a gpt-oss that is here."""
    here = host.data / "models" / "gpt-oss-20b-mxfp4.gguf"
    here.parent.mkdir(parents=True)
    here.symlink_to(ETUDE_PATH)

    def ids(asked: Request) -> Reply:
        return Reply(json.dumps({"tokens": harmony_ids(etude_tokenizer, json.loads(asked.body)["prompt"])}).encode())

    def text(asked: Request) -> Reply:
        return Reply(json.dumps({"prompt": etude_tokenizer.decode(json.loads(asked.body)["tokens"])}).encode())

    def listed(name: str, context: int) -> dict[str, object]:
        return {"id": name, "owned_by": "vllm", "max_model_len": context}

    with Site() as site:
        site.json("/v1/models", {"data": [listed("org/a", 512), listed("org/b", 1024)]})
        site.json("/version", {"version": "0.11.0"})
        site.route("/tokenize", ids)
        site.route("/detokenize", text)
        yield site


@pytest.fixture
def served() -> Iterator[Server]:
    """A server that takes no ids."""
    with ExitStack() as stack:
        server = stack.enter_context(Server("responses", ()))
        server.list_models("openai/gpt-oss-20b")
        yield server


def _connected(host: Host, url: str, **spec: Any) -> Connected:
    return connect(ModelSpec(server=parse_url(url), **spec), host, silent, Control())


def test_the_vocabulary_is_found_and_the_host_is_in_the_name(
    host: Host, site: Site, etude_tokenizer: Tokenizer
) -> None:
    serve(site, etude_tokenizer)
    found = _connected(host, site.url())
    place = site.url()[7:].rstrip("/")
    assert (found.engine.name, found.engine.context_tokens) == (f"etude @ {place}", 4096)
    assert found.temperature == 0.0  # the étude's
    assert found.tokenizer.vocabulary.digest == etude_tokenizer.vocabulary.digest
    assert found.note == f"using etude at {place} (llama-server, context 4,096); no constrained decoding"
    assert found.warning == ""
    assert _connected(host, site.url(), context=512).engine.context_tokens == 512


def test_what_the_server_has_no_use_for_is_named_if_it_is_explicit(
    host: Host, site: Site, etude_tokenizer: Tokenizer
) -> None:
    serve(site, etude_tokenizer)
    asked: dict[str, Any] = {"model": "gpt-oss-20b", "cpu_moe": 3, "context": 9999}
    assert _connected(host, site.url(), **asked).warning == ""
    found = _connected(host, site.url(), **asked, explicit=frozenset({"model", "cpu_moe", "context", "seed"}))
    idle = "--n-cpu-moe, --model gpt-oss-20b, --context (it has 4,096 tokens)"
    assert found.warning == f"{idle}: ignored, since the server decides this"


@pytest.mark.parametrize(
    ("model", "own", "by_file", "name", "context"),
    [
        (None, None, False, "a", 512),
        ("org/b", None, False, "b", 1024),
        ("b", None, False, "b", 1024),  # as people call it
        ("org/a", "org/b", False, "a", 512),  # the command line comes first
        ("org/a", "org/b", True, "b", 1024),  # but the config's own `model` is none for this server
        (str(ETUDE_PATH), "org/b", False, "b", 1024),  # a file here
        ("etude", None, False, "a", 512),
    ],
)
def test_which_of_its_models(
    model: str | None, own: str | None, by_file: bool, name: str, context: int, host: Host, vllm: Site
) -> None:
    address = replace(parse_url(vllm.url(), name="team"), model=own)
    found = connect(ModelSpec(model, server=address, by_file=by_file), host, silent, Control())
    assert (found.engine.name, found.engine.context_tokens) == (f"{name} @ 127.0.0.1:{vllm.port}", context)
    assert found.models == ("org/a", "org/b")
    assert ([request.path for request in vllm.requests].count("/v1/models"), vllm.connections) == (1, 1)


def test_a_file_that_is_here_and_that_the_server_has_gives_the_vocabulary(
    host: Host, tmp_path: Path, site: Site, etude_tokenizer: Tokenizer
) -> None:
    """A llama-server lists its model by the path that it was started with."""
    file = shutil.copy(ETUDE_PATH, tmp_path / "own.gguf")
    serve(site, etude_tokenizer)
    site.json("/v1/models", {"data": [{"id": str(file), "owned_by": "llamacpp", "meta": {"n_vocab": 201_088}}]})
    found = _connected(host, site.url(), model=str(file))
    assert found.tokenizer.vocabulary.digest == etude_tokenizer.vocabulary.digest


@pytest.mark.parametrize("kind", ["vllm", "llama"])
def test_a_model_that_is_not_there(
    kind: str, host: Host, site: Site, vllm: Site, etude_tokenizer: Tokenizer
) -> None:
    serve(site, etude_tokenizer)
    url, there = (vllm.url(), "a, b") if kind == "vllm" else (site.url(), "etude")
    with pytest.raises(ModelNotFound, match=f" serves no c, only {there}: name one of these with --model$"):
        _connected(host, url, model="c")


def test_a_key_in_a_models_place_is_not_shown(host: Host, vllm: Site) -> None:
    with pytest.raises(ModelNotFound, match=r" serves no …, only a, b: name one of these with --model$"):
        _connected(host, vllm.url(), model="sk-a/b", secrets=("sk-a/b",))


@pytest.mark.parametrize("model", ["gpt-oss-20b", "gpt-oss-120b"])
def test_a_name_of_the_catalogue_is_no_file_that_is_missing(
    model: str, host: Host, site: Site, etude_tokenizer: Tokenizer
) -> None:
    serve(site, etude_tokenizer)
    assert _connected(host, site.url(), model=model).temperature == 0.0


def test_another_vocabulary_is_refused_before_the_first_prompt(
    host: Host, site: Site, etude_tokenizer: Tokenizer
) -> None:
    ours = etude_tokenizer.vocabulary
    tokens = [*ours.tokens[:1500], ours.tokens[1501], ours.tokens[1500], *ours.tokens[1502:]]
    other = Tokenizer(Vocabulary(tokens, ours.control, "other", ours.size))
    serve(site, etude_tokenizer, theirs=other)
    with pytest.raises(EngineFailed, match=r"its vocabulary isn't ours: .* serve a gpt-oss model"):
        _connected(host, site.url())
    assert all(request.path != "/completion" for request in site.requests)


def test_what_has_no_api_is_reported(host: Host, site: Site) -> None:
    site.json("/v1/models", {"data": [{"id": "m", "owned_by": "nobody"}]})
    with pytest.raises(EngineFailed, match="has neither /v1/responses nor /v1/chat/completions"):
        _connected(host, site.url())


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("gpt-oss-20b", "openai/gpt-oss-20b"),
        ("openai/gpt-oss-20b:groq", "openai/gpt-oss-20b:groq"),  # not listed, as a router's
        ("etude", "openai/gpt-oss-20b"),  # a model here, as the config's `model` may be
        ("/home/me/secret-name.gguf", "openai/gpt-oss-20b"),
        (str(ETUDE_PATH), "openai/gpt-oss-20b"),
        (None, "openai/gpt-oss-20b"),
    ],
)
def test_what_is_the_servers_name_for_the_model(model: str | None, asked: str, host: Host, served: Server) -> None:
    found = _connected(host, served.url(), model=model)
    assert isinstance(found.engine, ServedEngine) and found.engine.model == asked
    assert "secret" not in found.note and "secret" not in found.engine.name


def test_a_server_that_takes_no_ids(host: Host, served: Server) -> None:
    found = _connected(host, served.url(), context=2048)
    assert found.respond is not None
    assert isinstance(found.respond(Codec(found.tokenizer)), ServedResponder)
    assert (found.engine.context_tokens, found.engine.capabilities) == (2048, frozenset())
    assert "context 2,048)" in found.note
