"""The settings, and where each one came from: default < file < environment < flag.

One flat TOML file. Its keys are the long flags with `_` for `-`; the environment has the same names in capitals:

    effort = "high"               # config.toml
    OSSIA_EFFORT=high             # the environment
    ossia run --effort high       # the command line

`OSSIA_CONFIG` names another file, which must exist. An empty variable counts as unset. No secret belongs in the file.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, cast

from cli import paths
from cli._kinds import KINDS, Value


class ConfigError(Exception):
    """A setting can't be used. One line: where it stands, what was expected, what came. The command line exits 2."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. None: not set, the program decides.

    `model` is a path or a name; `engine` "llama" or "script:FILE"; `instructions` a text or "@FILE"; `tools` None is
    the default set; `max_tokens` None is to the end of the context; `temperature` 0 is greedy; `top_k` 0, `top_p` 1.0
    and `min_p` 0.0 are off; `context` in tokens; `timeout` in seconds of the turn.
    """

    model: str | None = None
    engine: str = "llama"
    effort: Literal["low", "medium", "high"] = "medium"
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    no_tools: bool = False
    unconfined: bool = False
    show_thinking: bool = False
    verbose: bool = False
    quiet: bool = False
    raw: bool = False
    json: bool = False
    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    context: int | Literal["max"] | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings that hold, and for each key where it came from.

    `origins["effort"]` is `"default"`, `"file /home/me/.config/ossia/config.toml"`, `"OSSIA_EFFORT"` or `"--effort"`.
    `warnings` are lines for stderr: variables that look like ours and aren't.
    """

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source: its values, checked, and how it is named for a key."""

    values: Mapping[str, Value]
    origin: Callable[[str], str]


def config_path(environ: Mapping[str, str]) -> Path:
    """The file in use: `OSSIA_CONFIG`'s, else the platform's place for it."""
    named = environ.get("OSSIA_CONFIG")
    return Path(named).expanduser() if named else paths.config_file()


def resolve(flags: Mapping[str, object], *, environ: Mapping[str, str], path: Path | None = None) -> Resolved:
    """The settings that hold for one run.

    `flags` are the command line's, by key (`{"effort": "high", "top_k": None}`): None and an empty list mean "not
    given"; a text is read as the environment's would be. `path` None: `OSSIA_CONFIG`, else the usual place, where the
    file may be missing; a file that was named must exist. Raises ConfigError.
    """
    variables = {name: value for name, value in environ.items() if name.startswith("OSSIA_") and value}
    layers = (
        _file_layer(path or config_path(environ), must_exist=path is not None or "OSSIA_CONFIG" in variables),
        _environment_layer(variables),
        _flag_layer(flags),
    )
    values: dict[str, Value] = {}
    origins = {spec.name: "default" for spec in fields(Settings)}
    for layer in layers:
        for rival, loser in _RIVALS:
            if layer.values.get(rival) and loser not in layer.values and values.pop(loser, None):
                origins[loser] = layer.origin(rival)
        values |= layer.values
        origins |= {key: layer.origin(key) for key in layer.values}
    return Resolved(Settings(**cast("dict[str, object]", values)), origins, _unknown_variables(variables))  # type: ignore[arg-type]


# `--tools python` beats a `no_tools` of the file, though `no_tools` wins over `tools` of its own layer.
_RIVALS = (("tools", "no_tools"), ("quiet", "verbose"), ("verbose", "quiet"), ("raw", "json"), ("json", "raw"))


def _checked(key: str, value: object, where: str) -> Value:
    """A typed value: from the file, or from a flag that is typed."""
    try:
        return _home_expanded(key, KINDS[key].check(value))
    except ValueError:
        raise ConfigError(f"{where}: expected {KINDS[key].expected}, came {value!r}") from None


def _read(key: str, text: str, where: str) -> Value:
    """A value that comes as text: from the environment, or from a flag that isn't typed."""
    try:
        return _home_expanded(key, KINDS[key].check(KINDS[key].read(text)))
    except ValueError:
        raise ConfigError(f"{where}: expected {KINDS[key].expected}, came {text!r}") from None


def _home_expanded(key: str, value: Value) -> Value:
    """`~/…` in a path: a shell expands it on the command line only."""
    if key == "model" and isinstance(value, str) and value.startswith("~"):
        return str(Path(value).expanduser())
    if key == "instructions" and isinstance(value, str) and value.startswith("@~"):
        return f"@{Path(value[1:]).expanduser()}"
    return value


def _file_layer(path: Path, *, must_exist: bool) -> _Layer:
    table = _load(path, must_exist=must_exist)
    unknown = [key for key in table if key not in KINDS]
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]!r} is not a setting{_nearest(unknown[0].replace('-', '_'), KINDS)}")
    values = {key: _checked(key, value, f"{path}: {key}") for key, value in table.items()}
    return _Layer(values, lambda key: f"file {path}")


def _load(path: Path, *, must_exist: bool) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):  # a home of /dev/null, as services have it, is none
        if must_exist:
            raise ConfigError(f"{path}: there is no such config file") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise ConfigError(f"{path}: can't read the config file: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: expected TOML: {error}") from error


def _environment_layer(variables: Mapping[str, str]) -> _Layer:
    names = {_variable(key): key for key in KINDS}
    given = {names[name]: (name, text) for name, text in variables.items() if name in names}
    return _Layer({key: _read(key, text, name) for key, (name, text) in given.items()}, _variable)


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    given = {key: value for key, value in flags.items() if value is not None and value not in ([], ())}
    values = {
        key: _read(key, value, _flag(key)) if isinstance(value, str) else _checked(key, value, _flag(key))
        for key, value in given.items()
    }
    return _Layer(values, _flag)


def _variable(key: str) -> str:
    return f"OSSIA_{key.upper()}"


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _unknown_variables(variables: Mapping[str, str]) -> tuple[str, ...]:
    """A warning each, not an error: the environment is shared with programs and versions we know nothing of."""
    known = ["OSSIA_CONFIG", *map(_variable, KINDS)]
    return tuple(f"{name} is not a setting{_nearest(name, known)}" for name in variables if name not in known)


def _nearest(name: str, known: Iterable[str]) -> str:
    """`": did you mean 'effort'?"`, or how to see all of them when nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else ": `ossia config show` lists them all"
