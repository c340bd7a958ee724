"""The model of a chat and its tools: loaded beside the screen, and exchanged while the chat goes on.

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
from typing import TYPE_CHECKING, TypeVar

from ossia.agent.control import Control
from ossia.agent.errors import ContextFull
from ossia.agent.kv_cache import save_prompt_cache, set_private
from ossia.cli.chat.owner import Loaded
from ossia.cli.runtime.assembly import begin_model, collect, end_tools, finish, fixes_for
from ossia.cli.settings.engines import is_server

if TYPE_CHECKING:
    from ossia.agent.events import ToolFinished
    from ossia.agent.request import ContextUse
    from ossia.cli.chat.owner import Owner
    from ossia.cli.settings.config import Resolved
    from ossia.tools.build import Toolset
    from ossia.tools.folder import Folder

_SAVE_S = 10.0
_R = TypeVar("_R")


class GivenUp(Exception):
    """The user didn't want to wait for a model any longer."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model or tools are loaded. `before`: the model of a server's place, which still could answer."""

    before: Loaded | None = None


@dataclass(frozen=True, slots=True)
class Connecting:
    """A server is asked; `control` gives up on it. `before`: what answers again then."""

    control: Control
    before: Loaded | None


@dataclass(frozen=True, slots=True)
class Ready:
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class Absent:
    """No model answers: the first one is still to be found."""


class ChatModel:
    """The model that answers, as one of four `state`s. `use` is how full its context is, None while nobody knows.

    `fault`: why the first model couldn't be loaded, which ended the chat.
    """

    def __init__(self, chat: Owner) -> None:
        self._chat = chat
        self.state: Loading | Connecting | Ready | Absent = Loading()
        self.looking: Callable[[Exception], object] | None = None
        """Gets the error if the name that is looked up means no model; lines wait for it. None: none is looked up."""
        self._wanted: Callable[[], object] | None = None  # loads the model that the user wants, once that can be done
        self.use: ContextUse | None = None
        self._no_room = False  # was it said that no question fits?
        self.fault: Exception | None = None

    @property
    def loaded(self) -> Loaded | None:
        """The model that answers, with its tools."""
        return self.state.loaded if isinstance(self.state, Ready) else None

    @property
    def absent(self) -> bool:
        return isinstance(self.state, Absent)

    def fix(self, done: ToolFinished) -> str:
        """What the user can do about a call that failed."""
        if self.loaded is None:
            return ""
        turned_off = self._chat.conversation.tools_off.__contains__
        return fixes_for(self.loaded.tools, self._chat.settings, chat=True, turned_off=turned_off).of(done)

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(self, *, tools: Toolset | None = None, failed: Callable[[Exception], None] | None = None) -> None:
        """Load the model of the settings on a thread of its own; what was submitted waits for it.

        `tools`: they stay as they are, None: they are collected. `failed`: goes back to the settings before when it
        can't be loaded, and says so; then the model before answers again. None: leave the chat. A server needs no
        memory: the model before is given up only once that has proved usable.
        """
        chat, before = self._chat, self.loaded
        control = Control() if is_server(chat.settings.engine) else None
        self.state = Connecting(control, before) if control else Loading()
        chat.conversation.model = None
        chat.conversation.ahead.end()
        chat.doing("loading the model")

        def work() -> Loaded:
            if before and control is None:
                before.model.close().result()
            begun = begin_model(chat.resolved, chat.folder, chat.notices, chat.worker, stays=True, stop=control)
            self.state = Loading(before if control else None)  # from now on Ctrl-C is for what the tools wait for
            begun.note = ""  # the greeting says it
            if tools is not None:
                return Loaded(begun.finish(), tools)
            return Loaded(*finish(begun, chat.resolved, chat.folder, chat.notices))

        def done(loaded: Loaded) -> None:
            if control and before:
                before.model.close()
            self._ready(loaded, fresh=True, anew=tools is None)

        def not_done(error: Exception) -> None:
            stopped = control is not None and control.stopped
            if not failed and not stopped:
                self.fault = error  # nothing to talk to: leave, with the line that `ossia run` would print
                return chat.leave()
            chat.doing("")
            if self._wanted is None:
                chat.take_back()
            if failed:
                failed(GivenUp() if stopped else error)
            else:
                said = f"gave up on {chat.settings.engine}: /model takes another model, or tries again"
                chat.face.note(said, "yellow")
            return self._go_back(before, stayed=control is not None)

        chat.background.run(work, done, not_done)

    def look_for(
        self, find: Callable[[], _R], then: Callable[[_R], object], missing: Callable[[Exception], object]
    ) -> None:
        """Find out beside the screen which model a name means; what is sent meanwhile waits.

        `then` gets what was found; `missing` what `find` raised, or `GivenUp`. If the user has asked for another model
        meanwhile, neither is called.
        """
        self.looking = missing

        def over(act: Callable[[], object]) -> None:
            if self.looking is missing:
                self.looking = None
                act()

        def not_found(error: Exception) -> None:
            self._chat.take_back()
            missing(error)

        self._chat.background.run(find, lambda found: over(lambda: then(found)), lambda e: over(lambda: not_found(e)))

    def want(self, load: Callable[[], object]) -> bool:
        """Remember how to load the model that the user wants; the last one counts. Between turns `take` loads it.

        True: it won't wait for a turn: there is no model, or a server is being connected to, which is given up.
        """
        self.looking, self._wanted = None, load
        if self.absent:
            self.take()
            return True
        if isinstance(state := self.state, Connecting):  # looked at once: another thread changes it
            state.control.stop()
            return True
        return False

    def take(self) -> None:
        """Load the model that the user wants, if it isn't taken yet."""
        load, self._wanted = self._wanted, None
        if load:
            load()

    def give_up(self) -> bool:
        """Stop looking for a model, and connecting to a server. False: neither is done, or it is stopped already."""
        looking, state = self.looking, self.state  # looked at once: another thread changes it
        server = state.control if isinstance(state, Connecting) else None
        going = looking is not None or (server is not None and (self._wanted is not None or not server.stopped))
        self.looking = None
        if looking:
            self._chat.take_back()
            looking(GivenUp())
        if server:
            self._wanted = None
            server.stop()
        return going

    def _go_back(self, before: Loaded | None, *, stayed: bool) -> None:
        """The model before answers again, if there was one, until what the user wants instead is taken."""
        if before and stayed:
            self._ready(before)
        elif before:
            self.load(tools=before.tools)
        else:
            self.state = Absent()
            self.take()

    def reload_tools(self, resolved: Resolved, folder: Folder | None, then: Callable[[Toolset], object]) -> None:
        """Collect the tools of these settings, which hold from then on; the model stays. Between turns, model loaded.

        `then` is called with them. When they can't be collected, everything stays as it was, and the user gets a line.
        """
        chat = self._chat
        before, settings = self.loaded, chat.settings
        assert before is not None and chat.control is None
        self.state = Loading(before)
        chat.conversation.ahead.end()
        chat.doing("collecting the tools")

        def done(tools: Toolset) -> None:
            chat.use_settings(resolved, folder, before=settings)
            then(tools)
            chat.background.run(before.tools.close, lambda _: None)
            self._ready(Loaded(before.model, tools), anew=True)

        def failed(error: Exception) -> None:
            self._ready(before)
            chat.tell(error)

        chat.background.run(lambda: collect(resolved, folder, chat.notices, before.model.tokenizer), done, failed)

    def _ready(self, loaded: Loaded, *, fresh: bool = False, anew: bool = False) -> None:
        """`fresh`: the model has read nothing yet; `anew`: the tools are new."""
        self.state = Ready(loaded)
        self._chat.doing("")
        self._chat.conversation.use(*loaded)
        if fresh:
            self._chat.conversation.load_cache()
        if anew:
            self._chat.conversation.forget_variables()
        self.measure()
        self._chat.go_on()

    def close(self) -> None:
        """Give all of it back, but store what saves time at the next start. Called once the screen is gone."""
        chat, state = self._chat, self.state
        conversation = chat.conversation
        conversation.ahead.end()
        if isinstance(state, Connecting):
            state.control.stop()
        loaded = self.loaded or (state.before if isinstance(state, Loading | Connecting) else None)
        if loaded is None:
            return
        conversation.model, conversation.tools = loaded
        end_tools(conversation, chat.notices)
        set_private(loaded.model.engine, chat.settings.private)  # it may have become so while a server was asked
        with suppress(TimeoutError, KeyboardInterrupt):  # it only saves time
            conversation.save_cache().result(_SAVE_S)
            chat.worker.submit(lambda: save_prompt_cache(loaded.model.engine)).result(_SAVE_S)
        loaded.model.close()

    # -- with the session ----------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The conversation goes on with what is loaded. Between turns."""
        if self.loaded:
            self._chat.conversation.use(*self.loaded)
            self.measure()

    def measure(self) -> None:
        """Find out how full the context is, on the worker: it owns the engine. Then the next prompt is read ahead."""
        chat = self._chat
        if self.loaded is None:
            self.use = None
            return

        def done(future: Future[ContextUse]) -> None:
            chat.background.on_loop(lambda: self._measured(future.result()))

        chat.conversation.measure().add_done_callback(done)
        chat.read_ahead()

    def _measured(self, use: ContextUse) -> None:
        """Say once, before the first question, if none can be asked."""
        self.use, alone = use, use.used_tokens - sum(use.messages)
        if alone >= use.total_tokens and not self._no_room:
            self._chat.face.note(f"no question fits: {ContextFull(alone, use.total_tokens)}", "yellow")
        self._no_room = alone >= use.total_tokens
