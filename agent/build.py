"""Builds a model from its specification: finds it, and loads it or asks its server, with reports of how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.engine.scripted import CONTEXT_TOKENS, ScriptedEngine, read_script
from ossia.agent.errors import AgentError, EngineFailed, SettingRefused
from ossia.agent.kv_cache import stored_prompts
from ossia.agent.models.memory import GpuMemory, Memory, read_memory
from ossia.agent.respond import LocalResponder, Tap
from ossia.agent.worker import Worker, awaited
from ossia.harmony.codec import Codec
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.host import Host, Loading, Notice, Report, silent

if TYPE_CHECKING:
    from ossia.agent.engine.base import Engine
    from ossia.agent.engine.guiding import Guides
    from ossia.agent.models.model import ModelFile
    from ossia.agent.models.plan import Plan
    from ossia.agent.models.spec import ModelSpec
    from ossia.agent.served.respond import ServedResponder

_MAX_LOG_BYTES = 1 << 20


@dataclass(slots=True)
class Model:
    """A model that is ready to answer, on the thread of its `worker`, which owns the engine.

    `load_s` is how many seconds loading it took; `plan` how it was loaded, None: there are no weights here. `served`
    are the models that its server lists, as that calls them.
    """

    worker: Worker
    engine: Engine
    codec: Codec
    responder: LocalResponder | ServedResponder
    load_s: float
    plan: Plan | None = None
    served: tuple[str, ...] = ()
    last_read: str | None = None  # the stored session whose text the engine's cache holds; None: none, or private text
    client: str | None = None  # the key of the conversation of a server's client whose text it holds

    @property
    def name(self) -> str:
        """`gpt-oss-20b`, `gpt-oss-120b @ gpu.example:8000`."""
        return self.engine.name

    @property
    def tokenizer(self) -> Tokenizer:
        return self.codec.tokenizer

    def close(self) -> Future[None]:
        """Free the engine once the worker's earlier jobs are done. The worker goes on."""
        return self.worker.submit(self.engine.close)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """An engine for each lane, the plan, and the notices of the load."""

    engines: Sequence[Engine]
    plan: Plan | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(slots=True)
class Begun:
    """A model on its way: its name and vocabulary are known, and the worker is loading its weights.

    `note`: which of the models here was chosen, reported by `finish`; "": the spec names it, or nobody need know.
    """

    name: str
    tokenizer: Tokenizer
    _spec: ModelSpec
    _report: Report
    _worker: Worker
    _began: float
    _loading: Future[_Loaded]
    _now: Callable[[], Loading] = lambda: Loading("")
    note: str = ""
    _temperature: float = 1.0  # the model's own
    _responds: Sequence[Callable[[Codec], ServedResponder]] = ()  # for a server that takes no ids: one for each lane
    _served: tuple[str, ...] = ()

    def finish(self, tap: Tap | None = None) -> Model:
        """Wait for the weights. `tap` gets the ids as they are drawn; raises SettingRefused where ids never come.

        Raises ModelError, DoesNotFit, EngineFailed and SettingRefused.
        """
        return self.finish_lanes(tap)[0]

    def finish_lanes(self, tap: Tap | None = None) -> tuple[Model, ...]:
        """The same, with a model for each of the spec's lanes. Each has a worker; all are to be closed."""
        if tap and self._responds:
            raise SettingRefused(f"--raw shows ids, and the server of {self.name} gives none: leave it out")
        if self.note:
            self._report(Notice("note", self.note))
        loaded = awaited(self._loading, lambda: self._report(self._now()))
        for notice in loaded.notices:
            self._report(notice)
        self._report(Loading(""))
        return tuple(self._model(loaded, lane, tap) for lane in range(len(loaded.engines)))

    def _model(self, loaded: _Loaded, lane: int, tap: Tap | None) -> Model:
        # A codec of its own: what it remembers of rendered messages is for one thread.
        engine, codec = loaded.engines[lane], Codec(self.tokenizer, recipient_position="channel", replay=True)
        if self._responds:
            responder: LocalResponder | ServedResponder = self._responds[lane](codec)
        else:
            guided, temperature = self._spec.guided, self._temperature
            responder = LocalResponder(codec, engine, tap=tap, guided=guided, temperature=temperature)
        load_s = time.monotonic() - self._began
        worker = Worker() if lane else self._worker
        return Model(worker, engine, codec, responder, load_s, loaded.plan, self._served)

    def close(self) -> None:
        """Give it up, instead of `finish`: the engine is freed as soon as it is loaded."""

        def free() -> None:
            with suppress(AgentError):  # then nothing was loaded
                for engine in self._loading.result().engines:
                    engine.close()

        self._worker.submit(free)


def model(spec: ModelSpec, host: Host, report: Report = silent) -> Model:
    """The model, ready to answer on a worker of its own. Raises the errors of `begin` and `Begun.finish`."""
    return models(spec, host, report)[0]


def models(spec: ModelSpec, host: Host, report: Report = silent, *, lanes: int = 1) -> tuple[Model, ...]:
    """The model in so many lanes (`agent.lanes`), each ready to answer on a worker of its own. Raises the same errors.

    In this process they share the weights; of a server each has a connection of its own; a script is replayed by all
    of them, each step once.
    """
    worker = Worker()
    try:
        return begin(replace(spec, lanes=lanes), host, report, worker=worker, stop=Control()).finish_lanes()
    except BaseException:
        worker.close(0)
        raise


