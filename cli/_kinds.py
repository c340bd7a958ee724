"""What each setting may hold, and how it is read from a text. (`cli.config` says where settings come from.)"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

Value = str | int | float | bool | tuple[str, ...] | None
"""What a setting is kept as. None: not set."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key may hold: `expected` in words, the check of a typed value, and how a text is read.

    `check` and `read` return the value as it is kept, or raise ValueError. `shown`: an error may repeat what came.
    """

    expected: str
    check: Callable[[object], Value]
    read: Callable[[str], object] = str
    shown: bool = True

    def came(self, value: object) -> str:
        """What came in the value's place, for an error: `came 'hgih'`."""
        return f"came {value!r}" if self.shown else "something else came"


def _fail() -> NoReturn:
    raise ValueError


def _switch() -> Kind:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    return Kind(
        "true or false",
        lambda value: value if isinstance(value, bool) else _fail(),
        lambda text: words.get(text.lower(), text),
    )


def _text() -> Kind:
    return Kind("a text", lambda value: value if isinstance(value, str) and value else _fail())


def _one_of(*choices: str) -> Kind:
    expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return Kind(expected, lambda value: value if isinstance(value, str) and value in choices else _fail())


def _on_or_off() -> Kind:
    """Kept as the words; a file may have true and false, and so has a flag."""

    def check(value: object) -> Value:
        if isinstance(value, bool):
            return "on" if value else "off"
        return value if isinstance(value, str) and value in ("on", "off") else _fail()

    return Kind("on or off", check)


def _engine() -> Kind:
    def check(value: object) -> Value:
        known = isinstance(value, str) and (value == "llama" or (value.startswith("script:") and value != "script:"))
        return cast(str, value) if known else _fail()

    return Kind("llama or script:FILE", check)


def _whole(at_least: int, *words: str) -> Kind:
    """A whole number, or one of `words` in its place."""

    def check(value: object) -> Value:
        if isinstance(value, str) and value in words:
            return value
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= at_least else _fail()

    expected = " or ".join([f"a whole number from {at_least} on", *words])
    return Kind(expected, check, lambda text: text if text in words else int(text))


def _number(expected: str, holds: Callable[[float], bool]) -> Kind:
    """A number for which `holds` is true. It is False for NaN wherever it compares."""

    def check(value: object) -> Value:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(cast(float, value)) if is_number and holds(cast(float, value)) else _fail()

    return Kind(expected, check, float)


def _names() -> Kind:
    """A list of names. Each entry may itself be a list with commas, since the flag can be repeated."""

    def check(value: object) -> Value:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            return _fail()
        names = [name.strip() for entry in value for name in entry.split(",")]
        return tuple(dict.fromkeys(names)) if names and all(names) else _fail()

    return Kind("a list of names, e.g. python, browser or FILE.py", check, lambda text: [text])


def _variable() -> Kind:
    """The name of an environment variable; a key that was pasted in its place doesn't look like one."""

    def check(value: object) -> Value:
        return value if isinstance(value, str) and re.fullmatch(r"[A-Z_][A-Z0-9_]*", value) else _fail()

    return Kind("the name of an environment variable in capitals, never the key itself", check, shown=False)


def _texts(expected: str) -> Kind:
    """A list of texts, each as it is: a rule may hold a comma. In the environment, a line each."""

    def check(value: object) -> Value:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) and entry.strip() for entry in value):
            return _fail()
        return tuple(dict.fromkeys(entry.strip() for entry in value))

    return Kind(expected, check, lambda text: [line for line in text.splitlines() if line.strip()])


_INFINITY = float("inf")

KINDS: Mapping[str, Kind] = {
    "model": _text(),
    "engine": _engine(),
    "effort": _one_of("low", "medium", "high"),
    "instructions": _text(),
    "tools": _names(),
    "no_tools": _switch(),
    "workspace": _text(),
    "trust": _switch(),
    "allow": _texts("a list of rules, e.g. 'shell:git status*'"),
    "deny": _texts("a list of rules, e.g. 'shell:git push*'"),
    "yes": _switch(),
    "strict_approvals": _switch(),
    "dry_run": _switch(),
    "web": _text(),
    "web_key": _variable(),
    "web_url": _text(),
    "allow_host": _texts("a list of hosts, e.g. 'intranet:8080'"),
    "proxy": _text(),
    "python": _text(),
    "unconfined": _switch(),
    "show_thinking": _switch(),
    "verbose": _switch(),
    "quiet": _switch(),
    "raw": _switch(),
    "json": _switch(),
    "guide": _on_or_off(),
    "max_tokens": _whole(1),
    "temperature": _number("a number from 0 on", lambda number: 0 <= number < _INFINITY),
    "top_p": _number("a number above 0, up to 1", lambda number: 0 < number <= 1),
    "top_k": _whole(0),
    "min_p": _number("a number from 0 to 1", lambda number: 0 <= number <= 1),
    "seed": _whole(0),
    "context": _whole(1, "max"),
    "threads": _whole(1),
    "gpu_layers": _whole(0),
    "repack": _one_of("auto", "on", "off"),
    "timeout": _number("a number of seconds above 0", lambda number: 0 < number < _INFINITY),
    "think": _one_of("off", "on", "peek"),
    "bell": _number("a number of seconds, 0 for never", lambda number: 0 <= number < _INFINITY),
    "vi": _switch(),
    "prefill_ahead": _one_of("auto", "on", "off"),
    "private": _switch(),
}
