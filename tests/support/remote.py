"""Servers of models on loopback for tests: one that answers what a test says, in llama-server's shapes."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.engine.remote.client import Client, Json
from ossia.harmony.tokenizer import Tokenizer
from tests.support.site import Reply, Request, Site
from tests.support.streams import harmony_ids

EVENTS = {"Content-Type": "text/event-stream"}
CONTEXT = 4096


def data(event: Mapping[str, object]) -> bytes:
    """A server-sent event."""
    return f"data: {json.dumps(event)}\n\n".encode()


def answer(tokenizer: Tokenizer, text: str, *, whole: bool = True) -> Iterator[bytes]:
    """What a llama-server sends of a text, id by id; not `whole`: the connection ends after the last one."""
    ids = harmony_ids(tokenizer, text)
    for count, number in enumerate(ids, 1):
        yield data({"content": "", "tokens": [number], "stop": False, "id_slot": -1, "tokens_predicted": count})
    if whole:
        figures = {"cache_n": 3, "prompt_n": 2, "prompt_ms": 5.0, "predicted_n": len(ids), "predicted_ms": 7.0}
        more: dict[str, Any] = {
            "tokens_predicted": len(ids),
            "stop_type": "eos",
            "truncated": False,
            "timings": figures,
        }
        yield data({"content": "", "tokens": [], "stop": True, "id_slot": 0, **more})


def serve(
    site: Site, tokenizer: Tokenizer, answers: Sequence[str | Reply] = (), *, theirs: Tokenizer | None = None
) -> None:
    """Let a site be a llama-server, whose completions are `answers`, one by one; `theirs` is its vocabulary."""
    own, waiting = theirs or tokenizer, iter(answers)
    site.json("/props", {"default_generation_settings": {"n_ctx": CONTEXT}, "model_alias": "/m/etude.gguf"})
    meta = {"n_vocab": own.vocabulary.size}
    site.json("/v1/models", {"data": [{"id": "etude", "owned_by": "llamacpp", "meta": meta}]})
    site.route("/tokenize", lambda asked: _json(tokens=harmony_ids(own, _body(asked)["content"])))
    site.route("/detokenize", lambda asked: _json(content=own.decode(_body(asked)["tokens"])))

    def complete(asked: Request) -> Reply:
        reads_ahead = _body(asked)["n_predict"] == 0
        given = "" if reads_ahead else next(waiting, "<|channel|>final<|message|>No more.<|return|>")
        return given if isinstance(given, Reply) else Reply(answer(tokenizer, given), headers=EVENTS)

    site.route("/completion", complete)


class Canned(Client):
    """Answers what it was given, with no network."""

    def __init__(self, answers: Sequence[Json]) -> None:
        self.address = parse_url("http://127.0.0.1:9", key="sesame")
        self.asked: list[Json] = []
        """The bodies of the streams, as they were asked for."""
        self._answers = iter(answers)

    def get(self, path: str, control: Control) -> Json:
        return next(self._answers, {})

    def stream(self, path: str, body: Json, control: Control, *, retry: bool = True) -> Generator[Json, None, None]:
        self.asked.append(body)
        yield from self._answers


def _body(request: Request) -> Any:
    return json.loads(request.body)


def _json(**value: object) -> Reply:
    return Reply(json.dumps(value).encode(), headers={"Content-Type": "application/json"})
