"""The kinds of values that settings hold: their checks, and reading them from a text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, cast

from ossia.cli import paths

BARE_ADDRESS = re.compile(r"[A-Za-z0-9_.-]+:\d{1,5}(?:/[^\s@]*)?\Z|\[[0-9A-Fa-f:.]+\]:\d{1,5}(?:/[^\s@]*)?\Z")
"""An address, but for its `http://`."""
ENGINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
"""A server's name in the config file."""
# An address, in which no password stands.
_SERVER = re.compile(r"https?://[^\s@]+\Z", re.IGNORECASE)

Value = str | int | float | bool | tuple[str, ...] | None
"""The stored value of a setting. None: not set."""


class Advice(ValueError):
    """A value can't be taken; the text says what to do instead, and repeats nothing of it."""


class ValueKind(NamedTuple):
    """The values of a setting: `expected` in words, the check of a typed value, and the reading of a text.

    `check` returns the value to store, `read` what to check; both may raise ValueError, or `Advice`. `flag` is the type
    that the command line gives: bool for a flag without a value, `list[str]` for one that can be repeated; a str goes
    through `read` like any other text. `shown`: an error may repeat the value. `words`: values of it that are words.
    """

    expected: str
    check: Callable[[object], Value]
    read: Callable[[str], object] = str
    flag: type = str
    shown: bool = True
    words: tuple[str, ...] = ()


def _fail() -> NoReturn:
    raise ValueError


def switch() -> ValueKind:
    """True or false."""
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    return ValueKind(
        "true or false",
        lambda value: value if isinstance(value, bool) else _fail(),
        lambda text: words.get(text.lower(), text),
        flag=bool,
        words=("true", "false"),
    )


def text() -> ValueKind:
    """Any text but an empty one."""
    return ValueKind("non-empty text", _checked_text)


def path() -> ValueKind:
    """A text that may be a path: its `~` is expanded, since a shell does that on the command line only."""
    return ValueKind("non-empty text", lambda value: _at_home(_checked_text(value)))


def text_or_file() -> ValueKind:
    """A text, or `@FILE`, whose `~` is expanded."""

    def check(value: object) -> Value:
        given = _checked_text(value)
        return f"@{_at_home(given[1:])}" if given.startswith("@") else given

    return ValueKind("non-empty text", check)


def one_of(*choices: str) -> ValueKind:
    """One of some words."""
    expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return ValueKind(
        expected, lambda value: value if isinstance(value, str) and value in choices else _fail(), words=choices
    )


def on_or_off() -> ValueKind:
    """Stored as "on" or "off"; the file may also say true or false, and a flag always does."""

    def check(value: object) -> Value:
        if isinstance(value, bool):
            return "on" if value else "off"
        return value if isinstance(value, str) and value in ("on", "off") else _fail()

    return ValueKind("on or off", check, flag=bool, words=("on", "off"))


def engine() -> ValueKind:
    """`llama`, a script that is replayed, a server's address, or the name of one that the config file has."""

    def check(value: object) -> Value:
        known = isinstance(value, str) and (
            ENGINE_NAME.match(value) or _SERVER.match(value) or (value.startswith("script:") and value != "script:")
        )
        if isinstance(value, str) and not known:
            if BARE_ADDRESS.match(value):
                raise Advice("put http:// before an address")
            if "://" in value and "@" in value:
                raise Advice("no name or password may stand in an address; [engines.NAME] has key_env for a key")
        return cast(str, value) if known else _fail()

    return ValueKind("llama, script:FILE, http://HOST:PORT or the NAME of an [engines.NAME]", check, shown=False)


def whole(at_least: int, *words: str) -> ValueKind:
    """A whole number, or one of `words`."""

    def check(value: object) -> Value:
        if isinstance(value, str) and value in words:
            return value
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= at_least else _fail()

    expected = " or ".join([f"a whole number of at least {at_least}", *words])
    return ValueKind(
        expected, check, lambda text: text if text in words else int(text), flag=str if words else int, words=words
    )


