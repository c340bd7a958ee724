"""A call of a function on a thread of its own: its output comes as it is printed, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import queue
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ossia.tools.calls.coerce import Misfit
from ossia.tools.functions import CALLED_BY
from ossia.tools.functions._capture import Stream, captured
from ossia.tools.functions._inspect import fault_line, result_text
from ossia.tools.spec import Stop, ToolOutput

MAX_PRINTED_CHARS = 200_000
_GRACE_S = 0.5
_CUT = f"\n[... what it printed after {MAX_PRINTED_CHARS} characters is left out]\n"


@dataclass(frozen=True, slots=True)
class Ending:
    """The code's end: with a result's text (None for None), with a fault, or not in time. `printed`: its stdout.

    `fault` is one line, `trace` is where in the code it was. The exception itself isn't kept, since inspecting it would
    run its code. `gone`: False if the code couldn't be ended and still runs.
    """

    how: Literal["returned", "raised", "stopped", "timeout"]
    text: str | None = None
    fault: str = ""
    trace: str = ""
    printed: str = ""
    gone: bool = True


class _Abandoned(SystemExit):
    """Raised in a thread from outside, to end it. As a SystemExit it ends the thread silently."""


class ThreadedCall:
    """One run of `work` on a thread of its own; a coroutine that it returns is awaited there.

    `module` is the name of the module whose output counts as the code's; None: nothing is caught.
    """

    def __init__(self, work: Callable[[], object], *, module: str | None) -> None:
        self._work, self._module = work, module
        self._inbox: queue.SimpleQueue[tuple[Stream, str] | Ending | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="ossia-function", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = MAX_PRINTED_CHARS
        self._printed: list[str] = []
        self._abandoned = False
        self._caller = threading.get_ident()

    def run(self, *, call_id: str, stop: Stop, timeout_s: float) -> Generator[ToolOutput, None, Ending]:
        """Start it, yield its output, return its end. If it is closed at a yield, the code is abandoned."""
        forget = stop.on_stop(lambda: self._inbox.put(None))
        deadline = time.monotonic() + timeout_s
        try:
            self._thread.start()
            while True:
                try:
                    item = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    return Ending("timeout", gone=self._abandon())
                if item is None:
                    return Ending("stopped", gone=self._abandon())
                if isinstance(item, Ending):
                    return item
                yield ToolOutput(call_id, item[1], item[0])
        except BaseException:  # closed, or interrupted
            self._abandon()
            raise
        finally:
            forget()

    def _main(self) -> None:
        CALLED_BY.set(self._caller)
        try:
            with nullcontext() if self._module is None else captured(self._sink, self._module):
                ending = self._ending()
            self._inbox.put(ending)
        except _Abandoned:  # it hit our own code: nobody waits any more
            pass

    def _ending(self) -> Ending:
        try:
            value = self._work()
            if inspect.iscoroutine(value):
                value = self._awaited(value)
            text = None if value is None else result_text(value)
        except Misfit as fault:  # the arguments
            return Ending("raised", fault=str(fault), printed="".join(self._printed))
        except BaseException as fault:  # SystemExit and KeyboardInterrupt too: they are the code's, not ours
            if self._abandoned:  # nobody waits, and what reads the code's lines would be ended in the middle
                return Ending("raised")
            return Ending("raised", fault=fault_line(fault), trace=_trace(fault), printed="".join(self._printed))
        return Ending("returned", text, printed="".join(self._printed))

    def _awaited(self, coroutine: Coroutine[Any, Any, object]) -> object:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            return runner.run(coroutine)

    def _sink(self, stream: Stream, text: str) -> None:
        if self._abandoned or self._room <= 0 or not text:
            return
        kept = text[: self._room]
        self._room -= len(kept)
        if self._room <= 0:
            kept += _CUT
        if stream == "stdout":
            self._printed.append(kept)
        self._inbox.put((stream, kept))

    def _abandon(self) -> bool:
        """End the thread if possible: Python code at its next step, a coroutine at its next await.

        A C call that doesn't return can't be ended; the thread then dies with the process. True: it is gone.
        """
        self._abandoned = True
        deadline = time.monotonic() + _GRACE_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            loop = self._loop
            if loop is not None:
                with suppress(RuntimeError):  # it has just been closed
                    loop.call_soon_threadsafe(_cancel_all, loop)
            elif (ident := self._thread.ident) is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(_Abandoned))
            self._thread.join(_GRACE_S / 5)
        return not self._thread.is_alive()


def _trace(fault: BaseException) -> str:
    """Where in the user's code it went wrong, for the person at the screen: the model gets one line."""
    try:
        ours = Path(__file__).parent
        frames = [one for one in traceback.extract_tb(fault.__traceback__) if Path(one.filename).parent != ours]
        return "".join(traceback.format_list(frames[-8:]))[-4_000:]
    except Exception:  # a file that isn't text
        return ""


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