def begin(spec: ModelSpec, host: Host, report: Report, *, worker: Worker, stop: Control) -> Begun:
    """Find the model, look at it, and let `worker` load its weights; `stop` ends the wait for a server.

    Raises ModelError, DoesNotFit, ScriptInvalid, AddressUnusable and EngineFailed.
    """
    began = time.monotonic()
    if spec.script:
        engine, tokenizer = _scripted(spec, spec.script, host, report)
        loading = worker.submit(lambda: _Loaded([engine] * spec.lanes))
        return Begun(engine.name, tokenizer, spec, report, worker, began, loading)
    if spec.server:
        return _remote(spec, host, report, worker, stop, began)
    return _local(spec, host, report, worker, began)


def _scripted(spec: ModelSpec, file: Path, host: Host, report: Report) -> tuple[Engine, Tokenizer]:
    from ossia.agent.vocabulary import tokenizer_for

    script = read_script(file)
    name = spec.model if script.has_ids or spec.model else "etude"
    tokenizer = tokenizer_for(name, host, report)
    context = spec.context if isinstance(spec.context, int) else CONTEXT_TOKENS
    return ScriptedEngine(script, tokenizer, context_tokens=context), tokenizer


def _remote(spec: ModelSpec, host: Host, report: Report, worker: Worker, stop: Control, began: float) -> Begun:
    from ossia.agent.engine.remote.connect import connect_lanes

    asking = worker.submit(lambda: connect_lanes(spec, host, report, stop))
    try:
        servers = awaited(asking, lambda: report(Loading("asking the server")))
    except BaseException:
        if not asking.done():
            stop.stop()
        raise
    server, engines = servers[0], [one.engine for one in servers]
    if stop.stopped:  # while the last answer came
        for engine in engines:
            engine.close()
        raise EngineFailed(f"{server.engine.name}: stopped before it was used")
    warnings = [Notice("warning", server.warning)] if server.warning else []
    loaded = _Loaded(engines, notices=(Notice("note", server.note), *warnings))
    return Begun(
        server.engine.name,
        server.tokenizer,
        spec,
        report,
        worker,
        began,
        worker.submit(lambda: loaded),
        _temperature=server.temperature,
        _responds=[one.respond for one in servers if one.respond],
        _served=server.models,
    )


def _local(spec: ModelSpec, host: Host, report: Report, worker: Worker, began: float) -> Begun:
    from ossia.agent.guide import GuideCompiler
    from ossia.agent.models.find import locations
    from ossia.agent.models.pace import LoadProgress
    from ossia.agent.models.plan import plan
    from ossia.agent.models.resolve import resolve

    gpus = worker.submit(_gpus)  # loads the library; if the model is named, while its header is read
    looked = None if spec.model else awaited(gpus, lambda: report(Loading("loading the model")))
    model = resolve(spec.model, locations=locations(host), memory=read_memory(looked))
    for line in model.notes:
        report(Notice("warning", line))
    note = "" if spec.model else f"using {model.name} ({model.path})"
    if note and model.origin == "built-in":
        note = "using étude, the built-in study model; to get the real one (12 GB): ossia models pull gpt-oss-20b"
    vocabulary = model.vocabulary()
    progress = LoadProgress(model.file_bytes)
    guides: Future[Guides] = Future()  # the tokenizer is made while the weights are loaded

    def load() -> _Loaded:
        from ossia.agent.engine.llama import LlamaEngine, llama_settings, processor_features

        options, memory = spec.load_options(model.temperature), read_memory(gpus.result())
        planned = plan(model, memory=memory, options=options, processor=processor_features())
        progress.begin(then=_slow_part(planned))
        engines = LlamaEngine.load(
            model.path,
            vocabulary=vocabulary,
            name=model.name,
            settings=llama_settings(planned, threads=spec.threads),
            log_path=_log_file(host.log),
            on_progress=progress.report,
            guides=lambda constraint: guides.result()(constraint),
        )
        for engine in engines:
            engine.prompts = stored_prompts(host.kv, private=spec.private)
        return _Loaded(engines, planned, _notices_of(model, planned))

    report(progress.now())
    loading = worker.submit(load)
    tokenizer = Tokenizer(vocabulary)
    guides.set_result(GuideCompiler(tokenizer))
    return Begun(
        model.name, tokenizer, spec, report, worker, began, loading, progress.now, note, _temperature=model.temperature
    )


def _notices_of(model: ModelFile, planned: Plan) -> tuple[Notice, ...]:
    """The notices of a load: the plan's warnings, and the details of `--verbose`."""
    from ossia.agent.models.plan import memory_lines, on_gpu

    where = f"{model.name}: {model.path}, context {planned.context_tokens:,} tokens, {on_gpu(planned)}"
    details = where, ": ".join(memory_lines(planned))
    warnings = (Notice("warning", line) for line in planned.warnings)
    return (*warnings, *(Notice("detail", line) for line in details))


def free_memory() -> Memory:
    """The free memory of this machine and its GPUs, as a load counts it."""
    return read_memory(_gpus())


def _gpus() -> GpuMemory:
    """Load llama.cpp's library, and ask it for the free memory of its GPUs."""
    from ossia.agent.engine.llama import gpu_memory

    return gpu_memory()


def _slow_part(planned: Plan) -> str:
    """The work of llama.cpp with weights that are in memory, in words; "": nothing that takes its time."""
    if planned.repack:
        return "repacking the weights"
    return "moving the weights to the GPU" if planned.gpu_layers else ""


def _log_file(path: Path) -> Path | None:
    """The file for llama.cpp's log, emptied beyond a megabyte; None: it can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
            path.unlink()
    except OSError:
        return None
    return path
