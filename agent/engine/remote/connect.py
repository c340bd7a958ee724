"""A connection to a server of models: its kind, the model to ask, and the proof that its ids are ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.engine.remote.address import Address
from ossia.agent.engine.remote.client import Client
from ossia.agent.engine.remote.detect import Found, detect, prove
from ossia.agent.engine.remote.engine import RemoteEngine
from ossia.agent.engine.remote.server import IdServer, LlamaServer, Vllm
from ossia.agent.errors import AddressUnusable, ModelNotFound
from ossia.agent.models.catalog import ETUDE, NAMES, download_of
from ossia.agent.models.find import locations
from ossia.agent.models.memory import read_memory
from ossia.agent.models.resolve import locate, resolve
from ossia.agent.vocabulary import own_tokenizer, tokenizer_for
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.host import Host, Notice, Report, silent
from ossia.tools.text import one_line

if TYPE_CHECKING:
    from ossia.agent.models.spec import ModelSpec
    from ossia.agent.served.engine import ServedEngine
    from ossia.agent.served.respond import ServedResponder
    from ossia.harmony.codec import Codec

_NAME_CHARS = 60
_NAMES_SHOWN = 8
_LOCAL = {
    "threads": "--threads",
    "gpu_layers": "--gpu-layers",
    "cpu_moe": "--n-cpu-moe",
    "kv_type": "--kv-type",
    "repack": "--repack",
}
"""The fields of a spec that are for a model in this process."""
_STUDY_IDS = 10_000  # gpt-oss has 201,088


@dataclass(frozen=True, slots=True)
class Connected:
    """A server whose kind is known and whose ids are proved. `temperature` is the model's own.

    `note` says what is used, and where it is; `warning` what of the spec has no effect there, "": all of it has.
    `respond` makes the responder for a server that takes no ids; None: it takes them. `models` are those it lists.
    """

    engine: RemoteEngine | ServedEngine
    tokenizer: Tokenizer
    temperature: float
    note: str
    warning: str
    models: tuple[str, ...]
    respond: Callable[[Codec], ServedResponder] | None = None


def connect(spec: ModelSpec, host: Host, report: Report, stop: Control) -> Connected:
    """Find out what the server of `spec` is, and prove that its vocabulary is ours. `stop` ends the wait for it.

    Raises AddressUnusable, ModelError, EngineFailed.
    """
    assert spec.server is not None
    client = Client(spec.server, notice=lambda line: report(Notice("note", line)))
    try:
        with client.one_connection():
            found = detect(client, stop)
            return _Connection(spec, spec.server, client, found, host, report, stop).made()
    except BaseException:
        client.close()
        raise


def connect_lanes(spec: ModelSpec, host: Host, report: Report, stop: Control) -> list[Connected]:
    """The same, with a connection for each lane of `spec`."""
    made = list[Connected]()
    try:
        for lane in range(spec.lanes):
            made.append(connect(spec, host, silent if lane else report, stop))
    except BaseException:
        for one in made:
            one.engine.close()
        raise
    return made


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection in the making."""

    spec: ModelSpec
    address: Address
    client: Client
    found: Found
    host: Host
    report: Report
    stop: Control

    def made(self) -> Connected:
        address, found = self.address, self.found
        wanted = self._wanted_model()
        if wanted is not None and not _takes(found, wanted, address):
            there = ", ".join(map(self._shown, found.models[:_NAMES_SHOWN]))
            more = f" and {len(found.models) - _NAMES_SHOWN} more" if len(found.models) > _NAMES_SHOWN else ""
            raise ModelNotFound(
                f"{address.name} serves no {self._shown(wanted)}, only {there}{more}: name one of these with --model"
            )
        if found.kind == "other":
            return self._served(wanted)
        if not found.context_tokens:
            raise AddressUnusable(f"{address.name} ({found.kind}) reports no context size: load a model there first")
        return self._with_ids(wanted)

    def _with_ids(self, wanted: str | None) -> Connected:
        lender = self._lender()
        tokenizer, temperature = self._vocabulary(lender)
        server = _server(self.client, self.found, wanted or next(iter(self.found.models), ""), tokenizer)
        prove(server, tokenizer, self.stop)
        context, name = min(filter(None, (server.context_tokens, self._wanted_context()))), self._name(server.model)
        engine = RemoteEngine(server, tokenizer.vocabulary, name=name, context_tokens=context)
        note = self._note(server.model, self._shown(server.kind), f"{context:,}", "no constrained decoding")
        unheard = "" if lender == self.spec.model else self._unheard(wanted)
        warning = self._without_effect(context, unheard)
        return Connected(engine, tokenizer, temperature, note, warning, self.found.models)

    def _served(self, wanted: str | None) -> Connected:
        """A server that takes no ids, but messages. The vocabulary is one that is here: it only measures prompts."""
        from ossia.agent.served.engine import LESS, NOT_HAD, serve
        from ossia.agent.served.respond import ServedResponder

        tokenizer, unheard = own_tokenizer(None, self.host), self._unheard(wanted)
        try:
            engine = serve(
                self.client,
                models=self.found.listed,
                named=wanted,
                context_tokens=self._wanted_context(),
                vocabulary=tokenizer.vocabulary,
                control=self.stop,
                notice=lambda line: self.report(Notice("note", line)),
            )
        except ModelNotFound as error:
            if not unheard:
                raise
            raise ModelNotFound(f"{self._shown(unheard)} isn't one of its models: {error}") from None
        engine.name = self._name(engine.model)
        room = f"{engine.context_tokens:,}"
        room = f"unknown, {room} assumed: see --context" if engine.context_assumed else room
        note = self._note(engine.model, engine.api.title, room, LESS)
        self.report(Notice("detail", f"{self.address.name}: {NOT_HAD}"))
        warning = self._without_effect(engine.context_tokens, unheard)
        return Connected(
            engine, tokenizer, 1.0, note, warning, self.found.models, lambda codec: ServedResponder(codec, engine)
        )

    def _wanted_model(self) -> str | None:
        """The server's name for the model to ask: the spec's, else the address's own; None: the server has to decide.

        `gpt-oss-120b` is the server's `openai/gpt-oss-120b`. What names a model or a file that is here, and none of the
        server's, isn't sent: it only lends the vocabulary.
        """
        own, listed = self.address.model, self.found.models
        choices = (own, self.spec.model) if self.spec.by_file else (self.spec.model, own)
        for model in filter(None, choices):
            theirs = called(model, listed)
            if model in listed or (not theirs and (model == own or not self._is_here(model))):
                return model
            if theirs:
                return theirs[0]
        return None

    def _wanted_context(self) -> int | None:
        asked = self.spec.context if isinstance(self.spec.context, int) else None
        return min(filter(None, (self.address.context, asked)), default=None)

    def _is_here(self, model: str) -> bool:
        """Is it a name of the catalogue, a file's path, or the name of a model on this machine?"""
        if model in NAMES or model.lower().endswith(".gguf") or model.startswith(("/", "~", ".")) or "\\" in model:
            return True
        try:
            return bool(locate(model, locations=locations(self.host)))
        except ModelNotFound:
            return False

    def _lender(self) -> str | None:
        """The model here that has the server's vocabulary: the one that the spec names; None: gpt-oss's.

        The étude if the server's vocabulary is as small.
        """
        name, size = self.spec.model, self.found.vocabulary_size
        if name is None or download_of(name) or not self._is_here(name):
            return ETUDE if 0 < size < _STUDY_IDS else None
        return None if name == ETUDE and size >= _STUDY_IDS else name

    def _vocabulary(self, lender: str | None) -> tuple[Tokenizer, float]:
        """Its vocabulary, and its own temperature."""
        if lender is None:
            return tokenizer_for(None, self.host, self.report), 1.0
        model = resolve(lender, locations=locations(self.host), memory=read_memory())
        return Tokenizer(model.vocabulary()), model.temperature

    def _unheard(self, wanted: str | None) -> str:
        """The spec's model if nothing came of it; "": something did, or there is none."""
        model = self.spec.model
        return "" if model is None or wanted in (model, *called(model, self.found.models)) else model

    def _without_effect(self, context_tokens: int, unheard: str) -> str:
        """A warning that names the explicit options which change nothing on this server; "": there are none."""
        spec = self.spec
        idle = [flag for key, flag in _LOCAL.items() if key in spec.explicit]
        if "model" in spec.explicit and unheard:
            idle.append(f"--model {self._shown(unheard)}")
        if "context" in spec.explicit and isinstance(spec.context, int) and spec.context > context_tokens:
            idle.append(f"--context (it has {context_tokens:,} tokens)")
        return f"{', '.join(idle)}: ignored, since the server decides this" if idle else ""

    def _name(self, model: str) -> str:
        """`gpt-oss-120b @ gpu.example:8000`: for the status line, and stored with what it writes."""
        return f"{self._shown(model)} @ {self.address.place}"

    def _note(self, model: str, kind: str, context: str, lacks: str) -> str:
        where = "" if self.address.is_local else "; prompts, files and results are sent there"
        return f"using {self._shown(model)} at {self.address.shown} ({kind}, context {context}){where}; {lacks}"

    def _shown(self, name: str) -> str:
        return short_name(name, self.spec.secrets)


