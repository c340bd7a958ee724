"""A turn under way: the mailboxes between the worker's thread and its reader's."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from ossia.agent.control import Control
from ossia.agent.events import ApprovalAsked, Decision, Event, TurnEnded
from ossia.agent.worker import Worker

_PATIENCE_S = 0.1
_STEP_S = 0.05  # of a wait: Windows can't interrupt a longer one


@dataclass(frozen=True, slots=True)
class Tapped:
    """Ids as they came out of the engine, for a reader of raw ids (`Turn.tap`)."""

    ids: tuple[int, ...]


class Turn:
    """Runs `events` (a turn of `agent.loop`, or a single call of a toolbox) on the worker's thread, after earlier jobs.

    Its reader takes the events with `next`, `take` or by iterating, and answers each `ApprovalAsked`. The other methods
    may be called from any thread. `on_event` is called on the worker's thread after each event: it must be quick.

        for event in turn:
            if isinstance(event, ApprovalAsked):
                turn.answer(Decision(event.call.id, allow=True))
        turn.result()                                            # TurnEnded("answered")
    """

    def __init__(
        self,
        worker: Worker,
        events: Generator[Event, Decision | None, object],
        control: Control,
        *,
        on_event: Callable[[], None] = lambda: None,
        capacity: int = 4096,
    ) -> None:
        self.control = control
        self._on_event = on_event
        self._inbox: queue.Queue[Event | Tapped] = queue.Queue(capacity)
        self._answers: queue.SimpleQueue[Decision | None] = queue.SimpleQueue()
        self._ended: TurnEnded | None = None
        self.done: Future[None] = worker.submit(lambda: self._run(events))

    # -- for its reader ------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True once it has ended and all its events were taken."""
        return self.done.done() and self._inbox.empty()

    def next(self, timeout_s: float = _STEP_S) -> Event | Tapped | None:
        """The next event; None if none came in time."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def rest(self, seconds: float) -> None:
        """Wait so long, unless events are there or it has ended."""
        if self._inbox.empty():
            with suppress(TimeoutError):
                self.done.exception(seconds)

    def take(self) -> Iterator[Event | Tapped]:
        """The waiting events."""
        with suppress(queue.Empty):
            while True:
                yield self._inbox.get_nowait()

    def __iter__(self) -> Iterator[Event | Tapped]:
        while not self.over:
            if (event := self.next()) is not None:
                yield event

    def result(self) -> TurnEnded | None:
        """The end, once it is over; None for a single call. Raises the error of a bug."""
        self.done.result()
        return self._ended

    # -- from any thread -----------------------------------------------------------------------------------------------

    def answer(self, decision: Decision | None) -> None:
        """Answer the open question; a decision on another call is dropped.

        None refuses in the user's name; where nobody was asked, say so: `Decision(id, allow=False, unasked=True)`.
        """
        self._answers.put(decision)

    def steer(self, text: str) -> None:
        """Say something to the model behind the next tool result, before it goes on; see `Control.steer`."""
        self.control.steer(text)

    def answer_now(self) -> None:
        """End the thinking: the answer begins."""
        self.control.answer_now()

    def stop(self) -> None:
        """End it as soon as its token, batch or tool allows; its messages so far stay."""
        self.control.stop()
        self.answer(None)

    def tap(self, ids: Sequence[int]) -> None:
        """Put raw ids among the events. On the worker's thread."""
        self._put(Tapped(tuple(ids)))

    # -- on the worker's thread ----------------------------------------------------------------------------------------

    def _run(self, events: Generator[Event, Decision | None, object]) -> None:
        decision: Decision | None = None
        while True:
            try:
                event = events.send(decision)
            except StopIteration:
                return
            if isinstance(event, ApprovalAsked):
                self._drop_answers()
            elif isinstance(event, TurnEnded):
                self._ended = event
            self._put(event)
            decision = self._decision(event) if isinstance(event, ApprovalAsked) else None

    def _put(self, event: Event | Tapped) -> None:
        while True:
            try:
                self._inbox.put(event, timeout=_PATIENCE_S)
                return self._on_event()
            except queue.Full:
                if self.control.stopped:  # nobody reads any more; the session has everything
                    return None

    def _drop_answers(self) -> None:
        """Drop answers older than the question: a stop may put a None here at any moment."""
        with suppress(queue.Empty):
            while True:
                self._answers.get_nowait()

    def _decision(self, asked: ApprovalAsked) -> Decision | None:
        while True:
            try:
                decision = self._answers.get(timeout=_PATIENCE_S)
            except queue.Empty:
                if self.control.stopped:
                    return None
                continue
            if decision is None or decision.call_id == asked.call.id:
                return decision
