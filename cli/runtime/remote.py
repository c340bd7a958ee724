"""Engines on servers: what the server is, and whether its ids are ours."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.cli import paths
from ossia.cli.clean import clean, one_line
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.runtime.consent import must_be_agreed, place_of
from ossia.cli.settings.engines import address_of, key_variables
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.harmony.tokenizer import Tokenizer

if TYPE_CHECKING:
    from ossia.agent.engine.remote.address import Address
    from ossia.agent.engine.remote.client import Client
    from ossia.agent.engine.remote.detect import Found
    from ossia.agent.engine.remote.engine import RemoteEngine
    from ossia.agent.engine.remote.server import IdServer
    from ossia.agent.served.engine import ServedEngine
    from ossia.agent.served.respond import ServedResponder
    from ossia.cli.runtime.progress import Display
    from ossia.cli.settings.config import Resolved
    from ossia.harmony.codec import Codec

_NAME_CHARS = 60
_NAMES_SHOWN = 8
_LOCAL = ("threads", "gpu_layers", "n_cpu_moe", "kv_type", "repack")
"""Settings of a model in this process."""
_STUDY_IDS = 10_000  # gpt-oss has 201,088


@dataclass(frozen=True, slots=True)
class Connected:
    """A server, found out and proved. `temperature` is the model's own; `note` tells what is used, and where it is.

    `respond` makes the responder for a server that takes no ids; None: it takes them. `models` are those it lists.
    `unheard` is the `model` of the settings if nothing came of it; "": something did, or there was none.
    """

    engine: RemoteEngine | ServedEngine
    tokenizer: Tokenizer
    temperature: float
    note: str
    respond: Callable[[Codec], ServedResponder] | None = None
    models: tuple[str, ...] = ()
    unheard: str = ""


def connect(settings: Settings, display: Display, control: Control, *, by_file: bool = False) -> Connected:
    """Find out what the server is, and prove that its vocabulary is ours. Waits for the server; `control` ends that.

    `by_file`: the config file says which `model`; that of its [engines.NAME] comes first then. Raises ExitError,
    AddressUnusable, ModelError, EngineFailed.
    """
    from ossia.agent.engine.remote.client import Client
    from ossia.agent.engine.remote.detect import detect, prove
    from ossia.agent.engine.remote.engine import RemoteEngine

    address = address_of(settings.engine, os.environ)
    must_be_agreed(address, settings)
    client = Client(address, notice=lambda line: display.note(f"ossia: {line}"))
    try:
        with client.one_connection():
            found = detect(client, control)
            wanted = _wanted_model(settings, address, found.models, by_file=by_file)
            if wanted is not None and not _takes(found, wanted, address):
                there = ", ".join(map(shown, found.models[:_NAMES_SHOWN]))
                more = f" and {len(found.models) - _NAMES_SHOWN} more" if len(found.models) > _NAMES_SHOWN else ""
                said = f"{address.name} serves no {shown(wanted)}, only {there}{more}: name one of these with --model"
                raise ExitError(said, ExitCode.MODEL)
            if found.kind == "other":
                return _served(client, found, wanted, settings, display, control)
            if not found.context_tokens:
                raise ExitError(f"{address.name} ({found.kind}) reports no context size: load a model there first")
            vocabulary = _vocabulary_of(settings.model, found)
            tokenizer, temperature = _vocabulary(vocabulary, display)
            server = _server(client, found, wanted or next(iter(found.models), ""), tokenizer)
            prove(server, tokenizer, control)
    except BaseException:
        client.close()
        raise
    context = min(filter(None, (server.context_tokens, _wanted_context(settings, address))))
    name = _name(server.model, address)
    engine = RemoteEngine(server, tokenizer.vocabulary, name=name, context_tokens=context)
    free = "no constrained decoding"
    note = _note(server.model, address, shown(server.kind), f"{context:,}", free)
    unheard = "" if vocabulary == settings.model else _unheard(settings.model, wanted, found)
    return Connected(engine, tokenizer, temperature, note, models=found.models, unheard=unheard)


def without_effect(resolved: Resolved, server: Connected) -> str:
    """A warning that names the flags which change nothing on this server; "": there are none.

    What the config file says is for the times when no server is used.
    """

    def is_flag(key: str) -> bool:
        return resolved.origins.get(key, "").startswith("--")

    idle, asked = [SETTINGS[key].long_flag for key in _LOCAL if is_flag(key)], resolved.settings.context
    context_tokens = server.engine.context_tokens
    if is_flag("model") and server.unheard:
        idle.append(f"--model {shown(server.unheard)}")
    if is_flag("context") and isinstance(asked, int) and asked > context_tokens:
        idle.append(f"--context (it has {context_tokens:,} tokens)")
    return f"{', '.join(idle)}: without effect, since the server decides this" if idle else ""


def _served(
    client: Client, found: Found, wanted: str | None, settings: Settings, display: Display, control: Control
) -> Connected:
    """A server that takes no ids, but messages. The vocabulary is one that is here: it only measures prompts."""
    from ossia.agent.errors import ModelMissing
    from ossia.agent.served.engine import LESS, NOT_HAD, serve
    from ossia.agent.served.respond import ServedResponder
    from ossia.agent.vocabulary import own_tokenizer

    address, tokenizer = client.address, own_tokenizer(None, paths.host())
    unheard = _unheard(settings.model, wanted, found)
    try:
        engine = serve(
            client,
            models=found.listed,
            named=wanted,
            context_tokens=_wanted_context(settings, address),
            vocabulary=tokenizer.vocabulary,
            control=control,
            notice=lambda line: display.note(f"ossia: {line}"),
        )
    except ModelMissing as error:
        raise (ModelMissing(f"{shown(unheard)} is none of its models: {error}") if unheard else error) from None
    engine.name = _name(engine.model, address)
    room = f"{engine.context_tokens:,}"
    room = f"unknown, {room} assumed: see --context" if engine.context_assumed else room
    note = _note(engine.model, address, engine.api.title, room, LESS)
    display.detail(f"{address.name}: {NOT_HAD}")
    return Connected(engine, tokenizer, 1.0, note, lambda codec: ServedResponder(codec, engine), found.models, unheard)


def _wanted_context(settings: Settings, address: Address) -> int | None:
    asked = settings.context if isinstance(settings.context, int) else None
    return min(filter(None, (address.context, asked)), default=None)


def _name(model: str, address: Address) -> str:
    """`gpt-oss-120b @ gpu.example:8000`: for the status line, and stored with what it writes."""
    return f"{shown(model)} @ {address.place}"


def _note(model: str, address: Address, kind: str, context: str, lacks: str) -> str:
    where = "" if address.is_local else "; prompts, files and results are sent there"
    return f"ossia: using {shown(model)} at {place_of(address)} ({kind}, context {context}){where}; {lacks}"


def _wanted_model(settings: Settings, address: Address, listed: Sequence[str], *, by_file: bool) -> str | None:
    """The server's name for the model to ask: `--model`'s, else the engine's own; None: the server has to decide.

    `--model gpt-oss-120b` is the server's `openai/gpt-oss-120b`. What names a model or a file that is here, and none of
    the server's, isn't sent: it tells the vocabulary only.
    """
    choices = (address.model, settings.model) if by_file else (settings.model, address.model)
    for model in filter(None, choices):
        theirs = called(model, listed)
        if model in listed or (not theirs and (model == address.model or not _is_here(model))):
            return model
        if theirs:
            return theirs[0]
    return None


def _unheard(model: str | None, wanted: str | None, found: Found) -> str:
    return "" if model is None or wanted in (model, *called(model, found.models)) else model


def called(name: str, listed: Sequence[str]) -> list[str]:
    """Those of a server's models that people call so: `gpt-oss-20b` is `openai/gpt-oss-20b`, or `gpt-oss:20b`."""
    shorts = ((one, _short(one)) for one in listed)
    return [one for one, short in shorts if name in (short, short.replace(":", "-"), short.removesuffix(":latest"))]


