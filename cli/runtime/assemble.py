"""From settings to what a turn runs on: the model, the tools, the responder."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from ossia.agent.control import Control
from ossia.agent.engine.base import Engine
from ossia.agent.errors import EngineFailed, SettingRefused
from ossia.agent.kv_cache import stored_prompts
from ossia.agent.limits import Limits
from ossia.agent.respond import LocalResponder, Tap
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.runtime.pace import loading_words
from ossia.cli.runtime.planning import native_settings, on_gpu, plan_for
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.toolset import collect, tools_spec
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.engines import is_server
from ossia.cli.settings.kinds import thinking_limit
from ossia.cli.settings.table import Settings
from ossia.harmony.codec import Codec
from ossia.harmony.messages import is_call
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.build import Toolset
from ossia.tools.workspace import Folder

if TYPE_CHECKING:
    from ossia.agent.engine.guiding import Guides
    from ossia.agent.events import Decision, Event
    from ossia.agent.models.memory import GpuMemory
    from ossia.agent.models.model import ModelFile
    from ossia.agent.models.plan import Plan
    from ossia.agent.served.respond import ServedResponder
    from ossia.agent.sessions.session import Session, UserText

_MAX_LOG_BYTES = 1 << 20
_R = TypeVar("_R")


class Wait(Protocol):
    """Waits for the worker, and goes on showing that something happens."""

    def __call__(self, future: Future[_R]) -> _R: ...


@dataclass(slots=True)
class Assembly:
    """All that a turn needs, loaded. `load_s` is how many seconds loading it took."""

    engine: Engine
    codec: Codec
    responder: LocalResponder | ServedResponder
    tools: Toolset
    load_s: float
    display: Display
    plan: Plan | None = None  # how the model was loaded; None: there are no weights
    served: tuple[str, ...] = ()  # the models that its server lists, as that calls them

    def warn_of_control_names(self, text: str, where: str) -> None:
        """Say so when text from outside spells a control token: the model gets it as plain text."""
        spelled = [name for name in self.engine.vocabulary.control if name in text]
        if spelled:
            names = ", ".join(sorted(spelled)[:3])
            self.display.warn(f"{where} spells {names}: it is sent as plain text, not as a control token")

    def turn(
        self, session: Session, text: UserText, settings: Settings, control: Control
    ) -> Generator[Event, Decision | None, object]:
        """The events of a turn with this model and these tools, for `Worker.drive`."""
        from ossia.agent.loop import run_turn

        offer_browser(self.tools, session, text.typed or text.text)
        limits = Limits(
            max_tokens=settings.max_tokens,
            max_thinking=thinking_limit(settings.think_tokens, session.options.effort),
            max_seconds=settings.timeout,
        )
        return run_turn(
            session, text, responder=self.responder, tools=self.tools.toolbox, limits=limits, control=control
        )

    def close_tools(self) -> None:
        """End what the tools have running, and say where the files are that the model's code left."""
        kept = self.tools.python.kept_folder if self.tools.python else None
        self.tools.close()
        if kept is not None:
            self.display.aside(f"python's files: {kept}", whole=True)


def offer_browser(tools: Toolset, session: Session, typed: str = "") -> bool:
    """Offer the browser if this conversation can need it. True: it waited until now."""
    called = (message.recipient or "" for message in session.messages if is_call(message))
    return tools.browse_for(f"{session.said} {typed}", called)


