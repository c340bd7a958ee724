"""The kind of a server, found out once: by what only it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ossia.agent.control import Control
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.engine.remote.server import context_of, table, whole
from ossia.agent.errors import ServerRefused

_ABSENT = (400, 404, 405, 501)


@dataclass(frozen=True, slots=True)
class Listed:
    """A model as a server lists it. None, "" and 0: the list doesn't say."""

    name: str
    context_tokens: int | None = None
    owner: str = ""
    vocabulary_size: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The kind of a server. "other": it takes no ids; what else it is must be found out by whoever can use it.

    `version` is a vLLM's ("" if it doesn't say), `listed` are the models that it serves, `props` what a llama-server
    says of itself. `context_tokens` are those of the first model that may be asked, 0 where it doesn't say.
    """

    kind: Literal["llama-server", "vllm", "other"]
    version: str = ""
    listed: tuple[Listed, ...] = ()
    context_tokens: int = 0
    props: Json | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.listed)

    @property
    def vocabulary_size(self) -> int:
        return self.listed[0].vocabulary_size if self.listed else 0


def detect(client: Client, control: Control) -> Found:
    """Ask the server what it is: `/props` is llama.cpp's, and a vLLM calls its models its own in `/v1/models`.

    Raises EngineFailed if it can't be reached, ServerRefused if it wants a key.
    """
    props = _asked(client, "/props", control)
    listed = models_of(client, control)
    if "default_generation_settings" in props:
        context = context_of(table(props["default_generation_settings"]).get("n_ctx"))
        return Found("llama-server", "", listed, context, props)
    if listed and listed[0].owner == "vllm":
        version = str(_asked(client, "/version", control).get("version", ""))
        return Found("vllm", version, listed, context_of(listed[0].context_tokens))
    return Found("other", listed=listed)


def models_of(client: Client, control: Control) -> tuple[Listed, ...]:
    """The models that the server lists at `/v1/models`; () if it has no such list. Raises EngineFailed."""
    entries = _asked(client, "/v1/models", control).get("data")
    return tuple(
        Listed(
            str(entry["id"]),
            room_of(entry),
            str(entry.get("owned_by", "")),
            whole(table(entry.get("meta")).get("n_vocab")) or 0,
        )
        for entry in map(table, entries if isinstance(entries, list) else ())
        if entry.get("id")
    )


def room_of(entry: Json) -> int | None:
    """A model's context by its entry in a list: `max_model_len` (vLLM), `meta.n_ctx` (llama-server) and others."""
    sizes = entry.get("max_model_len"), entry.get("context_length"), table(entry.get("meta")).get("n_ctx")
    return next(filter(None, map(whole, sizes)), None)


def _asked(client: Client, path: str, control: Control) -> Json:
    """The answer; {} where the server knows no such path."""
    try:
        return client.get(path, control)
    except ServerRefused as error:
        if error.status in _ABSENT:
            return {}
        raise
