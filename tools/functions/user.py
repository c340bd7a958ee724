"""The user's own functions as tools: from a file (`--tools FILE.py`), or from a package named in the config.

They are the user's code: run in our interpreter, unconfined, each call on a thread of its own, and allowed unless a
rule or taint says otherwise.

    def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, object]:
        \"\"\"The weather of a city now.\"\"\"

    get_weather.effects = {"read"}      # it only looks: it isn't asked about while outside text is in the prompt
    get_weather.taints = {"outside"}    # what it returns was written by others; set() for harmless text

Without these a function counts as one that runs something (`effects` `{"run"}`), and what it returns as the user's own
(`taints` `{"private"}`): a web search after it asks, since it could carry that away.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import json
import queue
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ossia.tools.calls.coerce import Misfit
from ossia.tools.functions import FunctionsInvalid, _inspect, _load
from ossia.tools.functions._capture import Stream, captured
from ossia.tools.functions._inspect import bounded, fault_line, result_text
from ossia.tools.functions.naming import PREFIX, Loaded, name_warning, offered_name, without_duplicates
from ossia.tools.saying import function_line
from ossia.tools.spec import Preview, Stop, Tool, ToolContext, ToolOutput, ToolResult, ToolSpec, interrupted

ENTRY_POINTS = "ossia.tools"
_MAX_FAULT_CHARS = 600
MAX_PRINTED_CHARS = 200_000
_GRACE_S = 0.5
_CUT = f"\n[... what it printed after {MAX_PRINTED_CHARS} characters is left out]\n"


def load_functions(
    path: Path, *, names: Sequence[str] = (), files: Mapping[str, bytes] | None = None, timeout_s: float = 120.0
) -> Loaded:
    """The public functions of a file, run once with its folder importable, as a script would be; of `names`, if any.

    `files`: sources by absolute path, used instead of the disk, for the modules of its folder too. Public: the names in
    its `__all__`, else its own functions without a leading `_`. One that can't be a tool is skipped. Raises
    `FunctionsInvalid`: the file is missing or fails, no function is left, or one of `names` is missing or skipped.

        load_functions(Path("weather.py")).tools[0].spec.name  →  "functions.get_weather"
    """
    module, printed = _load.run_file(path, files)
    with _load.refused(path.name):
        functions = _load.public_functions(module, path.name)
        if not functions:
            raise FunctionsInvalid(f"{path}: it defines no public function that a model could call")
        loaded = _as_tools(functions, names, path.name, f"file {path.name}", timeout_s)
    said = (f"{path.name} printed while it was loaded: {printed}",) if printed else ()
    return replace(loaded, warnings=loaded.warnings + said)


def load_entry_point(name: str, *, names: Sequence[str] = (), timeout_s: float = 120.0) -> Loaded:
    """The functions of this entry point in the group `ossia.tools` of installed packages; of `names`, if any.

    An entry point is a function, a list of functions, or a module (its public functions). Raises `FunctionsInvalid` as
    `load_functions` does.
    """
    with _load.refused(f"{ENTRY_POINTS} entry point {name!r}"):
        functions, distribution = _load.entry_point(ENTRY_POINTS, name)
        return _as_tools(functions, names, name, f"package {distribution}", timeout_s)


def _as_tools(
    functions: Mapping[str, Callable[..., Any]], names: Sequence[str], where: str, origin: str, timeout_s: float
) -> Loaded:
    tools: list[Tool] = []
    warnings: list[str] = []
    skipped: dict[str, str] = {}
    for name, function in _load.chosen(functions, names, where).items():
        place = _load.place_of(function, where)
        try:
            with _load.refused("its declaration fails"):
                inspected = _inspect.inspect_function(function)
        except FunctionsInvalid as fault:
            skipped[name] = f"{place}: {fault}"
            continue
        tools.append(UserFunction(inspected, name=offered_name(name), origin=origin, timeout_s=timeout_s))
        if warning := name_warning(name, where):
            warnings.append(warning)
    if skipped and (names or not tools):
        raise FunctionsInvalid("; ".join(f"{name} can't be a tool: {fault}" for name, fault in skipped.items()))
    warnings += [f"{name} is skipped: {fault}" for name, fault in skipped.items()]
    unique = without_duplicates(tools)
    return Loaded(unique.tools, (*warnings, *unique.warnings), skipped)


class UserFunction:
    """One function as a tool. `timeout_s` is for a call; code that doesn't end by then is abandoned.

    If it returns None, the result is what it printed, or `null`. What it raises (`sys.exit` too) becomes one line of
    text.
    """

    def __init__(self, inspected: _inspect.Inspected, *, name: str, origin: str, timeout_s: float) -> None:
        self._function, self._timeout_s = inspected, timeout_s
        self.spec = ToolSpec(
            PREFIX + name,
            inspected.description,
            inspected.parameters,
            effects=inspected.effects,
            provenance="user",
            origin=origin,
            result_taints=inspected.taints,
        )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        detail = json.dumps(_dict(args), ensure_ascii=False, indent=2) if args else ""
        return Preview(function_line(self.spec.name.removeprefix(PREFIX), _dict(args)), detail, "json")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        def work() -> object:
            positional, named = self._function.bound(_dict(args))
            return self._function.call(*positional, **named)

        thread = ThreadedCall(work, module=self._function.module)
        ending = yield from thread.run(call_id=call_id, stop=context.stop, timeout_s=self._timeout_s)
        if ending.trace:
            yield ToolOutput(call_id, ending.trace, "stderr")
        return self._result(ending, context.stop)

    def close(self) -> None:
        """There is nothing to release."""

    def _result(self, ending: Ending, stop: Stop) -> ToolResult:
        still = "" if ending.gone else "; it could not be ended and still runs"
        if ending.how == "stopped":
            return ToolResult(f"[{interrupted(stop)}]{still}", error=True)
        if ending.how == "timeout":
            what = f"Error: {self.spec.name} did not end within {self._timeout_s:g} seconds"
            return ToolResult(f"{what}{still}. Ask for less, or choose another way.", error=True)
        if ending.how == "raised":
            return ToolResult(f"Error: {self.spec.name}: {ending.fault}", error=True)
        if ending.text is None:
            return ToolResult(bounded(ending.printed.rstrip("\n")) or "null")
        return ToolResult(ending.text)


def _dict(args: object) -> Mapping[str, object]:
    return args if isinstance(args, dict) else {}


# -- a call on a thread of its own: output comes as it is printed, and nobody waits for ever ---------------------------


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

    `module` is the name of the module whose output counts as the code's.
    """

    def __init__(self, work: Callable[[], object], *, module: str) -> None:
        self._work, self._module = work, module
        self._inbox: queue.SimpleQueue[tuple[Stream, str] | Ending | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="ossia-function", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room = MAX_PRINTED_CHARS
        self._printed: list[str] = []
        self._abandoned = False

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
        try:
            with captured(self._sink, self._module):
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
        frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if frame.filename != __file__]
        return "".join(traceback.format_list(frames[-8:]))[-4_000:]
    except Exception:  # a file that isn't text
        return ""


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()
