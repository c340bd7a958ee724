"""Reading ahead: while the worker has nothing to do, it reads what the next prompt is sure to begin with.

That is the static part, and then what was said so far, as the next turn will see it: without the reasoning of past
turns. During a turn nothing is read ahead: the worker's thread waits for the tool or the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError

if TYPE_CHECKING:
    from ossia.agent.control import Control
    from ossia.agent.engine.base import Progress
    from ossia.agent.request import Request
    from ossia.agent.respond import LocalResponder
    from ossia.agent.worker import Idle, Worker

_LOOK_AGAIN_S = 2.0
_REPORTED_FROM = 64
"""Progress is reported from this many ids on: fewer are read before anybody could look."""


class ReadAhead:
    """`progress`: how many ids of the next prompt have been read, and out of how many; None while nothing is read.

    `before` is called before something is read, `on_change` when `progress` changes, `on_fault` with a bug's error;
    all of them on the worker's thread. `done`: all that is known of the next prompt has been read.
    """

    def __init__(self, worker: Worker, *, before: Callable[[], object] = lambda: None) -> None:
        self.worker, self._before = worker, before
        self.on_change: Callable[[], None] = lambda: None
        self.on_fault: Callable[[Exception], None] = lambda error: None
        self.progress: tuple[int, int] | None = None
        self.done = False
        self._request: Request | None = None

    def begin(
        self,
        request: Request,
        responder: LocalResponder,
        *,
        idle: Callable[[], bool] | None = None,
        then: Idle | None = None,
    ) -> None:
        """Read for this request (`Session.request_ahead`) whenever the worker has nothing to do, and the machine.

        `idle`: True while the machine has nothing else to do; None: never mind. `then` is called once all is read, as
        `Worker.when_idle` calls it.
        """
        self.end()
        self._request = request

        def when_idle(control: Control) -> float | None:
            try:
                again_s = self._read(request, responder, idle, control)
                return then(control) if then and again_s is None and self.done else again_s
            except AgentError:  # the turn itself will say what is wrong
                return None
            except Exception as error:
                self.on_fault(error)
                return None

        self.worker.when_idle(when_idle)

    def end(self) -> None:
        """Stop reading; the cache stays."""
        self.progress, self.done, self._request = None, False, None
        self.worker.when_idle(None)

    def _read(
        self, request: Request, responder: LocalResponder, idle: Callable[[], bool] | None, control: Control
    ) -> float | None:
        """Read until done or stopped. Returns in how many seconds to go on; None: never."""
        if idle and not idle():
            return _LOOK_AGAIN_S
        waits = False

        def on_progress(progress: Progress) -> None:
            nonlocal waits
            if progress.total - progress.reused >= _REPORTED_FROM:
                self.progress = (progress.done, progress.total)
                self.on_change()
            if idle and progress.done < progress.total and not idle():
                waits = True
                control.stop()

        try:
            self._before()
            responder.prefill(request, control=control, on_progress=on_progress)
        finally:
            self.progress = None
            self.on_change()
        self.done = not control.stopped and request is self._request
        return _LOOK_AGAIN_S if waits else None
