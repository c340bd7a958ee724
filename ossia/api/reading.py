"""The reading of a turn: its events as they are published, its questions answered, its result."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import replace

from ossia.agent.conversation import Conversation
from ossia.agent.events import ApprovalAsked, Decision
from ossia.agent.lanes import Lanes
from ossia.agent.stream.account import Account
from ossia.agent.stream.events import Approval, Event, Notice, Result, ToolResult
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped, Turn
from ossia.api.host import LOG
from ossia.errors import AgentBusy, ArgumentError
from ossia.tools.functions import CALLED_BY

Answer = bool | str | Mapping[str, object]
Approve = Callable[[Approval], Answer]
_MAX_CHANGES = 8  # of one call: a function that changes whatever it is asked would be asked for ever
_EXPECTED = "approve: must return True, False, a reason (text) or changed arguments (a dict)"
_NEEDS_A_PERSON = "only a person may allow that: Agent(answers_for_a_person=True) if one answers"

GRACE_S = 0.6
"""The wait for the end of a turn left early or closed: after Ctrl-C, the program goes on within a second."""

_readers: dict[Lanes, list[int]] = {}  # the threads that read a turn of a model, or wait for one


@contextmanager
def alone(lanes: Lanes) -> Iterator[None]:
    """Raise AgentBusy in a thread awaited by a turn of these lanes if none is free: the two would wait for each other.
    """
    readers = _readers.setdefault(lanes, [])
    if waits_for_us(lanes) and lanes.busy + lanes.waiting >= len(lanes):
        raise AgentBusy(
            "another turn over the same model waits for this thread: read its stream to the end first, or give this "
            "agent a model of its own, or the model another lane: Model(parallel=2)"
        )
    thread = threading.get_ident()
    readers.append(thread)
    try:
        yield
    finally:
        readers.remove(thread)
        if not readers:
            _readers.pop(lanes, None)


def waits_for_us(lanes: Lanes) -> bool:
    """True on a thread that reads a turn of these lanes, or on which one of its functions runs."""
    works = CALLED_BY.get() in {model.worker.thread for model in lanes.models}
    return works or threading.get_ident() in _readers.get(lanes, ())


def events_of(turn: Turn, publisher: Publisher, approver: Approver) -> Generator[Event, None, None]:
    """The events between the first and the last. Left early, the turn is stopped. Raises the errors of `approver`."""
    try:
        for event in turn:
            if isinstance(event, Tapped):
                continue
            question = None
            for published in publisher.see(event):
                question = published if isinstance(published, Approval) else None
                if isinstance(published, ToolResult):
                    for notice in published.notices:
                        LOG.warning("%s: %s", published.title, notice)
                yield published
            if isinstance(event, ApprovalAsked) and question is not None:
                decision = approver.decide(event, question)
                if decision.unasked:
                    LOG.warning(why := f"{event.call.name} was refused: {event.reason}, and {decision.reason}")
                    yield Notice("unasked", why)
                turn.answer(decision)
        turn.result()
    except BaseException:
        turn.stop()
        wait([turn.done], GRACE_S)
        raise


def result_of(account: Account, session_id: str | None, read: Callable[[str], object] | None) -> Result:
    """The last event. `read` makes the data of an answer, or raises ValueError."""
    result = account.result(session_id=session_id)
    if read is None or account.answer is None:
        return result
    try:
        return replace(result, data=read(account.answer))
    except ValueError as fault:
        return replace(result, data=None, error=str(fault))


def warn(conversation: Conversation) -> None:
    """Log the turn's warnings about the machine."""
    if conversation.tools and (line := conversation.tools.counter.warning()):
        LOG.warning(line)
    if conversation.store and conversation.store.problem:
        LOG.warning("the session is not stored: %s", conversation.store.problem)


# -- the questions -----------------------------------------------------------------------------------------------------


class Approver:
    """Answers the questions of one turn by the program's `approve`; None: nobody can be asked, so all are refused.

    `for_a_person`: a person is behind `approve`, which may therefore allow firm questions, too.
    """

    def __init__(self, approve: Approve | None, *, for_a_person: bool) -> None:
        self._approve, self._for_a_person = approve, for_a_person
        self._call, self._changes = "", 0

    def decide(self, asked: ApprovalAsked, question: Approval) -> Decision:
        """The decision. Raises ArgumentError for any other answer, and whatever `approve` raises."""
        if self._approve is None:
            return Decision(asked.call.id, False, reason="approve isn't given", unasked=True)
        answer = self._approve(question)
        if not isinstance(answer, bool | str | Mapping):
            raise ArgumentError(f"{_EXPECTED}, not {answer!r:.80}")
        if isinstance(answer, str) or answer is False:
            return Decision(asked.call.id, False, reason=answer or "")
        values = asked.arguments if answer is True else _in_form(answer, asked.arguments)
        if asked.form is None and values != asked.arguments:
            return self._changed(asked, values)
        if asked.firm and not self._for_a_person:
            return Decision(asked.call.id, False, reason=_NEEDS_A_PERSON, unasked=True)
        return Decision(asked.call.id, True, arguments=None if asked.form is None else _written(values))

    def _changed(self, asked: ApprovalAsked, values: object) -> Decision:
        """The call with other arguments: it is previewed, then asked about again."""
        self._changes = self._changes + 1 if asked.call.id == self._call else 1
        self._call = asked.call.id
        if self._changes > _MAX_CHANGES:
            raise ArgumentError(f"approve: has changed one call {_MAX_CHANGES} times: return True once it is right")
        return Decision(asked.call.id, True, arguments=values if isinstance(values, str) else _written(values))


def _written(values: object) -> str:
    try:
        return json.dumps(values)
    except (TypeError, ValueError) as fault:
        raise ArgumentError(f"{_EXPECTED}, as JSON has them: {fault}") from None


def _in_form(answer: Mapping[str, object], before: object) -> object:
    """The arguments as the tool takes them: of `{"code": "print(1)"}` the text, for a tool that takes a text."""
    if isinstance(before, str) and len(answer) == 1 and isinstance(text := next(iter(answer.values())), str):
        return text
    return dict(answer)