def thinking() -> ValueKind:
    """A number of tokens, or one for some of the efforts: `"low=500,high=8000"`."""
    word = re.compile(r"(low|medium|high)=([1-9]\d{0,8})")

    def check(value: object) -> Value:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        found = [word.fullmatch(part.strip()) for part in value.split(",")] if isinstance(value, str) else [None]
        limits = {match[1]: match[2] for match in found if match}
        return ",".join(f"{key}={limits[key]}" for key in limits) if len(limits) == len(found) else _fail()

    expected = "a whole number of at least 1, or one for each effort, e.g. low=500,high=8000"
    return ValueKind(expected, check, lambda text: int(text) if text.isdecimal() else text, flag=str)


def thinking_limit(value: int | str | None, effort: str) -> int | None:
    """The limit that holds for an effort: `thinking_limit("low=500,high=8000", "high")` is 8000."""
    if not isinstance(value, str):
        return value
    return {key: int(number) for key, _, number in (part.partition("=") for part in value.split(","))}.get(effort)


def number(expected: str, holds: Callable[[float], bool]) -> ValueKind:
    """A finite number for which `holds` is true."""

    def check(value: object) -> Value:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        given = float(cast(float, value)) if is_number else _fail()
        return given if math.isfinite(given) and holds(given) else _fail()

    return ValueKind(expected, check, float, flag=float)


def names() -> ValueKind:
    """A list of names, or of files, whose `~` is expanded. Each entry may itself be a list with commas.

    `"weather.py:look,tell,python"` is stored as `("weather.py:look", "weather.py:tell", "python")`.
    """

    def check(value: object) -> Value:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            return _fail()
        found: list[str] = []
        for entry in value:
            source = ""
            for name in map(str.strip, entry.split(",")):
                source = _source_behind(name) or (source if name.isidentifier() and name not in _TRAINED else "")
                found.append(name if not source or ":" in name else f"{source}:{name}")
        return tuple(map(_at_home, dict.fromkeys(found))) if found and all(found) else _fail()

    expected = "a list of names, e.g. python, browser or FILE.py"
    return ValueKind(expected, check, lambda text: [text], flag=list[str], words=_TRAINED)


_TRAINED = ("python", "browser")  # as `tools.build` has them, which takes too long to import


def _source_behind(name: str) -> str:
    return source_and_function(name)[0] if source_and_function(name)[1] else ""


def source_and_function(name: str) -> tuple[str, str]:
    """The two parts of an entry of `tools`, the second "" for all functions.

    `source_and_function("~/weather.py:look")` is `("~/weather.py", "look")`, of `"python"` it is `("python", "")`.
    """
    source, colon, function = name.rpartition(":")
    is_part = colon and not name.endswith(".py") and (source.endswith(".py") or function.isidentifier())
    return (source, function) if is_part and source else (name, "")


def variable() -> ValueKind:
    """The name of an environment variable; a key that was pasted by mistake doesn't look like one."""

    def check(value: object) -> Value:
        return value if isinstance(value, str) and re.fullmatch(r"[A-Z_][A-Z0-9_]*", value) else _fail()

    return ValueKind("the name of an environment variable in capitals, never the key itself", check, shown=False)


def texts(expected: str) -> ValueKind:
    """A list of texts. They aren't split at commas, since a rule may hold one; in the environment, each is a line."""

    def check(value: object) -> Value:
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) and entry.strip() for entry in value):
            return _fail()
        return tuple(dict.fromkeys(entry.strip() for entry in value))

    return ValueKind(expected, check, lambda text: [line for line in text.splitlines() if line.strip()], flag=list[str])


def folders() -> ValueKind:
    """A list of folders, whose `~` is expanded; in the environment, each is a line."""
    listed = texts("a list of folders, e.g. ~/data")
    return listed._replace(check=lambda value: tuple(map(_at_home, cast("tuple[str, ...]", listed.check(value)))))


def _checked_text(value: object) -> str:
    return value if isinstance(value, str) and value else _fail()


def _at_home(name: str) -> str:
    if not name.startswith("~"):
        return name
    return str(paths.expanded(name))
