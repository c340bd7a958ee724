"""The conversation of an agent: it begins with the first question, and ends with the agent."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ossia.errors import AgentClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future

    from ossia.agent.build import Model as LoadedModel
    from ossia.agent.conversation import Conversation, OpenSession
    from ossia.agent.lanes import Lanes
    from ossia.agent.limits import Limits
    from ossia.agent.sessions.session import Options, Session
    from ossia.agent.sessions.store import SessionStore
    from ossia.agent.stream import events as stream
    from ossia.agent.turn import Turn
    from ossia.api.load import Load
    from ossia.api.model import Model
    from ossia.api.parts import Given, Parts
    from ossia.api.reading import Approver
    from ossia.harmony.messages import ResponseFormat
    from ossia.tools.build import Toolset
    from ossia.tools.host import Host

_R = TypeVar("_R")
_STEP_S = 0.1


class Talk:
    """A conversation by the arguments `given`, over `model`. One question at a time; `close` from any thread.

    It knows nothing of its agent, so that this can be collected as garbage. `save`: store it.
    """

    def __init__(self, given: Given, model: Model, *, save: bool) -> None:
        self._given, self._model, self._save = given, model, save
        self._opened: OpenSession | None = None
        self._conversation: Conversation | None = None
        self._tools: Toolset | None = None
        self._lanes: Lanes | None = None
        self._limits: Limits | None = None
        self._key = str(id(self))  # that of a fork is the same: it goes on where this cache is
        self._lock = threading.Lock()
        self.turn: Turn | None = None
        self.closed = False
        model._weights.enter()

    @property
    def session_id(self) -> str | None:
        return self._opened.stored_id if self._opened else None

    def say(
        self, text: str, schema: object | None, approver: Approver, stopped: threading.Event
    ) -> Generator[stream.Event, None, None]:
        """The events of a turn, a `Result` at the end; then an error of its end is raised. `stopped` ends it."""
        from ossia.agent.errors import EngineFailed
        from ossia.agent.stream.account import Account
        from ossia.agent.stream.events import Begin, Result
        from ossia.agent.stream.publish import Publisher
        from ossia.agent.worker import WaitStopped
        from ossia.api.reading import alone, events_of, result_of, warn

        form, read = _form(schema)
        conversation = yield from self._begun(stopped)
        if conversation is None:
            yield Result("stopped", session_id=self.session_id)
            return
        assert self._lanes is not None
        with ExitStack() as held:
            held.enter_context(alone(self._lanes))
            try:
                model = held.enter_context(self._lanes.lane(self._key, stop=_Stopped(self, stopped)))
            except (WaitStopped, EngineFailed):  # it was closed, or its model was
                self.require_open()
                yield Result("stopped", session_id=self.session_id)
                return
            with self._lock:
                self.require_open()
                tools = self._use(conversation, model)
            conversation.options = replace(conversation.options, response_format=form)
            account = Account(model.name, form and form.schema, tools.origin, stopped.is_set)
            publisher = Publisher(account, lambda: tools.toolbox.by_name)
            yield Begin(model.name, self.session_id)
            try:
                with self._lock:
                    self.require_open()
                    turn = self.turn = conversation.say(text, limits=self._limits)
                if stopped.is_set():
                    turn.stop()
                yield from events_of(turn, publisher, approver)
            finally:
                self.turn = None
        warn(conversation)
        yield result_of(account, self.session_id, read)
        if isinstance(account.error, Exception):
            raise account.error

    def _use(self, conversation: Conversation, model: LoadedModel) -> Toolset:
        """Go on in the lane of this model, with the cache of a resumed session."""
        tools, first = conversation.tools or self._tools, conversation.model is None
        assert tools is not None
        if conversation.model is not model:
            conversation.use(model, tools)
        if first and conversation.opened.resumed:
            conversation.forget_variables()
            conversation.load_cache()
        return tools

    def require_open(self) -> None:
        """Raise AgentClosed if the agent or its model is closed."""
        if self.closed:
            raise AgentClosed("the agent is closed: make another one, Agent(…)")
        self._model._weights.require_open()

    def _begun(self, stopped: threading.Event) -> Generator[stream.Event, None, Conversation | None]:
        """The conversation, ready for a turn; None: it was stopped before that."""
        self.require_open()
        if self._conversation is None:
            return (yield from self._begin(stopped))
        before = self._conversation.turn
        while before and not before.done.done():  # it was left, and its step isn't over yet
            if stopped.wait(_STEP_S):
                return None
            self.require_open()
        return self._conversation

    def _begin(self, stopped: threading.Event) -> Generator[stream.Event, None, Conversation | None]:
        from ossia.agent.conversation import Conversation
        from ossia.api.host import host_of
        from ossia.api.parts import configured, plain
        from ossia.api.tools import functions_of, toolset_of

        host, given, model = host_of(self._model.data), self._given, self._model
        parts = configured(given, model.name, model.context) if given.config else plain(given, host)
        functions = functions_of(given)
        spec = parts.model if model._weights.owned else None
        load = model._weights.begin(lambda: spec or model._spec(), host)
        begun = yield from _awaited(load, load.begun, stopped)
        if begun is None:
            return None
        tools = toolset_of(given, parts, host, begun.tokenizer, functions)
        try:
            built = yield from _awaited(load, load.built, stopped)
            if built is None:
                tools.close()
                return None
            opened = self._open(parts, host)
            conversation = Conversation(opened, built.models[0].worker, host, private=parts.private)
        except BaseException:
            tools.close()
            raise
        with self._lock:
            if not self.closed:
                self._conversation, self._limits = conversation, parts.limits
                self._tools, self._lanes = tools, built
                return conversation
        tools.close()
        conversation.close()
        raise AgentClosed("the agent was closed while its model was loaded")

    # -- the session ---------------------------------------------------------------------------------------------------

    def _open(self, parts: Parts, host: Host) -> OpenSession:
        """The session (new, resumed or forked) with the agent's options."""
        from ossia.agent.conversation import OpenSession
        from ossia.agent.sessions.session import Session

        opened = self._opened = self._opened or OpenSession(Session())
        opened.session.options = _with(parts.options, opened.session)
        if self._save and opened.store is None and not parts.private:
            store, folder = _store(host), parts.tools.folder
            opened.store = store
            opened.session_id = store.keep(opened.session, workspace=str(folder.workspace.root) if folder else None)
        return opened

    def resume(self, ref: str) -> None:
        """Go on with a stored session. Raises SessionsError."""
        from ossia.agent.conversation import OpenSession
        from ossia.api.host import host_of

        store = _store(host_of(self._model.data))
        try:
            session_id = store.find(ref).id
            if session_id == self.session_id:
                store.close()
                return
            session = store.resume(session_id)
        except BaseException:
            store.close()
            raise
        opened, before = OpenSession(session, store, session_id, resumed=True), self._opened
        if self._conversation:
            session.options = _with(self._conversation.options, session)
            self._conversation.switch(opened)
            self._conversation.forget_variables()
        elif before and before.store:
            before.store.close()
        self._opened = opened

    def fork(self) -> Talk:
        """Another conversation, with the same session so far."""
        other = Talk(self._given, self._model, save=self._save)
        other._key = self._key
        if self._opened:
            from ossia.agent.conversation import OpenSession
            from ossia.agent.sessions.session import Session

            mine = self._opened.session
            copy = Session(mine.options, entries=mine.entries, ends=mine.ends, summary=mine.summary)
            other._opened = OpenSession(copy, resumed=bool(copy.entries))
        return other

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self, wait_s: float | None = None) -> None:
        """Stop the turn under way, end the tools, give the model back; see `Weights.close` on `wait_s`."""
        if not self._model._weights.here:
            return
        with self._lock:
            if self.closed:
                return
            self.closed, conversation = True, self._conversation
        if conversation:
            if conversation.turn:
                from concurrent.futures import wait

                from ossia.api.reading import GRACE_S

                conversation.turn.stop()
                wait([conversation.turn.done], GRACE_S if wait_s is None else min(wait_s, GRACE_S))
            if conversation.session.entries:
                conversation.save_cache()
            if self._tools and not conversation.tools:  # it said nothing yet
                self._tools.close()
            conversation.close()
        elif self._opened and self._opened.store:
            self._opened.store.close()
        self._model._weights.leave(wait_s)


