"""The user's own functions as tools: of a file (`--tools FILE.py`), of a package, of a program that imports ossia.

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

import json
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ossia.tools.functions import FunctionsInvalid, _inspect, _load
from ossia.tools.functions._inspect import bounded
from ossia.tools.functions._threaded import Ending, ThreadedCall
from ossia.tools.functions.naming import PREFIX, Loaded, name_warning, offered_name, plain_name, without_duplicates
from ossia.tools.saying import function_line
from ossia.tools.spec import Preview, Stop, Tool, ToolContext, ToolOutput, ToolResult, ToolSpec, interrupted
from ossia.tools.text import one_line

ENTRY_POINTS = "ossia.tools"
_log = logging.getLogger("ossia")


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


def tools_of(functions: Sequence[Callable[..., object]], *, timeout_s: float = 120.0) -> tuple[Tool, ...]:
    """The functions of a program as tools, under their own names: each a `def`, an `async def`, or an object's method.

    Their output isn't caught, unlike a file's: they print where the program prints. What they raise is logged with its
    place ("ossia"). Raises `FunctionsInvalid`, with all faults in one line, if one of them can't be a tool.

        tools_of([weather])[0].spec.name  →  "functions.weather"
    """
    named: dict[str, Callable[..., object]] = {}
    for function in functions:
        if not _load.is_function(function) or function.__name__ == "<lambda>":
            came = one_line(repr(function), 100)
            raise FunctionsInvalid(f"tools: expected functions with type hints (def), not {came}")
        name = function.__name__
        if name in named:
            raise FunctionsInvalid(f"tools: two functions are called {name!r}: rename one of them")
        named[name] = function
    try:
        loaded = _as_tools(named, list(named), "", "this program", timeout_s, caught=False)
    except FunctionsInvalid as fault:
        raise FunctionsInvalid(f"tools: {fault}") from None
    for name in named:
        if offered_name(name) != name:
            why = "is gpt-oss's own" if plain_name(name) == name else "has other characters than A-Z, 0-9, _"
            raise FunctionsInvalid(f"tools: the name {name!r} {why}: rename the function")
    return loaded.tools


def _as_tools(
    functions: Mapping[str, Callable[..., Any]],
    names: Sequence[str],
    where: str,
    origin: str,
    timeout_s: float,
    *,
    caught: bool = True,
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
        tool = UserFunction(inspected, name=offered_name(name), origin=origin, timeout_s=timeout_s, caught=caught)
        tools.append(tool)
        if warning := name_warning(name, where):
            warnings.append(warning)
    if skipped and (names or not tools):
        raise FunctionsInvalid("; ".join(f"{name} can't be a tool: {fault}" for name, fault in skipped.items()))
    warnings += [f"{name} is skipped: {fault}" for name, fault in skipped.items()]
    unique = without_duplicates(tools)
    return Loaded(unique.tools, (*warnings, *unique.warnings), skipped)


class UserFunction:
    """One function as a tool. `timeout_s` is for a call; code that doesn't end by then is abandoned.

    If it returns None, the result is what it printed, or `null`; it counts as printed if its output is `caught`. What
    it raises (`sys.exit` too) becomes one line of text.
    """

    def __init__(
        self, inspected: _inspect.Inspected, *, name: str, origin: str, timeout_s: float, caught: bool
    ) -> None:
        self._function, self._timeout_s = inspected, timeout_s
        self._module = inspected.module if caught else None
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

        thread = ThreadedCall(work, module=self._module)
        ending = yield from thread.run(call_id=call_id, stop=context.stop, timeout_s=self._timeout_s)
        if ending.trace:
            yield ToolOutput(call_id, ending.trace, "stderr")
            if self._module is None:
                _log.warning("%s failed: %s\n%s", self.spec.name, ending.fault, ending.trace)
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
