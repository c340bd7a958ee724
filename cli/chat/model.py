"""The model of a chat and its tools: loaded beside the screen, and replaced while the chat goes on.

    Loading ── loaded ──▶ Ready;  refused ──▶ the chat ends (the first), the model before is loaded again, or Absent
    Ready, Absent ── load ──▶ Loading (a model here), Connecting (a server: the model before stays till it is proved)
    Connecting ── proved ──▶ Loading;  refused, given up ──▶ Ready with the model before, or Absent
    Ready ── reload_tools ──▶ Loading ── collected, refused ──▶ Ready
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

from ossia.agent.control import Control
from ossia.agent.errors import ContextFull
from ossia.agent.events import ToolFinished
from ossia.agent.kv_cache import save_prompt_cache, set_private
from ossia.agent.request import ContextUse
from ossia.cli.chat.owner import Loaded, Owner
from ossia.cli.runtime.assembly import begin_model, collect, end_tools, finish, fixes_for, tools_spec
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.engines import is_server
from ossia.tools.build import Toolset
from ossia.tools.folder import Folder

_SAVE_S = 10.0
_R = TypeVar("_R")


class GivenUp(Exception):
    """The user stopped waiting for a model."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model or tools are loading. `before`: still usable."""

    before: Loaded | None = None


@dataclass(frozen=True, slots=True)
class Connecting:
    """A server is asked; `control` gives up on it, then `before` answers again."""

    control: Control
    before: Loaded | None


@dataclass(frozen=True, slots=True)
class Ready:
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class Absent:
    """No model answers, and none is loaded."""


