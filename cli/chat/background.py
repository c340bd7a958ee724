"""Work beside the screen, and its lines: jobs on their own threads, results on the loop's thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from ossia.agent.control import Control
from ossia.cli.clean import clean, one_line
from ossia.cli.exits import exit_code
from ossia.cli.runtime.progress import Display
from ossia.tools.spec import Stop

_R = TypeVar("_R")
_HERE = {
    "ossia models pull": "/model pull",
    "`ossia sessions list` shows": "/sessions shows",
    "name one with --model": "/model SERVER MODEL uses one",
    "name one of these with --model": "/model SERVER MODEL uses one of these",
}
"""Next steps in errors: for a shell, and for the chat."""


class Background:
    """`wake` redraws the screen; `failed` gets the error of a job without a `failed` of its own."""

    def __init__(self, *, wake: Callable[[], object], failed: Callable[[Exception], object]) -> None:
        self._wake, self._failed = wake, failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self.job: Callable[[], object] | None = None
        """Ends the one job under way, e.g. a download: for Ctrl-C between turns."""
        self._ending: Callable[[], object] | None = None  # the job that ends already
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds them only weakly

    def begin(self) -> None:
        """Take the running loop. Called on its thread, before anything else."""
        self._loop = asyncio.get_running_loop()

    def end_job(self) -> bool:
        """End the job under way. False: there is none, or it ends already."""
        if self.job is None or self.job is self._ending:
            return False
        self._ending = self.job
        self.job()
        return True

    def run(
        self,
        job: Callable[[], _R],
        then: Callable[[_R], object],
        failed: Callable[[Exception], object] | None = None,
        *,
        stop: Callable[[], object] | None = None,
    ) -> None:
        """Run `job` on its own thread; on the loop's, `then` gets its result, or `failed` its error.

        `stop` ends it; it is then the job for Ctrl-C.
        """
        self.job = stop or self.job

        def over(act: Callable[[], object]) -> None:
            if self.job is stop:
                self.job = None
            act()

        def work() -> None:
            try:
                result = job()
            except Exception as error:
                self.on_loop(lambda error=error: over(lambda: (failed or self._failed)(error)))  # type: ignore[misc]
            else:
                self.on_loop(lambda: over(lambda: then(result)))

        threading.Thread(target=work, daemon=True).start()

    def task(self, work: Coroutine[object, object, None]) -> None:
        """Run it on the loop's thread until the loop ends."""
        assert self._loop is not None
        self._tasks.add(task := self._loop.create_task(work))
        task.add_done_callback(self._tasks.discard)

    def on_loop(self, call: Callable[[], object], *, after_s: float = 0.0) -> None:
        """Call it soon on the loop's thread. From any thread."""

        def act() -> None:
            call()
            self._wake()

        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended
            if after_s:
                self._loop.call_soon_threadsafe(self._loop.call_later, after_s, act)
            else:
                self._loop.call_soon_threadsafe(act)


class Notices(Display):
    """Lines about loading, for `post`. From any thread. `verbose`: details, too."""

    def __init__(self, post: Callable[[str, str], None], background: Background, *, verbose: bool) -> None:
        super().__init__(terminal=True, asides=True, verbose=verbose)
        self._post, self._background = post, background

    def note(self, text: str, code: str = "") -> None:
        self._post(text.removeprefix("ossia: "), "dim")

    def warn(self, text: str) -> None:
        self._post(text, "yellow")

    def aside(self, text: str, *, whole: bool = False, look: str = "") -> None:
        self._post(text, "dim")

    @contextmanager
    def skippable(self) -> Iterator[tuple[Stop, str]]:
        """Ctrl-C skips, unless it ends another job."""
        background, free, skip = self._background, self._background.job is None, Control()
        job = skip.stop
        if free:
            background.job = job
        try:
            yield skip, "Ctrl-C goes on without" if free else ""
        finally:
            if background.job is job:
                background.job = None

    @property
    def activity(self) -> str:
        """The work under way, e.g. `waiting for MCP servers: files`, or ""."""
        return clean(self.line.text)


def line_about(error: Exception) -> str:
    """The line about an error, with the chat's own next step. Raises an error without an exit code again: a bug."""
    line = str(error)
    if isinstance(error, OSError):  # the machine's: a folder that can't be read, a full disk
        where = f"can't use {error.filename}: " if error.filename else ""
        line = f"{where}{error.strerror or error}"
    elif exit_code(error) is None:
        raise error
    for elsewhere, here in _HERE.items():
        line = line.replace(elsewhere, here)
    return one_line(line, 1000)