@dataclass(slots=True)
class Loading:
    """A model on its way: its name is known, and the worker is loading its weights."""

    model_name: str
    _resolved: Resolved
    _folder: Folder | None
    _display: Display
    _started: float
    _engine: Callable[[], tuple[Engine, Plan | None]]
    _tokenizer: Tokenizer
    note: str = ""  # which model is used; told once the settings have proved usable
    temperature: float = 1.0  # the model's own
    respond: Callable[[Codec], ServedResponder] | None = None  # how, if a server does it that takes no ids
    served: tuple[str, ...] = ()

    def finish(self, *, tap: Tap | None, tools: Toolset | None = None) -> Assembly:
        """Put everything together, and wait for the weights. `tools`: those of the model before, to be kept."""
        if tap and self.respond:
            raise SettingRefused(f"--raw shows ids, and the server of {self.model_name} gives none: leave it out")
        own = tools is None
        tools = tools or collect(self._resolved, self._folder, self._display, self._tokenizer)
        if self.note:
            self._display.note(self.note)
        try:
            engine, planned = self._engine()
        except BaseException:
            if own:
                tools.close()
            raise
        tools.counter.tokenizer = self._tokenizer
        codec = Codec(self._tokenizer, recipient_position="channel", replay=True)
        return Assembly(
            engine=engine,
            codec=codec,
            responder=self._responder(codec, engine, tap),
            tools=tools,
            load_s=time.monotonic() - self._started,
            display=self._display,
            plan=planned,
            served=self.served,
        )

    def _responder(self, codec: Codec, engine: Engine, tap: Tap | None) -> LocalResponder | ServedResponder:
        if self.respond is not None:
            return self.respond(codec)
        guided = self._resolved.settings.guide == "on"
        return LocalResponder(codec, engine, tap=tap, guided=guided, temperature=self.temperature)


def begin(
    resolved: Resolved,
    folder: Folder | None,
    display: Display,
    worker: Worker,
    wait: Wait,
    *,
    stays: bool = False,
    control: Control | None = None,
) -> Loading:
    """Find the model, look at it, and let the worker load its weights; `wait` is how to wait for it.

    `stays`: it will answer again and again, as in a chat, so that what makes it faster may take its time now.
    `control`: ends the wait for a server.

    Raises ModelError, DoesNotFit, ScriptInvalid, or ExitError for settings that name nothing.
    """
    settings = resolved.settings
    tools_spec(resolved, folder)  # a missing file of functions is reported before anything is loaded
    started = time.monotonic()
    if settings.engine.startswith("script:"):
        engine, tokenizer = _script(settings, display)
        return Loading(engine.name, resolved, folder, display, started, lambda: (engine, None), tokenizer)
    if is_server(settings.engine):
        return _remote(resolved, folder, display, worker, wait, control or Control())
    model, loaded, tokenizer, note = _llama(settings, display, worker, wait, stays=stays)
    return Loading(model.name, resolved, folder, display, started, loaded, tokenizer, note, model.temperature)


def _remote(
    resolved: Resolved, folder: Folder | None, display: Display, worker: Worker, wait: Wait, control: Control
) -> Loading:
    from ossia.cli.runtime.remote import connect, without_effect

    started = time.monotonic()
    display.line.set("asking the server")
    by_file = resolved.origins["model"].startswith("file ")
    asking = worker.submit(lambda: connect(resolved.settings, display, control, by_file=by_file))
    try:
        server = wait(asking)
    except BaseException:
        if not asking.done():
            control.stop()
        raise
    engine, own, served = server.engine, server.temperature, server.models
    if control.stopped:  # while the last answer came
        engine.close()
        raise EngineFailed(f"{engine.name}: stopped before it was used")

    def told() -> tuple[Engine, None]:
        display.note(server.note)
        if idle := without_effect(resolved, server):
            display.warn(idle)
        return engine, None

    tokenizer, respond = server.tokenizer, server.respond
    return Loading(engine.name, resolved, folder, display, started, told, tokenizer, "", own, respond, served)