@dataclass(frozen=True, slots=True)
class _Stopped:
    """Ends the wait for a lane: the question is stopped, the agent or its model closed."""

    talk: Talk
    event: threading.Event

    @property
    def stopped(self) -> bool:
        return self.event.is_set() or self.talk.closed or self.talk._model._weights.closed


def _form(schema: object | None) -> tuple[ResponseFormat | None, Callable[[str], object] | None]:
    if schema is None:
        return None, None
    from ossia.api.schema import read

    return read(schema)


def _with(options: Options, session: Session) -> Options:
    """The agent's options for a session: its own date and taints stay."""
    if not session.entries:
        return options
    before = session.options
    return replace(options, date=before.date, taints=options.taints | before.taints)


def _store(host: Host) -> SessionStore:
    from ossia.agent.sessions.store import SessionStore

    return SessionStore(host.sessions, now=lambda: host.now().timestamp())


def _awaited(load: Load, future: Future[_R], stopped: threading.Event) -> Generator[stream.Event, None, _R | None]:
    """The result of a future of `load`, with the events of loading until then; None: stopped."""
    from ossia.agent.stream.events import Loading

    shown = load.now
    while not future.done():
        if stopped.is_set():
            return None
        if load.now != shown:
            shown = load.now
            yield Loading(shown.what, shown.share, shown.left_s)
        with suppress(TimeoutError):
            future.exception(_STEP_S)
    return future.result()