class ChatModel:
    """The model that answers, as one of four `state`s. `use`: its context's use, None if unknown.

    `fault`: the error of the first model, which ended the chat.
    """

    def __init__(self, chat: Owner) -> None:
        self._chat = chat
        self.state: Loading | Connecting | Ready | Absent = Loading()
        self.lookup: Callable[[Exception], object] | None = None
        """While a model's name is looked up, and lines wait: gets the error for a name of none."""
        self._requested: Callable[[], object] | None = None  # loads the model that the user asked for
        self.use: ContextUse | None = None
        self._no_room = False  # noted that no question fits
        self.fault: Exception | None = None

    @property
    def loaded(self) -> Loaded | None:
        """The model and its tools, if they can answer."""
        return self.state.loaded if isinstance(self.state, Ready) else None

    @property
    def absent(self) -> bool:
        return isinstance(self.state, Absent)

    def fix(self, done: ToolFinished) -> str:
        """The user's next step after a failed call."""
        if self.loaded is None:
            return ""
        turned_off = self._chat.conversation.tools_off.__contains__
        return fixes_for(self.loaded.tools, self._chat.settings, chat=True, turned_off=turned_off).of(done)

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(self, *, tools: Toolset | None = None, failed: Callable[[Exception], None] | None = None) -> None:
        """Load the model of the settings on its own thread; lines wait for it.

        `tools`: they stay; None: they are collected. `failed`: restores the settings before, with a note, if it can't
        be loaded; then the model before answers again. None: leave the chat. A server needs no memory: the model before
        is closed only once the server has proved usable.
        """
        chat, before, worker = self._chat, self.loaded, self._chat.conversation.worker
        control = Control() if is_server(chat.settings.engine) else None
        self.state = Connecting(control, before) if control else Loading()
        chat.conversation.model = None
        chat.conversation.ahead.end()
        chat.set_activity("loading the model")

        def work() -> Loaded:
            if before and control is None:
                before.model.close().result()
            spec = tools_spec(chat.resolved, chat.folder)
            begun = begin_model(chat.resolved, chat.notices, worker, stays=True, stop=control)
            self.state = Loading(before if control else None)  # from now on Ctrl-C is for the tools
            begun.note = ""  # the greeting says it
            if tools is not None:
                return Loaded(begun.finish(), tools)
            return Loaded(*finish(begun, spec, chat.resolved, chat.notices))

        def done(loaded: Loaded) -> None:
            if control and before:
                before.model.close()
            self._ready(loaded, fresh=True, anew=tools is None)
            chat.background.run(_import_ahead, lambda _: None)

        def not_done(error: Exception) -> None:
            stopped = control is not None and control.stopped
            if not failed and not stopped:
                self.fault = error  # leave, with the line of `ossia run`
                return chat.leave()
            chat.set_activity("")
            if self._requested is None:
                chat.outbox.take_back()
            if failed:
                failed(GivenUp() if stopped else error)
            else:
                gave_up = f"gave up on {chat.settings.engine}: /model NAME uses another model, or tries again"
                chat.face.note(gave_up, "yellow")
            return self._go_back(before, stayed=control is not None)

        chat.background.run(work, done, not_done)

    def look_for(
        self, find: Callable[[], _R], then: Callable[[_R], object], missing: Callable[[Exception], object]
    ) -> None:
        """Look a model's name up beside the screen; lines wait.

        `then` gets the result of `find`; `missing` its error, or `GivenUp`. If the user has asked for another model
        meanwhile, neither is called.
        """
        self.lookup = missing

        def over(act: Callable[[], object]) -> None:
            if self.lookup is missing:
                self.lookup = None
                act()

        def not_found(error: Exception) -> None:
            self._chat.outbox.take_back()
            missing(error)

        self._chat.background.run(find, lambda found: over(lambda: then(found)), lambda e: over(lambda: not_found(e)))

    def request(self, load: Callable[[], object]) -> bool:
        """Have `take` load a model between turns with `load`; the last request counts.

        True: it doesn't wait for a turn: there is no model, or only a server that is connecting, which is given up.
        """
        self.lookup, self._requested = None, load
        if self.absent:
            self.take()
            return True
        if isinstance(state := self.state, Connecting):  # looked at once: another thread changes it
            state.control.stop()
            return True
        return False

    def take(self) -> None:
        """Load the requested model, if there is one."""
        load, self._requested = self._requested, None
        if load:
            load()

    def give_up(self) -> bool:
        """Stop a lookup, and connecting to a server. False: neither goes on."""
        lookup, state = self.lookup, self.state  # looked at once: another thread changes it
        server = state.control if isinstance(state, Connecting) else None
        going = lookup is not None or (server is not None and (self._requested is not None or not server.stopped))
        self.lookup = None
        if lookup:
            self._chat.outbox.take_back()
            lookup(GivenUp())
        if server:
            self._requested = None
            server.stop()
        return going

    def _go_back(self, before: Loaded | None, *, stayed: bool) -> None:
        """The model before answers again, if there was one, until `take`."""
        if before and stayed:
            self._ready(before)
        elif before:
            self.load(tools=before.tools)
        else:
            self.state = Absent()
            self.take()

    def reload_tools(self, resolved: Resolved, folder: Folder | None, then: Callable[[Toolset], object]) -> None:
        """Collect the tools of these settings, which hold from then on. Between turns, with a model loaded.

        `then` is called with them. If they can't be collected, everything stays as it was, and the user gets a line.
        """
        chat = self._chat
        before, settings = self.loaded, chat.settings
        assert before is not None and chat.control is None
        self.state = Loading(before)
        chat.conversation.ahead.end()
        chat.set_activity("collecting the tools")

        def done(tools: Toolset) -> None:
            chat.use_settings(resolved, folder, before=settings)
            then(tools)
            chat.background.run(before.tools.close, lambda _: None)
            self._ready(Loaded(before.model, tools), anew=True)

        def failed(error: Exception) -> None:
            self._ready(before)
            chat.report(error)

        def work() -> Toolset:
            return collect(tools_spec(resolved, folder), resolved, chat.notices, before.model.tokenizer)

        chat.background.run(work, done, failed)

    def _ready(self, loaded: Loaded, *, fresh: bool = False, anew: bool = False) -> None:
        """`fresh`: the model is new; `anew`: the tools are."""
        self.state = Ready(loaded)
        self._chat.set_activity("")
        self._chat.conversation.use(*loaded)
        if fresh:
            self._chat.conversation.load_cache()
        if anew:
            self._chat.conversation.forget_variables()
        self._chat.measure()
        self._chat.go_on()

    def close(self) -> None:
        """Close everything, and store the caches. Called once the screen is gone."""
        chat, state = self._chat, self.state
        conversation = chat.conversation
        conversation.ahead.end()
        if isinstance(state, Connecting):
            state.control.stop()
        loaded = self.loaded or (state.before if isinstance(state, Loading | Connecting) else None)
        self.state = Absent()  # a turn or a job that ends now measures nothing
        if loaded is None:
            return
        conversation.model, conversation.tools = loaded
        end_tools(conversation, chat.notices)
        set_private(loaded.model.engine, chat.settings.private)  # it may have become so while a server was asked
        with suppress(TimeoutError, KeyboardInterrupt):  # it only saves time
            conversation.save_cache().result(_SAVE_S)
            conversation.worker.submit(lambda: save_prompt_cache(loaded.model.engine)).result(_SAVE_S)
        loaded.model.close()

    # -- with the session ----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Continue the conversation with the model and tools. Between turns."""
        if self.loaded:
            self._chat.conversation.use(*self.loaded)
            self._chat.measure()

    def measure(self) -> None:
        """Measure the context, on the worker."""
        chat = self._chat
        if self.loaded is None:
            self.use = None
            return

        def done(future: Future[ContextUse]) -> None:
            chat.background.on_loop(lambda: self._measured(future.result()))

        chat.conversation.measure().add_done_callback(done)

    def _measured(self, use: ContextUse) -> None:
        """Note once if no question fits."""
        self.use, alone = use, use.used_tokens - sum(use.messages)
        if alone >= use.total_tokens and not self._no_room:
            self._chat.face.note(f"there is no room for a question: {ContextFull(alone, use.total_tokens)}", "yellow")
        self._no_room = alone >= use.total_tokens


def _import_ahead() -> None:
    """Import what a turn begins with: a sent message waited 50 ms for it."""
    for name in ("filelock", "markdown_it.tree", "numpy.ctypeslib", "numpy.random"):
        import_module(name)