def _llama(
    settings: Settings, display: Display, worker: Worker, wait: Wait, *, stays: bool
) -> tuple[ModelFile, Callable[[], tuple[Engine, Plan | None]], Tokenizer, str]:
    from ossia.agent.guide import GuideCompiler
    from ossia.agent.models.find import locations
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.resolve import resolve
    from ossia.agent.pace import LoadProgress

    gpus = worker.submit(_gpus)  # loads the library; if the model is named, while its header is read
    memory = read_memory() if settings.model else read_memory(wait(gpus))
    model = resolve(settings.model, locations=locations(paths.host()), memory=memory)
    for note in model.notes:
        display.warn(note)
    note = "" if settings.model else f"ossia: using {model.name} ({model.path})"
    if note and model.origin == "built-in":
        real = "to get the real one (12 GB): ossia models pull gpt-oss-20b"
        note = f"ossia: using étude, the built-in study model; {real}"
    vocabulary = model.vocabulary()

    progress = LoadProgress(model.file_bytes)
    guides: Future[Guides] = Future()  # the tokenizer is made while the weights are loaded

    def load() -> tuple[Engine, Plan]:
        from ossia.agent.engine.llama import LlamaEngine

        planned = plan_for(settings, model, read_memory(gpus.result()), stays=stays)
        progress.begin(then=_what_takes_time(planned))
        engine = LlamaEngine.load(
            model.path,
            vocabulary=vocabulary,
            name=model.name,
            settings=native_settings(planned, threads=settings.threads),
            log_path=_log_file(),
            on_progress=progress.report,
            guides=lambda constraint: guides.result()(constraint),
        )
        engine.prompts = stored_prompts(paths.host().kv, private=settings.private)
        return engine, planned

    display.line.set(lambda: loading_words(progress.now()))
    loading = worker.submit(load)

    def loaded() -> tuple[Engine, Plan]:
        engine, planned = wait(loading)
        for warning in planned.warnings:
            display.warn(warning)
        display.detail(f"{model.name}: {model.path}, context {planned.context_tokens:,} tokens, {on_gpu(planned)}")
        display.detail(": ".join(memory_lines(planned)))
        return engine, planned

    tokenizer = Tokenizer(vocabulary)
    guides.set_result(GuideCompiler(tokenizer))
    return model, loaded, tokenizer, note


def _what_takes_time(planned: Plan) -> str:
    """What llama.cpp does with weights that are in memory, in words; "": nothing."""
    if planned.repack:
        return "repacking the weights"
    return "moving the weights to the GPU" if planned.gpu_layers else ""


def memory_lines(planned: Plan) -> tuple[str, str]:
    """`("memory 13.3 GB, weights not repacked", "weights 12.1 GB, KV cache 0.8 GB, the rest 0.4 GB")`."""
    from ossia.agent.models.memory import size_text

    needs = planned.needs
    parts = [("weights", needs.weights), ("repacked", needs.repacked), ("KV cache", needs.kv)]
    parts.append(("the rest", needs.buffers + needs.own))
    head = f"memory {size_text(needs.total)}, weights {'' if planned.repack else 'not '}repacked"
    return head, ", ".join(f"{name} {size_text(size)}" for name, size in parts if size)


def _gpus() -> GpuMemory:
    """Load llama.cpp's library, and ask it for the free memory of its GPUs."""
    from ossia.agent.engine.llama import gpu_memory

    return gpu_memory()


def _script(settings: Settings, display: Display) -> tuple[Engine, Tokenizer]:
    from ossia.agent.engine.scripted import CONTEXT_TOKENS, ScriptedEngine, read_script
    from ossia.agent.vocabulary import tokenizer_for

    script = read_script(Path(settings.engine.removeprefix("script:")))
    model = settings.model if script.has_ids or settings.model else "etude"
    tokenizer = tokenizer_for(model, paths.host(), display.report)
    context = settings.context if isinstance(settings.context, int) else CONTEXT_TOKENS
    return ScriptedEngine(script, tokenizer, context_tokens=context), tokenizer


def _log_file() -> Path | None:
    """Where llama.cpp's log goes; one that has grown past a megabyte begins anew. None: no log can be kept there."""
    path = paths.log_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
            path.unlink()
    except OSError:
        return None
    return path
