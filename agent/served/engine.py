"""The stand-in for an engine when a server's model takes no ids: its API, its models, and the longest prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

from ossia.agent.control import Control
from ossia.agent.engine.base import Generation, Progress, Prompt, Task
from ossia.agent.engine.remote.client import Client
from ossia.agent.engine.remote.detect import Listed, room_of
from ossia.agent.engine.remote.server import table
from ossia.agent.errors import EngineFailed, ModelNotFound, ServerRefused
from ossia.agent.request import Request
from ossia.agent.served.api import Api, ChatApi, Kind, ResponsesApi
from ossia.agent.served.wire import Json, Names, conversation, plain
from ossia.harmony.tokenizer import Vocabulary

CONTEXT_TOKENS: Final = 131_072
"""The context that gpt-oss was trained for, where the server doesn't say how much it has room for."""
_NAMES_SHOWN, _NAME_CHARS = 8, 60
_MISSING: Final = (404, 405, 501)
_NO_QUESTION: Final = {"ossia_probe": True}
"""No API has that field: `transformers serve` answers 500 to a request that only lacks the question."""
_TRANSFORMERS: Final = re.compile(r"Unexpected (fields|keys) in the request")
"""Its refusal of a field. Of its APIs, Responses doesn't report that an answer was cut at a limit of tokens."""
_CHAT_ONLY: Final = ("router.huggingface.co",)
"""Its Responses API (beta) takes no reasoning items, and turns the model's calls into results: src/schemas.ts and
src/routes/responses.ts in huggingface/responses.js, c0ac6ee of 26 May 2026."""
LESS: Final = "fewer guarantees: `ossia help servers`"
"""Said once, when such a server is chosen."""
NOT_HAD: Final = (
    "it writes the prompts: no replayed ids, no constrained decoding, no kept KV cache, nothing read ahead, "
    "tokens counted roughly"
)
"""The reason for that."""
_OPTIONAL: Final = (
    "stream_options", "reasoning_effort", "reasoning", "parallel_tool_calls", "response_format", "store", "seed",
    "top_k", "min_p", "top_p", "temperature",
)  # fmt: skip
_UNWANTED: Final = re.compile(r"unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted", re.I)


