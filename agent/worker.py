"""The one thread that owns the engine and drives turns, and the mailboxes between it and the terminal's thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ossia.agent.control import Control
from ossia.agent.events import ApprovalAsked, Decision, Event

_R = TypeVar("_R")
Idle = Callable[[Control], float | None]
_PATIENCE_S = 0.1


@dataclass(frozen=True, slots=True)
class Tapped:
    """Ids as they came out of the engine, for a reader of raw ids (`Worker.tap`)."""

    ids: tuple[int, ...]


class Worker:
    """Runs jobs one after another on a thread of its own; a turn's events come through `inbox`.

    While no job waits, it calls the function that `when_idle` got; submitting a job stops that call.

    The terminal's thread reads `inbox`, answers an `ApprovalAsked` with `answer`, and stops a turn with
    `control.stop()` followed by `answer(None)`. It never touches the turn itself. `on_event` is called on the worker's
    thread after each event that went into `inbox`: it must be quick.

        worker = Worker()
        done = worker.submit(lambda: worker.drive(run_turn(…), control))
        while not (done.done() and worker.inbox.empty()): …
    """

    def __init__(self, *, capacity: int = 4096) -> None:
        self.inbox: queue.Queue[Event | Tapped] = queue.Queue(capacity)
        self.on_event: Callable[[], None] = lambda: None
        self._answers: queue.SimpleQueue[Decision | None] = queue.SimpleQueue()
        self._last: Future[Any] | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle: Idle | None = None
        self._idle_at: float | None = None  # when it is called next, in monotonic seconds; None: never again
        self._idle_control: Control | None = None  # while it runs
        # A daemon thread: a process that should end must not wait for a C call to return.
        self._thread = threading.Thread(target=self._work, name="ossia-worker", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], _R]) -> Future[_R]:
        """Run `job` on the worker's thread, after earlier jobs. The future gets its result, or what it raised."""
        future: Future[_R] = Future()

        def run() -> None:
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

        self._last = future
        self._put_job(run)
        return future

    def when_idle(self, do: Idle | None) -> None:
        """From now on call `do` on the worker's thread while no job waits; it replaces what was given before.

        Submitting a job stops the call through its `Control`, and it is repeated after that job. Otherwise it is
        repeated after as many seconds as it returned; None: never. It must not raise.
        """
        with self._lock:
            self._idle, self._idle_at = do, time.monotonic()
        self._put_job(lambda: None)  # wakes the thread, and stops the call under way

    @property
    def busy(self) -> bool:
        """True while a job is under way or waiting."""
        return self._last is not None and not self._last.done()

    def drive(self, turn: Generator[Event, Decision | None, object], control: Control) -> None:
        """Run a turn, or a single call, to its end, on the worker's thread. Every event goes into `inbox`, in order."""
        decision: Decision | None = None
        while True:
            try:
                event = turn.send(decision)
            except StopIteration:
                return
            if isinstance(event, ApprovalAsked):
                self._forget_answers()
            self._put(event, control)
            decision = self._decision(event, control) if isinstance(event, ApprovalAsked) else None

    def answer(self, decision: Decision | None) -> None:
        """Answer the open question. None refuses; a decision on another call is dropped."""
        self._answers.put(decision)

    def tap(self, control: Control) -> Callable[[Sequence[int]], None]:
        """A tap for `LocalResponder`: the raw ids come through `inbox`, in order with the events."""
        return lambda ids: self._put(Tapped(tuple(ids)), control)

    def close(self, timeout_s: float | None = None) -> None:
        """End the thread once the waiting jobs are done."""
        self._put_job(None)
        self._thread.join(timeout_s)

    def _put_job(self, job: Callable[[], None] | None) -> None:
        self._jobs.put(job)
        with self._lock:
            control = self._idle_control
        if control is not None:
            control.stop()

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            job()

    def _next_job(self) -> Callable[[], None] | None:
        """Wait for the next job; until it comes, make the idle calls."""
        while True:
            with self._lock:
                idle, at = self._idle, self._idle_at
                due = idle is not None and at is not None and at <= time.monotonic() and self._jobs.empty()
                control = self._idle_control = Control() if due else None
            if idle is None or at is None:
                return self._jobs.get()
            if control is None:
                with suppress(queue.Empty):
                    return self._jobs.get(timeout=max(0.0, at - time.monotonic()))
                continue
            again_s = idle(control)
            with self._lock:
                self._idle_control = None
                if idle is self._idle:
                    again_s = 0.0 if control.stopped and again_s is None else again_s
                    self._idle_at = None if again_s is None else time.monotonic() + again_s

    def _put(self, event: Event | Tapped, control: Control) -> None:
        while True:
            try:
                self.inbox.put(event, timeout=_PATIENCE_S)
                return self.on_event()
            except queue.Full:
                if control.stopped:  # nobody reads any more; the session has everything
                    return None

    def _forget_answers(self) -> None:
        """Drop answers that are older than the question: a stop may put a None here at any moment."""
        with suppress(queue.Empty):
            while True:
                self._answers.get_nowait()

    def _decision(self, asked: ApprovalAsked, control: Control) -> Decision | None:
        while True:
            try:
                decision = self._answers.get(timeout=_PATIENCE_S)
            except queue.Empty:
                if control.stopped:
                    return None
                continue
            if decision is None or decision.call_id == asked.call.id:
                return decision