def called(name: str, listed: Sequence[str]) -> list[str]:
    """Those of a server's models that people call so: `gpt-oss-20b` is `openai/gpt-oss-20b`, or `gpt-oss:20b`."""
    shorts = ((one, short_name(one)) for one in listed)
    return [one for one, short in shorts if name in (short, short.replace(":", "-"), short.removesuffix(":latest"))]


def short_name(name: str, secrets: Sequence[str] = ()) -> str:
    """A server's name of something, for people: `gpt-oss-120b` for `openai/gpt-oss-120b`, `etude` for `etude.gguf`.

    `secrets` are left out of it: a key may have been pasted in a model's place.
    """
    for secret in secrets:
        name = name.replace(secret, "…")
    return one_line(name.rsplit("/", 1)[-1].removesuffix(".gguf"), _NAME_CHARS) or "a model"


def _takes(found: Found, model: str, address: Address) -> bool:
    """Can this model be asked for there? Not if the server lists others only.

    A router may take more than it lists: a listed name with its provider (`openai/gpt-oss-120b:groq`), what a `*` in
    the list stands for, or what the user's own config says of it.
    """
    if not found.models or model in found.models:
        return True
    routed = model.rpartition(":")[0] in found.models or any("*" in one for one in found.models)
    return found.kind == "other" and (routed or model == address.model)


def _server(client: Client, found: Found, model: str, tokenizer: Tokenizer) -> IdServer:
    if found.props is not None:
        return LlamaServer(client, found.props, tokenizer.vocabulary)
    rooms = {one.name: one.context_tokens for one in found.listed}
    return Vllm(client, found.version, model, rooms.get(model) or found.context_tokens)
