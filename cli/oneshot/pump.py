"""The worker's events, taken one by one on the terminal's thread, which meanwhile draws its live line."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future

from ossia.agent.control import Control
from ossia.agent.events import ApprovalAsked, Event
from ossia.agent.worker import Tapped, Worker
from ossia.cli.oneshot.ask import Asker
from ossia.cli.runtime.progress import Display

TICK_S = 0.05


class Pump:
    """`see` is shown each event; `asker` answers those that ask something.

    pump = Pump(worker, display, asker, see)
    while not pump.is_over(done):
        pump.next(control)
    """

    def __init__(self, worker: Worker, display: Display, asker: Asker, see: Callable[[Event | Tapped], object]) -> None:
        self._worker, self._display, self._asker, self._see = worker, display, asker, see

    def is_over(self, done: Future[None]) -> bool:
        """Has the job ended, and were all its events taken?"""
        return done.done() and self._worker.inbox.empty()

    def next(self, control: Control) -> Event | Tapped | None:
        """Take one event, which is returned; None when none came for a while."""
        try:
            event = self._worker.inbox.get(timeout=TICK_S)
        except queue.Empty:
            self._display.line.tick()
            return None
        self._see(event)
        self._display.line.tick()
        if isinstance(event, ApprovalAsked):
            self._worker.answer(self._asker.decide(event, given_up=lambda: control.stopped))
        return event
