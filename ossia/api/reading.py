"""The reading of a turn: its events as they are published, its questions answered, its result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import replace

from ossia.agent.conversation import Conversation
from ossia.agent.events import ApprovalAsked
from ossia.agent.stream.account import Account
from ossia.agent.stream.events import Approval, Event, Result, ToolResult
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped, Turn
from ossia.agent.worker import Worker
from ossia.api.approving import Approver
from ossia.api.host import LOG
from ossia.errors import AgentBusy
from ossia.tools.functions import CALLED_BY

GRACE_S = 0.6
"""The wait for the end of a turn left early: after Ctrl-C, the program goes on within a second."""

_readers: dict[Worker, list[int]] = {}  # the threads that read a turn of a worker, or wait for one


@contextmanager
def alone(worker: Worker) -> Iterator[None]:
    """Raise AgentBusy in a thread awaited by a turn of this worker: the two would wait for each other."""
    thread, readers = threading.get_ident(), _readers.setdefault(worker, [])
    if thread in readers or CALLED_BY.get() == worker.thread:
        raise AgentBusy(
            "another turn over the same model waits for this thread: read its stream to the end first, or give this "
            "agent a model of its own"
        )
    readers.append(thread)
    try:
        yield
    finally:
        readers.remove(thread)
        if not readers:
            _readers.pop(worker, None)


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
                turn.answer(approver.decide(event, question))
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
