"""A conversation without a face: a session, a model on its worker, and tools.

    conversation = Conversation(OpenSession(Session()), worker, host)
    conversation.use(model, tools)
    for event in (turn := conversation.say("What is 48*17?")):
        if isinstance(event, ApprovalAsked):
            turn.answer(None)                       # refused
    turn.result()                                   # TurnEnded("answered")
    conversation.session.messages[-1].text          # "The result is 816."
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ossia.agent.ahead import ReadAhead
from ossia.agent.control import Control
from ossia.agent.events import Decision, Event
from ossia.agent.kv_cache import load_session_cache, save_session_cache, set_private
from ossia.agent.limits import Limits
from ossia.agent.loop import run_turn
from ossia.agent.prompt import with_plan
from ossia.agent.sessions.session import Entry, Options, Session, UserText
from ossia.agent.turn import Turn
from ossia.agent.worker import Worker
from ossia.harmony.messages import is_call
from ossia.tools.host import Host

if TYPE_CHECKING:
    from ossia.agent.build import Model
    from ossia.agent.request import ContextUse
    from ossia.agent.sessions.store import SessionStore
    from ossia.tools.build import Toolset

_PRIVATE_TURN = "(a private turn)"


@dataclass(slots=True)
class OpenSession:
    """A session, and the store that records it. `store` None: it isn't stored; `problem` says why, if not on purpose.

    `before`: the id it was stored under until it became private, and what it held then. `worked_in` is the
    workspace that it was begun in. `title`: of a resumed one; `elsewhere`: it is the last of all, the
    current folder has none.
    """

    session: Session
    store: SessionStore | None = None
    session_id: str | None = None
    resumed: bool = False
    problem: str | None = None
    before: tuple[str, tuple[Entry, ...]] | None = None
    worked_in: str | None = None
    title: str = ""
    elsewhere: bool = False

    @property
    def stored_id(self) -> str | None:
        """Its id, None if nothing of it could be stored."""
        return None if self.store and self.store.lost else self.session_id


class Conversation:
    """Answers what is said, turn by turn, with the `model` and the `tools` in use; both may change between turns.

    Threads: one thread, the owner's, calls the methods and reads each turn's events. The worker's thread alone touches
    the engine, and runs the turns; what a method says of it is a future. `Turn.answer`, `steer`, `answer_now` and
    `stop` may be called from any thread. Several conversations may share a model and its worker: their turns run one
    after another, and each finds the engine's cache as the one before left it. With the model of another lane
    (`agent.lanes`) its worker is used from then on.

    `private`: nothing of it is stored. `tools_off`: names of tools that aren't offered.
    """

    def __init__(self, opened: OpenSession, worker: Worker, host: Host, *, private: bool = False) -> None:
        self.opened, self.worker, self.host, self.private = opened, worker, host, private
        self.model: Model | None = None
        self.tools: Toolset | None = None
        self.tools_off: frozenset[str] = frozenset()
        self.turn: Turn | None = None
        self.ahead = ReadAhead(worker, before=lambda: self._read_next(self.model))

    @property
    def session(self) -> Session:
        return self.opened.session

    @property
    def store(self) -> SessionStore | None:
        """The store that records the session; None: nothing does."""
        return self.opened.store

    @property
    def options(self) -> Options:
        """The options of the next turns."""
        return self.session.options

    @options.setter
    def options(self, options: Options) -> None:
        self.session.options = options

    # -- turns ---------------------------------------------------------------------------------------------------------

    def say(
        self, said: str | UserText | None, *, limits: Limits | None = None, on_event: Callable[[], None] = lambda: None
    ) -> Turn:
        """Begin a turn; the one before is over. `on_event`: see `Turn`. Needs a model and tools in use.

        None: go on with the one before, whose returned call has its result now.
        """
        assert self.model is not None and self.tools is not None
        assert self.turn is None or self.turn.done.done()
        text = UserText(said, said) if isinstance(said, str) else said
        self.offer_browser((text.typed or text.text) if text else "")
        self.ahead.end()
        self.take_date()
        text = with_plan(text, self.session) if text and self.options.planning else text
        if text:
            text = replace(text, mark=secrets.token_hex(8), said_at=self.host.now().timestamp())
        control = Control()
        events = self._events(self.model, self.tools, text, limits or Limits(), control)
        self.turn = Turn(self.worker, events, control, on_event=on_event)
        return self.turn

    def _events(
        self, model: Model, tools: Toolset, said: UserText | None, limits: Limits, control: Control
    ) -> Generator[Event, Decision | None, None]:
        self._read_next(model)
        model.last_read = self._stored_as
        if said:
            tools.begin_turn(_PRIVATE_TURN if self.private else said.typed or said.text, said.mark)  # undo stores this
        if self.session.skills:  # the user's texts, as an AGENTS.md is
            self.session.read(frozenset({"private"}))
        try:
            responder, toolbox = model.responder, tools.toolbox
            yield from run_turn(
                self.session, said, responder=responder, tools=toolbox, limits=limits, control=control
            )
        finally:
            tools.end_turn()

    def offer_browser(self, typed: str = "") -> bool:
        """Offer the browser if the conversation needs it, with `typed` or without. True: it joins only now."""
        assert self.tools is not None
        called = (message.recipient or "" for message in self.session.messages if is_call(message))
        return self.tools.browse_for(f"{self.session.said} {typed}", called)

    def cut_back(self, turn: int) -> tuple[Entry, ...]:
        """Take this turn and those after it out of the conversation; returns the entries. Between turns."""
        taken = self.session.cut_back(turn)
        self._restore_pages()
        return taken

    def plan(self, on: bool) -> None:
        """From now on only look; False: change things again. The session remembers it. Between turns."""
        if self.tools:
            self.tools.policy.read_only = on
        if self.options.planning != on:
            self.options = replace(self.options, planning=on)

    def take_date(self) -> bool:
        """Give today's date to an empty conversation. True: it had another date."""
        today = self.host.now().date().isoformat()
        if self.session.entries or self.options.date in (None, today):
            return False
        self.options = replace(self.options, date=today)
        return True

    # -- the model, the tools and the session --------------------------------------------------------------------------

    def use(self, model: Model, tools: Toolset) -> None:
        """Go on with this model and these tools. Between turns."""
        self.model, self.tools = model, tools
        if self.worker is not model.worker:  # that of another lane
            self.ahead.end()
            self.worker, self.ahead.worker = model.worker, model.worker
        tools.counter.tokenizer = model.tokenizer
        tools.offer(but=self.tools_off)
        tools.policy.read_only = self.options.planning
        if tools.pages:
            tools.pages.private = self.private
        if self.store:
            self.store.count_tokens = tools.counter
        self.session.vocabulary, self.session.model = model.engine.vocabulary.digest, model.name
        self.session.skills = tools.skills.in_prompt(tools.counter, model.engine.context_tokens)
        self.worker.submit(lambda: set_private(model.engine, self.private))  # not in the middle of another's turn
        self.offer_browser()
        self._restore_pages()

    def switch(self, opened: OpenSession) -> None:
        """Go on with another session. Between turns."""
        self.save_cache()
        if self.store and self.store is not opened.store:
            self.store.close()
        elif self.store:
            self.store.release(self.session)
        self.opened = opened
        if self.model and self.tools:
            self.load_cache()
            self.use(self.model, self.tools)

    def forget_variables(self) -> None:
        """Python begins anew; if the conversation has used it, its next result says so."""
        if self.tools and (python := self.tools.python):
            used = any(entry.message.name == python.spec.name for entry in self.session.entries)
            self.worker.submit(lambda: python.begin_anew(announced=used))

    def _restore_pages(self) -> None:
        """Restore the browser's pages to the state of the session."""
        if self.tools and self.tools.browser:
            self.tools.browser.restore(self.session.states)

    # -- on the engine -------------------------------------------------------------------------------------------------

    @property
    def _stored_as(self) -> str | None:
        """The id of the stored session; None: it isn't stored."""
        return None if self.private or self.store is None else self.opened.session_id

    def _read_next(self, model: Model | None) -> None:
        """From now on the engine reads this conversation, which may be private. On the worker's thread."""
        if model is not None:
            set_private(model.engine, self.private)
            model.last_read = model.last_read if model.last_read == self._stored_as else None

    def measure(self) -> Future[ContextUse]:
        """The use of the context. With a model and tools in use."""
        assert self.model is not None and self.tools is not None
        responder, request = self.model.responder, self.session.request(self.tools.toolbox.specs)
        return self.worker.submit(lambda: responder.measure(request))

    def save_cache(self) -> Future[int]:
        """Store the engine's cache for the session, if that is stored: going on with it then needs no prefill.

        Returns the bytes, 0: nothing was stored. Nothing is if the cache may hold another session or private text.
        """
        model, session_id, folder = self.model, self._stored_as, self.host.kv

        def save() -> int:
            if model is None or session_id is None or session_id != model.last_read:
                return 0
            return save_session_cache(model.engine, folder, session_id)

        return self.worker.submit(save)

    def load_cache(self) -> Future[int]:
        """Load the stored cache of a resumed session. Returns the number of its tokens."""
        model, session_id = self.model, self.opened.session_id if self.opened.resumed else None
        assert model is not None

        def load() -> int:
            model.last_read = None
            return load_session_cache(model.engine, self.host.kv, session_id) if session_id is not None else 0

        return self.worker.submit(load)

    def end(self) -> None:
        """Stop the turn under way, and end the tools."""
        if self.turn:
            self.turn.stop()
        self.ahead.end()
        if self.tools:
            self.tools.close()
            self.tools = None

    def close(self) -> None:
        """The same, and give the session back. The model stays loaded."""
        self.end()
        if self.store:
            self.store.close()
