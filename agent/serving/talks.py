"""Answers requests: each on a lane, with its conversation as it was sampled and its client's tools."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ossia.agent.build import Model
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.errors import SessionsError
from ossia.agent.events import ApprovalAsked, Decision
from ossia.agent.kv_cache import change_conversation, save_session_cache, store_personal
from ossia.agent.lanes import Lanes
from ossia.agent.limits import Limits
from ossia.agent.prompt import WORK
from ossia.agent.serving.asked import Asked
from ossia.agent.serving.history import Start, begin
from ossia.agent.serving.hosting import Lent, Owner, Tools
from ossia.agent.serving.memory import Given, Memory, Shown, roll, shown
from ossia.agent.serving.stored import Stored
from ossia.agent.sessions.session import Options
from ossia.agent.stream import events as stream
from ossia.agent.stream.account import Account
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped
from ossia.agent.worker import WaitStopped
from ossia.harmony.messages import COMMENTARY, FINAL, Effort, Message, is_call
from ossia.tools.build import Toolset
from ossia.tools.host import Host, Report, silent

_SAVED_S = 5.0


@dataclass(frozen=True, slots=True)
class Begun:
    """The first event: the request is sound. `id`: the response's; `created`: in unix seconds.

    `mark` is in all ids of the response: its items' are `msg_<mark>_0`, `rs_<mark>_1`, …, so that they are known again;
    its calls have it already (`stream.ToolCall.id`).
    """

    id: str
    mark: str
    created: int
    model: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits for a lane: so many come before it, those under way not counted."""

    before: int


Event = Begun | Waiting | stream.Event
See = Callable[[Event], object]
Loaded = Callable[[Control, See], AbstractContextManager[Lanes]]
"""Gives the lanes of the model, loaded, for one turn; until they are there, it shows `stream.Loading`."""


