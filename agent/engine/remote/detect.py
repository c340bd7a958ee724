"""What a server is, found out once: by what only it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.control import Control
from agent.engine.remote.client import Client, Json
from agent.engine.remote.server import context_of, first, table, whole
from agent.errors import ServerRefused

_ABSENT = (400, 404, 405, 501)


@dataclass(frozen=True, slots=True)
class Found:
    """What a server is. "other": it takes no ids; what else it is must be found out by whoever can use it.

    `version` is a vLLM's ("" if it doesn't say), `models` are the names that it serves, `props` what a
    llama-server says of itself. `context_tokens` and `vocabulary_size` are 0 where it doesn't say.
    """

    kind: Literal["llama-server", "vllm", "other"]
    version: str = ""
    models: tuple[str, ...] = ()
    context_tokens: int = 0
    vocabulary_size: int = 0
    props: Json | None = None


def detect(client: Client, control: Control) -> Found:
    """Ask the server what it is: `/props` is llama.cpp's, and a vLLM calls its models its own in `/v1/models`.

    Raises EngineFailed if it can't be reached, ServerRefused if it wants a key.
    """
    props = _asked(client, "/props", control)
    listed = _asked(client, "/v1/models", control).get("data")
    entries = [table(one) for one in listed if table(one).get("id")] if isinstance(listed, list) else []
    models = tuple(str(one["id"]) for one in entries)
    entry = next((one for one in entries if one["id"] == client.address.model), first(entries))
    if "default_generation_settings" in props:
        context = context_of(table(props["default_generation_settings"]).get("n_ctx"))
        size = whole(table(entry.get("meta")).get("n_vocab")) or 0
        return Found("llama-server", "", models, context, size, props)
    if entry.get("owned_by") == "vllm":
        version = str(_asked(client, "/version", control).get("version", ""))
        return Found("vllm", version, models, context_of(entry.get("max_model_len")))
    return Found("other", models=models)


def _asked(client: Client, path: str, control: Control) -> Json:
    """The answer; {} where the server knows no such path."""
    try:
        return client.get(path, control)
    except ServerRefused as error:
        if error.status in _ABSENT:
            return {}
        raise
