"""What every screen of a chat has: panes that it shows, a loop that it lives on, frames that are asked for, an end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

from ossia.cli.terminal.markdown.paint import Painter, Row


class Panes(Protocol):
    """What the screen shows. Every method is called on the loop's thread and is quick."""

    def frame(self) -> list[Row]:
        """Take in what happened since the last frame; returns the rows that are finished now."""
        ...

    def live(self, max_rows: int) -> list[Row]:
        """The open block: what isn't final yet, `max_rows` rows at the most."""
        ...

    def activity(self) -> list[Row]:
        """The lines above the input: what is going on, what is queued."""
        ...

    def bottom(self) -> Row:
        """The line below the input."""
        ...

    def farewell(self) -> list[Row]:
        """The last rows of all, once the rest is off the screen."""
        ...

    @property
    def animated(self) -> bool:
        """Does something change by itself (seconds)? Then frames come although nothing happens."""
        ...


class ScreenBase:
    """The loop's side of a screen. `interrupted`: a signal ended it, or the terminal was closed."""

    def __init__(self, panes: Panes, painter: Painter) -> None:
        self._panes, self.painter = panes, painter
        self.interrupted = False
        self._fault: BaseException | None = None
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Something happened: a frame comes soon. From any thread; however often it is called, only one comes."""
        if not self._scheduled and self._loop is not None:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._schedule)

    def leave(self) -> None:
        """End `run`, whoever has the terminal."""
        raise NotImplementedError

    def _schedule(self) -> None:
        """On the loop's thread: have the next frame drawn when it is time for it."""
        raise NotImplementedError

    @asynccontextmanager
    async def _on_loop(self, signals: dict[str, Callable[[], object]]) -> AsyncIterator[None]:
        """The screen lives inside the block. Raises what a callback on the loop raised, once `run` is through."""
        self._loop = loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        # prompt_toolkit's own handler prints "Press ENTER to continue" and waits for it.
        loop.set_exception_handler(lambda loop, context: self._on_fault(context.get("exception")))
        ends = {"SIGTERM": self._interrupted, "SIGHUP": self._interrupted}
        try:
            with _answered(loop, ends | signals):
                yield
        finally:
            loop.set_exception_handler(before)
            self._last_words()
            self._loop = None
        if self._fault:
            raise self._fault

    def _last_words(self) -> None:
        """The last thing before the loop is given up: print what is still open."""
        raise NotImplementedError

    def _interrupted(self) -> None:
        self.interrupted = True
        self.leave()

    def _on_fault(self, error: BaseException | None) -> None:
        """Something raised in a callback or a task: the chat ends, and `run` raises it."""
        if error is not None:
            self._fault = self._fault or error
            self.leave()


@contextmanager
def _answered(loop: asyncio.AbstractEventLoop, answers: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    """Inside the block each of these signals calls its function; afterwards all are as they were.

    One that is ignored (`nohup`) stays so; one that doesn't exist (SIGHUP on Windows) is passed over.
    """
    numbers = {getattr(signal, name): act for name, act in answers.items() if hasattr(signal, name)}
    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in taken:
        with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows; not the main thread
            loop.add_signal_handler(number, numbers[number])
    try:
        yield
    finally:
        for number in taken:
            with suppress(NotImplementedError, ValueError):
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])
