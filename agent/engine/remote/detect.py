"""Detecting an engine's server, and proving that its vocabulary is ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ossia.agent.control import Control
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.engine.remote.server import IdServer, context_of, table, whole
from ossia.agent.errors import EngineFailed, ServerRefused
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import NAMES

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


# -- the proof ---------------------------------------------------------------------------------------------------------

_TEXTS: Final = (
    "The quick brown fox can't, won't and I'LL not jump over 1234567 dogs, 3.14159 times.",
    "  two spaces,   three;\ttabs\t\tand\n\n\nlines \r\n  ",
    "Grüße, naïve Ωmega, Привет, 漢字かな, 한국어, العربية, हिन्दी 🦉👩\u200d🚀",
    'def f(x: int) -> dict[str, int]:\n    return {"a": x ** 2}  # {"city": "Oslo"}',
)
_MOST_IDS: Final = 4096
"""So many of the ordinary tokens are compared, spread over all of them."""


def prove(server: IdServer, tokenizer: Tokenizer, control: Control) -> None:
    """Check that the server's ids mean what ours mean. Raises EngineFailed, which says where they differ.

    The control tokens are asked for, spelled out; then texts with numbers, spaces and many scripts, and ids
    spread over the whole vocabulary. Texts that only look like control tokens must come back as what we sent: as text.
    How a server cuts a text doesn't matter, since it gets ids: llama.cpp cuts some scripts otherwise than tiktoken.
    """
    try:
        _prove(server, tokenizer, control)
    except ServerRefused as error:
        raise EngineFailed(
            f"{error}: without /tokenize and /detokenize nothing proves that its vocabulary is ours"
        ) from error


def _prove(server: IdServer, tokenizer: Tokenizer, control: Control) -> None:
    vocabulary = tokenizer.vocabulary
    own = {name: number for name, number in vocabulary.control.items() if name in NAMES}
    theirs = server.tokenize("".join(own), control)  # all at once: a far server is asked less often
    for (name, number), other in zip(own.items(), theirs, strict=False):
        _same(server, name, number, other)
    _same(server, theirs, "".join(own), server.detokenize(theirs, control))
    for text in _TEXTS:
        _same(server, text, text, tokenizer.decode(server.tokenize(text, control)))
        _same(server, text, text, server.detokenize(tokenizer.encode(text), control))
    spelled = "".join(NAMES)
    _same(server, spelled, spelled, server.detokenize(tokenizer.encode(spelled), control))
    ids = _spread(vocabulary.tokens)
    _same(server, f"{len(ids)} ids", tokenizer.decode(ids), server.detokenize(ids, control))


def _spread(tokens: Sequence[bytes]) -> list[int]:
    """Ids spread over the vocabulary, of tokens that are text by themselves."""
    ids = [number for number, token in enumerate(tokens) if token and _is_text(token)]
    count = min(len(ids), _MOST_IDS)
    return [ids[at * len(ids) // count] for at in range(count)]


def _is_text(token: bytes) -> bool:
    try:
        return bool(token.decode())
    except UnicodeDecodeError:
        return False


def _same(server: IdServer, what: object, ours: object, theirs: object) -> None:
    if ours != theirs:
        is_there = server.client.said(repr(theirs), 40)
        raise EngineFailed(
            f"{server.client.address.name}: its vocabulary isn't ours: {what!r:.40} is {is_there} there, not "
            f"{ours!r:.40}: serve a gpt-oss model there, or name the GGUF that it serves with --model"
        )
