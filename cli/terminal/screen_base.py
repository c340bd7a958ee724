"""The base of every screen of a chat: its panes, its frames on the loop, its end."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

from ossia.cli.terminal.markdown.paint import Painter, Row


class Panes(Protocol):
    """The contents of a screen. Every method is called on the loop's thread and is quick."""

    def frame(self) -> list[Row]:
        """Take in the events since the last frame; returns the newly finished rows."""

    def live(self, max_rows: int) -> list[Row]:
        """The open block, in at most `max_rows` rows."""

    def activity(self) -> list[Row]:
        """The lines above the input: the present activity, the queue."""

    def bottom(self) -> Row:
        """The line below the input."""

    def farewell(self) -> list[Row]:
        """The last rows, once the rest is off the screen."""

    @property
    def animated(self) -> bool:
        """Does something change by itself (seconds)? Then frames come without events."""


class ScreenBase(ABC):
    """The loop's side of a screen. `interrupted`: a signal ended it, or the terminal was closed."""

    def __init__(self, panes: Panes, painter: Painter) -> None:
        self._panes, self.painter = panes, painter
        self.interrupted = False
        self._fault: BaseException | None = None
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Ask for a frame soon, from any thread; however often it is called, only one comes."""
        if not self._scheduled and self._loop is not None:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._schedule)

    @abstractmethod
    def leave(self) -> None:
        """End `run`, whoever has the terminal."""

    @abstractmethod
    def _schedule(self) -> None:
        """Draw the next frame when it is due. On the loop's thread."""

    @abstractmethod
    def _last_words(self) -> None:
        """Print the open block, before the loop is left."""

    @asynccontextmanager
    async def _on_loop(self, signals: dict[str, Callable[[], object]]) -> AsyncIterator[None]:
        """Show the screen inside the block; then raise what a callback on the loop raised."""
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

    def _interrupted(self) -> None:
        self.interrupted = True
        self.leave()

    def _on_fault(self, error: BaseException | None) -> None:
        """End the chat after a fault in a callback or a task; `run` raises it."""
        if error is not None:
            self._fault = self._fault or error
            self.leave()


@contextmanager
def _answered(loop: asyncio.AbstractEventLoop, answers: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    """Have each of these signals call its function inside the block.

    One that is ignored (`nohup`) stays so; one that doesn't exist (SIGHUP on Windows) is skipped.
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