def _takes(found: Found, model: str, address: Address) -> bool:
    """Can this model be asked for there? Not if the server lists others only.

    A router may take more than it lists: a listed name with its provider (`openai/gpt-oss-120b:groq`), what a `*` in
    the list stands for, or what the user's own config says of it.
    """
    if not found.models or model in found.models:
        return True
    routed = model.rpartition(":")[0] in found.models or any("*" in one for one in found.models)
    return found.kind == "other" and (routed or model == address.model)


def _is_here(model: str) -> bool:
    """Is it a name of the catalogue, a file's path, or the name of a model on this machine?"""
    from ossia.agent.errors import ModelMissing
    from ossia.agent.models.catalog import NAMES
    from ossia.agent.models.find import locations
    from ossia.agent.models.resolve import locate

    if model in NAMES or model.lower().endswith(".gguf") or model.startswith(("/", "~", ".")) or "\\" in model:
        return True
    try:
        return bool(locate(model, locations=locations(paths.host())))
    except ModelMissing:
        return False


def _server(client: Client, found: Found, model: str, tokenizer: Tokenizer) -> IdServer:
    from ossia.agent.engine.remote.server import LlamaServer, Vllm

    if found.props is not None:
        return LlamaServer(client, found.props, tokenizer.vocabulary)
    rooms = {one.name: one.context_tokens for one in found.listed}
    return Vllm(client, found.version, model, rooms.get(model) or found.context_tokens)


def _vocabulary_of(name: str | None, found: Found) -> str | None:
    """The model here that has the server's vocabulary: the one that `--model` names; None: gpt-oss's.

    The étude if the server's vocabulary is as small.
    """
    from ossia.agent.models.catalog import ETUDE, download_of

    size = found.vocabulary_size
    if name is None or download_of(name) or not _is_here(name):
        return ETUDE if 0 < size < _STUDY_IDS else None
    return None if name == ETUDE and size >= _STUDY_IDS else name


def _vocabulary(name: str | None, display: Display) -> tuple[Tokenizer, float]:
    """That vocabulary, and the temperature of its model."""
    from ossia.agent.models.find import locations
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import resolve
    from ossia.agent.vocabulary import tokenizer_for

    if name is None:
        return tokenizer_for(None, paths.host(), display.report), 1.0
    model = resolve(name, locations=locations(paths.host()), memory=read_memory())
    return Tokenizer(model.vocabulary()), model.temperature


def shown(name: str) -> str:
    """`_short`, without the keys of engines: one may have been pasted in a model's place."""
    for variable in key_variables(os.environ):
        if key := os.environ.get(variable):
            name = name.replace(key, "…")
    return _short(name)


def _short(name: str) -> str:
    """A server's name of something, for people: `gpt-oss-120b` for `openai/gpt-oss-120b`, `etude` for `etude.gguf`."""
    return one_line(clean(name.rsplit("/", 1)[-1].removesuffix(".gguf")), _NAME_CHARS) or "a model"