@dataclass(eq=False)
class ServedEngine:
    """A server that takes no ids, in an engine's place: it has a name and a size, and generates nothing itself.

    `model` is the server's name for the model, `name` the user's. `vocabulary` is the one that prompts are measured
    with, since the server's own isn't known. `context_assumed`: neither the server nor the user said how much room
    there is. `notice` gets a line when the server doesn't take a part of the requests.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    client: Client
    api: Api
    _: KW_ONLY
    model: str
    context_tokens: int
    context_assumed: bool = False
    vocabulary: Vocabulary
    notice: Callable[[str], None] = lambda line: None
    name: str = ""
    _left_out: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.name = self.name or self.model

    def body(self, request: Request, names: Names) -> Json:
        """The body of a step's request, all of it plain, without the fields that this server has refused."""
        body = plain(self.api.body(request, conversation(request, names), self.model))
        return {key: value for key, value in body.items() if key not in self._left_out}

    def can_do_without(self, refused: ServerRefused, sent: Json) -> bool:
        """Leave out the optional fields named by a refusal: an old transformers takes few. False: it names none."""
        said = str(refused).partition(f" {refused.status}: ")[2]
        if refused.status not in (400, 422) or not _UNWANTED.search(said):
            return False
        fields = [name for name in _OPTIONAL if name in sent and re.search(rf"\b{name}\b", said)]
        if fields:
            self.notice(f"{self.client.address.name} takes no {', '.join(fields)}: left out")
            self._left_out.update(fields)
        return bool(fields)

    def generate(self, task: Task, *, control: Control) -> Generation:
        raise EngineFailed(f"{self.client.address.name} takes messages, no ids: use a llama-server or vLLM for that")

    def prefill(
        self, prompt: Prompt, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Does nothing: the server reads a prompt when it answers it."""

    def close(self) -> None:
        self.client.close()


def serve(
    client: Client,
    *,
    models: Sequence[Listed],
    named: str | None,
    context_tokens: int | None,
    vocabulary: Vocabulary,
    control: Control,
    notice: Callable[[str], None] = lambda line: None,
) -> ServedEngine:
    """The server as an engine. `models` are those that it lists, `named` is the one to ask.

    `named` None: the only model, or the only gpt-oss. `context_tokens` is how many tokens to use at the most; None: as
    many as the server says, at the most 131,072, which is gpt-oss's own. `notice`: see `ServedEngine`. Raises
    EngineFailed if it can't be reached, or speaks neither API; ModelNotFound if it isn't clear which model.
    """
    name = client.address.name
    kind = api_of(client, control)
    if kind is None:
        raise EngineFailed(f"{name} has neither /v1/responses nor /v1/chat/completions: is it a server of models?")
    api: Api = ResponsesApi() if kind == "responses" else ChatApi()
    model = chosen_model(models, named, name)
    wanted, room = context_tokens or CONTEXT_TOKENS, context_of(client, model, control)
    return ServedEngine(
        client,
        api,
        model=model.name,
        context_tokens=min(wanted, room or wanted),
        context_assumed=context_tokens is None and room is None,
        vocabulary=vocabulary,
        notice=notice,
    )


def api_of(client: Client, control: Control) -> Kind | None:
    """The server's API, the Responses API if it has both; None: neither.

    A request without a question tells: where there is an API it is refused, and costs nothing. Two servers get Chat
    Completions although they have both: see `_CHAT_ONLY` and `_TRANSFORMERS`. Raises EngineFailed if the server can't
    be reached, or refuses the key.
    """
    for api in (ResponsesApi, ChatApi):
        if api is ResponsesApi and client.address.host in _CHAT_ONLY:
            continue
        try:
            answer = client.post(api.path, _NO_QUESTION, control)
        except ServerRefused as refused:
            if refused.status in (401, 403) or (refused.status >= 500 and refused.status not in _MISSING):
                raise
            if refused.status in _MISSING or (api is ResponsesApi and _TRANSFORMERS.search(str(refused))):
                continue
            return api.kind
        else:
            if "error" not in answer:  # LM Studio answers 200 where it has nothing, with an error in it
                return api.kind
    return None


def chosen_model(models: Sequence[Listed], named: str | None, server: str) -> Listed:
    """The model to ask: the one that is named, listed or not; else the only one, or the only gpt-oss.

    Raises ModelNotFound, with the names that there are.
    """
    if named is not None:
        return next((model for model in models if model.name == named), Listed(named))
    ours = [model for model in models if "gpt-oss" in model.name.lower()] or list(models)
    if len(ours) == 1:
        return ours[0]
    if not models:
        raise ModelNotFound(f"{server} lists no model: load one there")
    raise ModelNotFound(f"{server} has {names_of(models)}: name one with --model")


def names_of(models: Sequence[Listed]) -> str:
    """Their names, for an error: `gpt-oss:20b, gemma4 and 12 more`."""
    names = ", ".join(model.name[:_NAME_CHARS] for model in models[:_NAMES_SHOWN])
    return f"{names} and {len(models) - _NAMES_SHOWN} more" if len(models) > _NAMES_SHOWN else names


def context_of(client: Client, model: Listed, control: Control) -> int | None:
    """The tokens that the server has room for; None: it doesn't say.

    LM Studio tells it of loaded models (`/api/v1/models`), Ollama too (`/api/ps`), others in their list.
    """
    if model.context_tokens:
        return model.context_tokens
    with suppress(ServerRefused):
        for entry in _models(client.get("/api/v1/models", control)):
            loaded = entry.get("loaded_instances")
            for one in loaded if isinstance(loaded, list) else ():
                if isinstance(one, Mapping) and model.name in (entry.get("key"), one.get("id")):
                    return room_of(table(one.get("config")))
    with suppress(ServerRefused):
        for entry in _models(client.get("/api/ps", control)):
            if entry.get("name") == model.name:
                return room_of(entry)
    return None


def _models(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    models = answer.get("models")
    return [entry for entry in models if isinstance(entry, Mapping)] if isinstance(models, list) else []
