"""Work beside the screen: blocking jobs on threads of their own, their results on the loop's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

_R = TypeVar("_R")


class Background:
    """`wake` has the screen drawn again; `failed` gets what a job raised, unless the job has a `failed` of its own."""

    def __init__(self, *, wake: Callable[[], object], failed: Callable[[Exception], object]) -> None:
        self._wake, self._failed = wake, failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self.job: Callable[[], object] | None = None
        """Ends the job under way, e.g. a download: what Ctrl-C does when no turn is. There is one at a time."""
        self._ending: Callable[[], object] | None = None  # the job that was told to end
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds them only weakly

    def begin(self) -> None:
        """The loop runs: called on its thread, before anything else."""
        self._loop = asyncio.get_running_loop()

    def end_job(self) -> bool:
        """End the job under way. False: there is none, or it is ending already."""
        if self.job is None or self.job is self._ending:
            return False
        self._ending = self.job
        self.job()
        return True

    def run(
        self, job: Callable[[], _R], then: Callable[[_R], object], failed: Callable[[Exception], object] | None = None
    ) -> None:
        """Run `job` on a thread of its own. On the loop's, `then` gets its result, or `failed` what it raised."""

        def work() -> None:
            try:
                result = job()
            except Exception as error:
                self.on_loop(lambda error=error: (failed or self._failed)(error))  # type: ignore[misc]
            else:
                self.on_loop(lambda: then(result))

        threading.Thread(target=work, daemon=True).start()

    def task(self, work: Coroutine[object, object, None]) -> None:
        """Run it beside the screen, on the loop's thread, for as long as the loop runs."""
        assert self._loop is not None
        self._tasks.add(task := self._loop.create_task(work))
        task.add_done_callback(self._tasks.discard)

    def on_loop(self, call: Callable[[], object], *, after_s: float = 0.0) -> None:
        """Call it soon on the loop's thread, from whatever thread."""

        def act() -> None:
            call()
            self._wake()

        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended
            if after_s:
                self._loop.call_soon_threadsafe(self._loop.call_later, after_s, act)
            else:
                self._loop.call_soon_threadsafe(act)
