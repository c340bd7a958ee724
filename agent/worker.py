"""The one thread of an engine: it runs the turns."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ossia.agent.control import Control

_R = TypeVar("_R")
_STEP_S = 0.05
Idle = Callable[[Control], float | None]


class Worker:
    """Runs jobs one after another on a thread of its own: it owns the engine.

    While no job waits, it calls the function that `when_idle` got; submitting a job stops that call.

        worker = Worker()
        turn = Turn(worker, run_turn(…), control)
        worker.submit(engine.close).result()
    """

    def __init__(self) -> None:
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
        """Run `job` on the worker's thread, after earlier jobs. The future gets its result or error."""
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
    def thread(self) -> int:
        """The identifier of its thread."""
        return self._thread.ident or 0

    @property
    def busy(self) -> bool:
        """True while a job is under way or waiting."""
        return self._last is not None and not self._last.done()

    def close(self, timeout_s: float | None = None) -> None:
        """End the thread once the waiting jobs are done. Waits for that, but on the thread itself."""
        self._put_job(None)
        if threading.current_thread() is not self._thread:  # garbage may be collected there
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


def in_background(job: Callable[[], _R]) -> Future[_R]:
    """Run `job` on a thread of its own; the future gets its result or error."""
    worker = Worker()
    future = worker.submit(job)
    worker.close(0)
    return future


class WaitStopped(Exception):
    """A wait was stopped."""


def awaited(
    future: Future[_R], tick: Callable[[], object] = lambda: None, *, stop: Control | None = None
) -> _R:
    """The result of a future; until then `tick` is called. It waits in steps, since Windows can't interrupt a wait.

    Raises WaitStopped once `stop` is stopped.
    """
    while not future.done():
        if stop and stop.stopped:
            raise WaitStopped
        tick()
        with suppress(TimeoutError):
            future.exception(timeout=_STEP_S)
    return future.result()