class Talks:
    """The conversations of a server's clients. Thread-safe: each `answer` is called on a thread of its own.

    `loaded` gives the lanes; `model` is the model's name. `options` and `limits` are the owner's: a request may have
    options of its own, and lower limits. `save`: what is stored is on disk, too.

        talks = Talks(loaded, host, Owner(spec), model="gpt-oss-20b")
        talks.answer(asked, Control(), events.put)
        # Begun("resp_1f2e…", …), Waiting(1), Reasoning("They …"), Text("816"), Result("answered", "816", …)
    """

    def __init__(
        self,
        loaded: Loaded,
        host: Host,
        owner: Owner,
        *,
        model: str,
        options: Options | None = None,
        limits: Callable[[Effort], Limits] = lambda effort: Limits(),
        save: bool = False,
        report: Report = silent,
    ) -> None:
        self.model, self._loaded, self._host = model, loaded, host
        self._options, self._limits = options or Options(), limits
        self._stored = Stored(host, report) if save else None
        self._memory, self._tools = Memory(self._stored), Tools(owner, host, report)

    def answer(self, asked: Asked, stop: Control, see: See) -> stream.Result:
        """Answer a request: `see` gets a `Begun` first, the `Result` last; it must be quick, and must not raise.

        Raises BadRequest before anything is seen; whatever the lanes raise (ModelError, EngineFailed, …); a bug's
        error. After `stop` the result's end is "stopped".
        """
        start = begin(asked, self._memory)
        mark = secrets.token_hex(12)
        key = start.key or mark
        lane = f"client's {asked.key}" if asked.key is not None else key
        with self._tools.lent(start.after, mark, asked) as lent:
            now = int(self._host.now().timestamp())
            see(Begun(f"resp_{mark}", mark, now, self.model))
            try:
                with self._loaded(stop, see) as lanes, lanes.lane(
                    lane, stop=stop, on_wait=lambda before: see(Waiting(before))
                ) as model:  # fmt: skip
                    result = self._answer(asked, start, _Place(mark, key, lane, model, lent), stop, see)
                lent.ended = result.end not in ("stopped", "error")
                lent.used = not lent.ended or any(one.status != "returned" for one in result.calls)
            except WaitStopped:
                result = stream.Result("stopped")
            see(result)
            return result

    def save_caches(self, lanes: Lanes) -> None:
        """Store the KV of stored conversations, so that they go on later without reading it all; before `lanes` close.

        Waits at most 5 s for each lane; what isn't stored is read again.
        """
        for model in lanes.models:
            with suppress(TimeoutError):
                model.worker.submit(partial(self._save_cache, model)).result(_SAVED_S)

    def _save_cache(self, model: Model) -> None:
        if model.last_read is not None:
            save_session_cache(model.engine, self._host.kv, model.last_read)

    def close(self) -> None:
        """End the tools of all conversations."""
        self._tools.close()

    def _answer(self, asked: Asked, start: Start, place: _Place, stop: Control, see: See) -> stream.Result:
        tools, opened = place.lent.toolset, self._opened(asked, start, place.lent.toolset)
        session = opened.session
        session.options, session.call_mark = self._options_of(asked, start, place.lent), f"{place.mark}_"
        conversation = self._conversation(opened, place)
        schema = asked.answer.schema if asked.answer else None
        name, states = place.model.name, list(session.states)
        account = Account(name, schema, tools.origin, stopped=lambda: stop.stopped, states=states)
        publisher = Publisher(account, lambda: tools.toolbox.by_name)
        turn = conversation.say(start.said, limits=self._limits_of(asked, tools))
        forget = stop.on_stop(turn.stop)
        seen: list[stream.Event] = []
        try:
            for event in turn:
                if isinstance(event, Tapped):
                    continue
                for published in publisher.see(event):
                    seen.append(published)
                    see(published)
                if isinstance(event, ApprovalAsked):  # the owner answers: no client can
                    allow = self._tools.owner.yes and not event.firm
                    turn.answer(Decision(event.call.id, allow, unasked=not allow))
            turn.result()
        except BaseException:
            turn.stop()
            turn.done.exception()  # the lane goes to another turn
            raise
        finally:
            forget()
            given = _given(asked, start, place, opened, _shown(seen))
            if self._stored and opened.store:
                self._stored.close(opened, given)
        self._memory.add(given)
        return account.result(session_id=opened.stored_id)

    def _conversation(self, opened: OpenSession, place: _Place) -> Conversation:
        """The conversation in its lane, which holds as much of it as was parked or stored."""
        model, held = place.model, 0
        if model.client != place.lane:  # no client finds out what another has said by how soon it is answered
            before, model.client = model.client, place.lane
            held = model.worker.submit(lambda: change_conversation(model.engine, before, place.lane)).result()
        conversation = Conversation(opened, model.worker, self._host, private=self._tools.owner.spec.private)
        conversation.tools_off = place.lent.off
        conversation.use(model, place.lent.toolset)
        model.worker.submit(lambda: store_personal(model.engine, opened.store is not None))  # they are the client's
        if opened.resumed and not held and model.last_read != opened.session_id:
            conversation.load_cache()
        return conversation

    def _opened(self, asked: Asked, start: Start, tools: Toolset) -> OpenSession:
        """The session, stored or not. What keeps it from being stored isn't worth an answer."""
        if self._stored is None or not asked.store:
            return OpenSession(start.session())
        root = str(tools.folder.workspace.root) if tools.folder else None
        try:
            return self._stored.open(start, root)
        except SessionsError as error:
            self._stored.warn(str(error))
            return OpenSession(start.session())

    def _options_of(self, asked: Asked, start: Start, lent: Lent) -> Options:
        """The options: the owner's, the request's, and those of the workspace if it is on offer."""
        own, folder = self._options, lent.folder
        given: dict[str, Any] = {"temperature": asked.temperature, "top_p": asked.top_p, "seed": asked.seed}
        said = "\n\n".join(filter(None, (own.instructions, asked.instructions, *start.lead)))
        work = "" if self._tools.owner.only_look else WORK
        whole = (said or work, folder.notes) if folder else (said,)
        return replace(
            own,
            effort=asked.effort or own.effort,
            instructions="\n\n".join(filter(None, whole)) or None,
            taints=own.taints | (folder.workspace.taints if folder and folder.notes else frozenset()),
            date=start.date or self._host.now().date().isoformat(),
            response_format=asked.answer,
            sampling=replace(own.sampling, **{name: value for name, value in given.items() if value is not None}),
        )

    def _limits_of(self, asked: Asked, tools: Toolset) -> Limits:
        own = self._limits(asked.effort or self._options.effort)
        tokens = min((one for one in (own.max_tokens, asked.max_tokens) if one is not None), default=None)
        steps = own.max_steps if asked.max_calls is None else min(own.max_steps, asked.max_calls or own.max_steps)
        every = tuple(tools.toolbox.by_name)
        must_call = {"auto": (), "none": (), "required": every}.get(asked.tool_choice, (asked.tool_choice,))
        return replace(own, max_tokens=tokens, max_steps=steps, must_call=must_call)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a turn: its response's mark, its conversation's key, its lane's key and model, its tools."""

    mark: str
    key: str
    lane: str
    model: Model
    lent: Lent


def _given(asked: Asked, start: Start, place: _Place, opened: OpenSession, seen: Shown) -> Given:
    """The response of a turn."""
    session = opened.session
    last = session.entries[-1].message
    return Given(
        place.mark,
        place.key,
        session.options.date,
        start.lead,
        session.entries,
        session.ends,
        session.summary,
        len(start.entries) + (start.said is not None),
        seen,
        roll(start.digest, seen),
        session.last_call_id if is_call(last) else None,
        asked.store,
        opened.stored_id,
    )


def _shown(events: Sequence[stream.Event]) -> Shown:
    """A turn as its client saw it: the texts, and the call of its function."""
    said = [event.delta for event in events if isinstance(event, stream.Text)]
    messages = [Message("assistant", ("".join(said),), channel=FINAL)]
    called: dict[str, stream.ToolCall] = {}
    for event in events:
        match event:
            case stream.ToolCall():
                called[event.id] = event
            case stream.ToolResult(call_id, "returned"):
                call = called[call_id]
                written = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
                messages.append(Message("assistant", (written,), recipient=call.name, channel=COMMENTARY))
    return shown(messages)
