"""Signals of the process, answered on a loop's thread for a while."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress


@contextmanager
def answered(loop: asyncio.AbstractEventLoop, answers: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    """Inside the block each of these signals calls its function; afterwards all are as they were.

    One that is ignored (`nohup`) stays so; one that doesn't exist (SIGHUP on Windows) is passed over.

        with answered(loop, {"SIGTERM": leave}): …
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
