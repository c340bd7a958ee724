"""Engines on servers: what the server is, and whether its ids are ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.control import Control
from cli.clean import clean, one_line
from cli.exits import ExitError
from cli.runtime.consent import must_be_agreed, place_of
from cli.settings.engines import address_of
from cli.settings.table import Settings
from harmony.tokenizer import Tokenizer

if TYPE_CHECKING:
    from agent.engine.remote.address import Address
    from agent.engine.remote.client import Client
    from agent.engine.remote.detect import Found
    from agent.engine.remote.engine import RemoteEngine
    from agent.engine.remote.server import IdServer
    from agent.served.engine import ServedEngine
    from agent.served.respond import ServedResponder
    from cli.runtime.progress import Display
    from harmony.codec import Codec

_NAME_CHARS = 60
_STUDY_IDS = 10_000  # gpt-oss has 201,088


@dataclass(frozen=True, slots=True)
class Connected:
    """A server, found out and proved. `temperature` is the model's own; `note` tells what is used, and where it is.

    `respond` makes the responder for a server that takes no ids; None: it takes them.
    """

    engine: RemoteEngine | ServedEngine
    tokenizer: Tokenizer
    temperature: float
    is_etude: bool
    note: str
    respond: Callable[[Codec], ServedResponder] | None = None


def connect(settings: Settings, display: Display, control: Control) -> Connected:
    """Find out what the server is, and prove that its vocabulary is ours. Waits for the server; `control` ends that.

    Raises ExitError, AddressUnusable, ModelError, EngineFailed.
    """
    from agent.engine.remote.client import Client
    from agent.engine.remote.detect import detect
    from agent.engine.remote.engine import RemoteEngine
    from agent.engine.remote.proof import prove

    address = address_of(settings.engine, os.environ)
    must_be_agreed(address, settings)
    client = Client(address, told=lambda line: display.note(f"ossia: {line}"))
    try:
        found = detect(client, control)
        if found.kind == "other":
            return _served(client, found, settings, display, control)
        if not found.context_tokens:
            raise ExitError(f"{address.name} is a {found.kind} that names no model with a context: let it load one")
        tokenizer, temperature, is_etude = _vocabulary(settings, found, display)
        server = _server(client, found, settings, tokenizer)
        prove(server, tokenizer, control)
    except BaseException:
        client.close()
        raise
    context = min(filter(None, (server.context_tokens, _wanted_context(settings, address))))
    name = _name(server.model, address)
    engine = RemoteEngine(server, tokenizer.vocabulary, name=name, context_tokens=context)
    free = "its headers and arguments are written without the guide"
    note = _note(server.model, address, _short(server.kind), context, free)
    return Connected(engine, tokenizer, temperature, is_etude, note)


def _served(client: Client, found: Found, settings: Settings, display: Display, control: Control) -> Connected:
    """A server that takes no ids, but messages. The vocabulary is one that is here: it only measures prompts."""
    from agent.served.engine import NOT_HAD
    from agent.served.probe import serve
    from agent.served.respond import ServedResponder
    from cli.runtime.vocabulary import own_tokenizer

    address, tokenizer = client.address, own_tokenizer(None)
    engine = serve(
        client,
        named=settings.model if settings.model in found.models else address.model or settings.model,
        context_tokens=_wanted_context(settings, address),
        vocabulary=tokenizer.vocabulary,
        control=control,
        told=lambda line: display.note(f"ossia: {line}"),
    )
    engine.name = _name(engine.model, address)
    note = _note(engine.model, address, engine.api.title, engine.context_tokens, NOT_HAD)
    return Connected(engine, tokenizer, 1.0, False, note, lambda codec: ServedResponder(codec, engine))


def _wanted_context(settings: Settings, address: Address) -> int | None:
    asked = settings.context if isinstance(settings.context, int) else None
    return min(filter(None, (address.context, asked)), default=None)


def _name(model: str, address: Address) -> str:
    """`gpt-oss-120b @ gpu.example:8000`: for the status line, and stored with what it writes."""
    return f"{_short(model)} @ {address.place}"


def _note(model: str, address: Address, kind: str, context: int, lacks: str) -> str:
    where = "" if address.is_local else "; prompts, files and results are sent there"
    return f"ossia: using {_short(model)} at {place_of(address)} ({kind}, context {context:,}){where}; {lacks}"


def _server(client: Client, found: Found, settings: Settings, tokenizer: Tokenizer) -> IdServer:
    from agent.engine.remote.llama_server import LlamaServer
    from agent.engine.remote.vllm import Vllm

    address = client.address
    if found.props is not None:
        return LlamaServer(client, found.props, tokenizer.vocabulary)
    wanted = address.model or (settings.model if settings.model in found.models else found.models[0])
    if wanted not in found.models:
        there = ", ".join(map(_short, found.models[:5]))
        raise ExitError(f"{address.name} serves no {wanted!r}, only {there}: correct model in [engines.NAME]")
    return Vllm(client, found.version, wanted, found.context_tokens)


def _vocabulary(settings: Settings, found: Found, display: Display) -> tuple[Tokenizer, float, bool]:
    """The vocabulary that the server should have: that of `--model`, the étude's if it is as small, else gpt-oss's."""
    from agent.models.memory import read_memory
    from agent.models.resolve import resolve
    from cli.runtime.models import locations
    from cli.runtime.vocabulary import tokenizer_for

    name = None if settings.model in found.models else settings.model
    if name is None and 0 < found.vocabulary_size < _STUDY_IDS:
        name = "etude"
    if name is None:
        return tokenizer_for(None, say=lambda line: display.note(f"ossia: {line}")), 1.0, False
    model = resolve(name, locations=locations(), memory=read_memory())
    return Tokenizer(model.vocabulary()), model.temperature, model.is_etude


def _short(name: str) -> str:
    """A server's name of something, for people: `gpt-oss-120b` for `openai/gpt-oss-120b`, `etude` for `etude.gguf`."""
    return one_line(clean(name.rsplit("/", 1)[-1].removesuffix(".gguf")), _NAME_CHARS) or "a model"
