"""The model of a chat and its tools: loaded beside the screen, brought together with whatever session goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ossia.agent.control import Control
from ossia.agent.errors import ContextFull
from ossia.agent.kv_cache import load_session_cache, save_prompt_cache, save_session_cache, set_private
from ossia.cli import paths
from ossia.cli.runtime.assemble import Assembly, assemble, begin_model, offer_browser
from ossia.cli.runtime.toolset import collect, fixes_for
from ossia.cli.settings.engines import is_server

if TYPE_CHECKING:
    from ossia.agent.events import ToolFinished
    from ossia.agent.request import ContextUse
    from ossia.cli.chat.ahead import ReadingAhead
    from ossia.cli.chat.state import State
    from ossia.cli.settings.config import Resolved
    from ossia.tools.build import Toolset
    from ossia.tools.workspace import Folder

_KEEP_S = 10.0
_R = TypeVar("_R")


class GivenUp(Exception):
    """The user didn't want to wait for a model any longer."""


class ChatModel:
    """The model that answers. `assembly` is None while it loads; `use` is how full its context is, once that is known.

    `tools_off`: names that the user turned off. `loaded` is called whenever the model and its tools are ready;
    `unusable` when the model can't be loaded: `fault` then says why. `not_taken` when the one that the user wanted
    doesn't answer after all: what was sent meanwhile was meant for that one. `absent`: there was none before.
    """

    def __init__(
        self,
        chat: State,
        ahead: ReadingAhead,
        *,
        loaded: Callable[[], object],
        unusable: Callable[[], object],
        not_taken: Callable[[], object],
    ) -> None:
        self._chat, self._ahead = chat, ahead
        self._on_loaded, self._on_unusable, self._on_not_taken = loaded, unusable, not_taken
        self.assembly: Assembly | None = None
        self.absent = False
        self._kept: Assembly | None = None  # what answered before, while a server is connected to
        self._connecting: Control | None = None
        self.looking: Callable[[Exception], object] | None = None
        """What is told if the name that is looked up means no model. None: none is looked up. Until then lines wait."""
        self._wanted: Callable[[], object] | None = None  # loads the model that the user wants, once that can be done
        self.use: ContextUse | None = None
        self._no_room = False  # was it said that no question fits?
        self.tools_off: frozenset[str] = frozenset()
        self.fault: Exception | None = None
        self._read: str | None = None  # the stored session that the engine has read last, None: none, or a private one

    def fix(self, done: ToolFinished) -> str:
        """What the user can do about a call that failed."""
        if self.assembly is None:
            return ""
        turned_off = self.tools_off.__contains__
        return fixes_for(self.assembly.tools, self._chat.settings, chat=True, turned_off=turned_off).of(done)

    # -- loading -------------------------------------------------------------------------------------------------------

    def load(self, *, tools: Toolset | None = None, failed: Callable[[Exception], None] | None = None) -> None:
        """Load the model of the settings on a thread of its own; what was submitted waits for it.

        `tools`: they stay as they are, None: they are collected. `failed`: goes back to the settings before when it
        can't be loaded, and says so; then the model before answers again. None: leave the chat. A server needs no
        memory: the model before is given up only once that has proved usable.
        """
        chat = self._chat
        before, self.assembly, self.absent = self.assembly, None, False
        self._connecting = control = Control() if is_server(chat.settings.engine) else None
        self._kept, self._read = (before, self._read) if control else (None, None)
        self._ahead.end()
        chat.doing("loading the model")

        def work() -> Assembly:
            if before and control is None:
                before.model.close().result()
            begun = begin_model(chat.resolved, chat.folder, chat.notices, chat.worker, stays=True, stop=control)
            self._connecting = None  # from now on Ctrl-C is for what the tools wait for
            begun.note = ""  # the greeting says it
            return assemble(begun, chat.resolved, chat.folder, chat.notices, tools=tools)

        def done(assembly: Assembly) -> None:
            if self._kept:
                self._kept.model.close()
            self._kept = None
            self.load_session_cache(assembly)
            self._loaded(assembly, anew=tools is None)

        def not_done(error: Exception) -> None:
            self._connecting = None
            stopped = control is not None and control.stopped
            if not failed and not stopped:
                return self._not_loaded(error)
            chat.doing("")
            if self._wanted is None:
                self._on_not_taken()
            if failed:
                failed(GivenUp() if stopped else error)
            else:
                said = f"gave up on {chat.settings.engine}: /model takes another model, or tries again"
                chat.face.note(said, "yellow")
            return self._go_back(before)

        chat.background.run(work, done, not_done)

    def look_for(
        self, find: Callable[[], _R], then: Callable[[_R], object], missing: Callable[[Exception], object]
    ) -> None:
        """Find out beside the screen which model a name means; what is sent meanwhile waits.

        `then` gets what was found; `missing` what `find` raised, or `GivenUp`. If the user has wished for another model
        meanwhile, neither is called.
        """
        self.looking = missing

        def over(act: Callable[[], object]) -> None:
            if self.looking is missing:
                self.looking = None
                act()

        def not_found(error: Exception) -> None:
            self._on_not_taken()
            missing(error)

        self._chat.background.run(find, lambda found: over(lambda: then(found)), lambda e: over(lambda: not_found(e)))

    def want(self, load: Callable[[], object]) -> bool:
        """Remember how to load the model that the user wants; the last wish counts. Between turns `take` loads it.

        True: it won't wait for a turn: there is no model, or a server is being connected to, which is given up.
        """
        self.looking, self._wanted = None, load
        if self.absent:
            self.take()
            return True
        if self._connecting:
            self._connecting.stop()
        return self._connecting is not None

    def take(self) -> None:
        """Load the model that the user wants, if there is one that isn't taken yet."""
        load, self._wanted = self._wanted, None
        if load:
            load()

    def give_up(self) -> bool:
        """Stop looking for a model, and connecting to a server. False: neither is done, or it is stopped already."""
        looking, server = self.looking, self._connecting
        going = looking is not None or (server is not None and (self._wanted is not None or not server.stopped))
        self.looking = None
        if looking:
            self._on_not_taken()
            looking(GivenUp())
        if server:
            self._wanted = None
            server.stop()
        return going

    def _go_back(self, before: Assembly | None) -> None:
        """The model before answers again, if there is one, until what the user wants instead is taken."""
        kept, self._kept = self._kept, None
        if kept:
            self._loaded(kept, anew=False)
        elif before:
            self.load(tools=before.tools)
        else:
            self.absent = True
            self.take()

    def reload_tools(self, resolved: Resolved, folder: Folder | None, then: Callable[[Toolset], object]) -> None:
        """Collect the tools of these settings, which hold from then on; the model stays. Between turns, model loaded.

        `then` is called with them. When they can't be collected, everything stays as it was, and the user is told why.
        """
        chat = self._chat
        before, settings, self.assembly = self.assembly, chat.settings, None
        self._ahead.end()
        assert before is not None and chat.control is None
        chat.doing("collecting the tools")

        def done(tools: Toolset) -> None:
            chat.use_settings(resolved, folder, before=settings)
            then(tools)
            chat.background.run(before.close_tools, lambda _: None)
            self._loaded(replace(before, tools=tools), anew=True)

        def failed(error: Exception) -> None:
            self._loaded(before, anew=False)
            chat.tell(error)

        chat.background.run(lambda: collect(resolved, folder, chat.notices, before.model.tokenizer), done, failed)

    def _loaded(self, assembly: Assembly, *, anew: bool) -> None:
        """`anew`: the tools are new, too."""
        self.assembly = assembly
        self._chat.doing("")
        self.enter(assembly)
        if anew:
            self.forget_variables()
        self._on_loaded()

    def _not_loaded(self, error: Exception) -> None:
        """Without a model there is nothing to talk to: leave, with the line that `ossia run` would print."""
        self.fault = error
        self._on_unusable()

    def close(self) -> None:
        """Give all of it back, but keep what saves time at the next start. Called once the screen is gone."""
        self._ahead.end()
        if self._connecting:
            self._connecting.stop()
        self.assembly = self.assembly or self._kept
        if self.assembly is None:
            return
        self.assembly.close_tools()
        engine = self.assembly.model.engine
        set_private(engine, self._chat.settings.private)  # it may have become so while a server was connected to
        with suppress(TimeoutError, KeyboardInterrupt):  # it only saves time
            self.keep_cache().result(_KEEP_S)
            self._chat.worker.submit(lambda: save_prompt_cache(engine)).result(_KEEP_S)
        self.assembly.model.close()

    # -- the model and the session -------------------------------------------------------------------------------------

    def enter(self, assembly: Assembly) -> None:
        """The session and the model meet. Between turns."""
        session, store = self._chat.session, self._chat.store
        if store:
            store.count_tokens = assembly.tools.counter
        assembly.tools.offer(but=self.tools_off)
        offer_browser(assembly.tools, session)
        assembly.tools.policy.read_only = self._chat.settings.plan
        if assembly.tools.pages:
            assembly.tools.pages.private = self._chat.settings.private
        session.vocabulary = assembly.model.engine.vocabulary.digest
        session.model = assembly.model.name
        set_private(assembly.model.engine, self._chat.settings.private)
        if self._chat.settings.private:
            self._read = None  # from now on the cache holds private text, even once the chat is stored again
        self.restore_pages()
        self.measure()

    def plan(self, on: bool) -> None:
        """From now on only look; False: change things again. The session remembers it. Between turns."""
        chat = self._chat
        if chat.settings.plan != on:
            chat.change_settings(plan=on)
        if self.assembly:
            self.assembly.tools.policy.read_only = on
        if chat.session.options.planning != on:
            chat.session.options = replace(chat.session.options, planning=on)

    def restore_pages(self) -> None:
        """Bring the browser's pages to where the session stands."""
        if self.assembly and self.assembly.tools.browser:
            self.assembly.tools.browser.restore(self._chat.session.states)

    def forget_variables(self) -> None:
        """Python begins anew; its next result says so where the conversation has used it before."""
        chat, python = self._chat, self.assembly.tools.python if self.assembly else None
        if python:
            used = any(entry.message.name == "python" for entry in chat.session.entries)
            chat.worker.submit(lambda: python.begin_anew(announced=used))

    def measure(self) -> None:
        """Find out how full the context is, on the worker: it owns the engine. Then the next prompt is read ahead."""
        chat, assembly = self._chat, self.assembly
        if assembly is None:
            return
        request = chat.session.request(assembly.tools.toolbox.specs)

        def done(future: Future[ContextUse]) -> None:
            chat.background.on_loop(lambda: self._measured(future.result()))

        chat.worker.submit(lambda: assembly.model.responder.measure(request)).add_done_callback(done)
        self._ahead.begin(assembly)

    def _measured(self, use: ContextUse) -> None:
        """Say once, before the first question, if none can be asked."""
        self.use, alone = use, use.used_tokens - sum(use.messages)
        if alone >= use.total_tokens and not self._no_room:
            self._chat.face.note(f"no question fits: {ContextFull(alone, use.total_tokens)}", "yellow")
        self._no_room = alone >= use.total_tokens

    # -- its cache -----------------------------------------------------------------------------------------------------

    def reads(self) -> None:
        """A turn begins: from now on the cache holds this session, whatever it held before."""
        self._read = self._chat.opened.session_id if self._chat.store else None

    def keep_cache(self) -> Future[int]:
        """Keep the engine's cache for the session, if that is stored: going on with it then needs no prefill.

        Not if nothing was said since the session was resumed: the cache may then hold another session, or a private
        one.
        """
        chat, assembly, session_id = self._chat, self.assembly, self._chat.opened.session_id
        if assembly is None or session_id is None or chat.store is None or session_id != self._read:
            return chat.worker.submit(lambda: 0)
        return chat.worker.submit(lambda: save_session_cache(assembly.model.engine, paths.host().kv, session_id))

    def meet(self) -> None:
        """Bring the model and another session together; a model that still loads meets it once it is there."""
        self.plan(self._chat.settings.plan or self._chat.session.options.planning)
        self.use = None
        if self.assembly:
            self.load_session_cache(self.assembly)
            self.enter(self.assembly)

    def load_session_cache(self, assembly: Assembly) -> None:
        """Bring back what was kept of a session that goes on."""
        opened, self._read = self._chat.opened, None
        session_id = opened.session_id
        if session_id is not None and opened.resumed:
            self._chat.worker.submit(lambda: load_session_cache(assembly.model.engine, paths.host().kv, session_id))
