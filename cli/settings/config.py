"""The values of the settings and their origins: default < file < environment < flag. `table` declares them.

One TOML file. Its keys are the long flags with `_` for `-`; the environment has the same names in capitals:

    effort = "high"               # config.toml
    OSSIA_EFFORT=high             # the environment
    ossia run --effort high       # the command line

`OSSIA_CONFIG` names another file, which must exist. An empty variable counts as unset. No secret belongs in the file.

It may also hold tables: `[approvals]`, whose entries are `"container.exec:git status*" = "auto"` (`ask`, `never`),
`[mcpServers.NAME]` (`cli.settings.mcp`), and `[engines.NAME]` (`cli.settings.engines`). A trusted workspace's
`.ossia/config.toml` may hold the first two and `tools`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.settings.kinds import Advice, Value, source_and_function
from ossia.cli.settings.table import SETTINGS, Settings
from ossia.tools.approval.needs import NEEDS, listed
from ossia.tools.approval.rules import ACTIONS
from ossia.tools.files import read_own

if TYPE_CHECKING:
    from ossia.tools.approval.trust import Offer

_MAX_LEVELS, _MAX_DOTS = 32, 200


class ConfigError(ExitError):
    """A setting can't be used. Its message is one line: where the setting is, what it must be, what it is."""


MCP_TABLE = "mcpServers"
ENGINES_TABLE = "engines"
TABLES = ("approvals", MCP_TABLE, ENGINES_TABLE)
"""The tables of the file, besides the settings."""
THIS_CHAT = "this chat"
"""The origin of a setting that was set by a command of the chat."""
BY_SKILL = "skill "
"""Begins the origin of a setting that a skill of `ossia run` made: `"skill review"`."""
FAMILIES = ("browser", "container", "functions", "repo_browser")
FOLDER_CONFIG = Path(".ossia", "config.toml")
"""The settings of a workspace, inside it. They count only once the user trusts the folder."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings in force, and the origin of each.

    `origins["effort"]` is `"default"`, `"file /home/me/.config/ossia/config.toml"`, `"OSSIA_EFFORT"` or `"--effort"`.
    `approvals` are the rules of the file, as they are written: `("container.exec:git*", "auto")`; `folder_approvals`
    are those of a trusted workspace.
    `warnings` are lines for stderr: variables that look like settings and aren't. `only`: of the tools, only these are
    offered, ("python", "browser"); None: all.
    """

    settings: Settings
    origins: Mapping[str, str]
    approvals: tuple[tuple[str, str], ...] = ()
    folder_approvals: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of values: those values, checked, and the name of the source for each key."""

    values: Mapping[str, Value]
    origin: Callable[[str], str]
    approvals: tuple[tuple[str, str], ...] = ()


def config_path(environ: Mapping[str, str]) -> Path:
    """The file in use: `OSSIA_CONFIG`'s, else the platform's place for it."""
    named = environ.get("OSSIA_CONFIG")
    return paths.expanded(named) if named else paths.config_file()


def resolve(
    flags: Mapping[str, object], *, environ: Mapping[str, str], path: Path | None = None, folder: Offer | None = None
) -> Resolved:
    """The settings in force for one run.

    `flags` are the command line's, by key (`{"effort": "high", "top_k": None}`): None and an empty list mean "not
    given"; a text is read like a variable of the environment. `path` None: the file that `OSSIA_CONFIG` names, else
    the one in the usual place, which may be missing; a file that was named must exist. `folder` is a trusted workspace:
    its `.ossia/config.toml` comes between the file and the environment. Raises ConfigError.
    """
    variables = {name: value for name, value in environ.items() if name.startswith("OSSIA_") and value}
    config = path or config_path(environ)
    file = _layer(config, load(config, must_exist=path is not None or "OSSIA_CONFIG" in variables))
    own = _folder_layer(folder) if folder else _Layer({}, str)
    layers = (file, own, _environment_layer(variables), _flag_layer(flags))
    values: dict[str, Value] = {}
    origins = dict.fromkeys(SETTINGS, "default")
    for layer in layers:
        for key, value in layer.values.items():
            other = SETTINGS[key].replaces
            if value and other and other not in layer.values and values.pop(other, None):
                origins[other] = layer.origin(key)
        values |= layer.values
        origins |= {key: layer.origin(key) for key in layer.values}
    settings = Settings(**cast("dict[str, object]", values))  # type: ignore[arg-type]
    return Resolved(settings, origins, file.approvals, own.approvals, _unknown_variables(variables))


def checked(key: str, value: object, where: str, *, as_text: bool = False) -> Value:
    """The value to store. `as_text`: it comes from the environment, or from a flag that isn't typed."""
    kind = SETTINGS[key].kind
    try:
        return kind.check(kind.read(str(value)) if as_text else value)
    except ValueError as error:
        came = f", not {value!r}" if kind.shown else ""
        advice = f": {error}" if isinstance(error, Advice) else ""
        raise ConfigError(f"{where}: must be {kind.expected}{came}{advice}") from None


def _layer(path: Path, whole: Mapping[str, object]) -> _Layer:
    table = dict(whole)
    approvals = _approvals(table.pop("approvals", {}), path)
    for name in TABLES:
        table.pop(name, None)  # read by `cli.settings.mcp` and `cli.settings.engines`
    unknown = [key for key in table if key not in SETTINGS]
    if unknown:
        near = nearest(unknown[0].replace("-", "_"), [*SETTINGS, *TABLES])
        raise ConfigError(f"{path}: {unknown[0]!r} is not a setting{near}")
    values = {key: checked(key, value, f"{path}: {key}") for key, value in table.items()}
    if "tools" in values:
        values["tools"] = _beside(path.parent, values["tools"])
    return _Layer(values, lambda key: f"file {path}", approvals)


def _folder_layer(folder: Offer) -> _Layer:
    """A workspace's own settings: few, since whoever wrote them isn't asked again."""
    path = folder.root / FOLDER_CONFIG
    table = parsed(folder.files.get(FOLDER_CONFIG.as_posix(), b""), path)
    layer = _layer(path, table)
    extra = [key for key in layer.values if key != "tools"]
    extra += [ENGINES_TABLE] if ENGINES_TABLE in table else []
    if extra:
        raise ConfigError(f"{path}: {extra[0]!r} can't be set by a workspace, only tools, approvals and {MCP_TABLE}")
    for name in cast("tuple[str, ...]", layer.values.get("tools", ())):
        source, _ = source_and_function(name)
        if source.endswith(".py") and folder.name_of(Path(source)) is None:
            raise ConfigError(f"{path}: tools: must be files in {path.parent}, which you trusted, not {source!r}")
    return layer


def _beside(folder: Path, tools: Value) -> Value:
    """The tools with the files among them found beside the config that names them, wherever the command is run."""
    names = cast("tuple[str, ...]", tools)
    return tuple(str(folder / name) if source_and_function(name)[0].endswith(".py") else name for name in names)


def _approvals(table: object, path: Path) -> tuple[tuple[str, str], ...]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: approvals: must be a table, not {table!r}")
    flat = flat_rules(table)
    for rule, action in flat.items():
        if not isinstance(action, str) or action not in ACTIONS:
            needs = 'or { action = "auto", network = true } (git, unconfined)'
            raise ConfigError(f"{path}: approvals: {rule}: must be one of {', '.join(ACTIONS)} {needs}, not {action!r}")
    return tuple((rule, str(action)) for rule, action in flat.items())


def flat_rules(table: Mapping[str, object]) -> dict[str, object]:
    """The rules of `[approvals]`: `{"python": "ask", "weather:Oslo*": "auto"}`, however the table nests them.

    Somebody may write `{"weather": {"Oslo*": "auto"}}`, and TOML nests `container.exec = "never"` by itself.
    `{"container.exec:uv sync": {"action": "auto", "network": True}}` is the rule `container.exec[network]:uv sync`.
    """
    flat: dict[str, object] = {}
    for name, value in table.items():
        own: dict[str, object] = {name: value}
        if name in FAMILIES and isinstance(value, dict):
            own = {f"{name}.{inner}": at for inner, at in value.items()}
        for tool, action in own.items():
            entries = {tool: action}
            if isinstance(action, dict) and "action" not in action:
                entries = {f"{tool}:{pattern}": at for pattern, at in action.items()}
            flat |= dict(map(_giving, entries, entries.values()))
    return flat


def _giving(rule: str, value: object) -> tuple[str, object]:
    """The rule and its action; of a table, with what it gives."""
    if not isinstance(value, dict) or not value.keys() <= {"action", *NEEDS}:
        return rule, value
    needs = [need for need in NEEDS if value.get(need, False) is not False]
    if any(value[need] is not True for need in needs):
        return rule, value
    name, colon, pattern = rule.partition(":")
    return f"{name}[{listed(needs)}]{colon}{pattern}" if needs else rule, value["action"]


def load(path: Path, *, must_exist: bool) -> Mapping[str, object]:
    """The content of the file, unchecked; {} for a missing file that needn't exist. Raises ConfigError."""
    try:
        return parsed(content_of(path), path)
    except (FileNotFoundError, NotADirectoryError):  # a service's home may be /dev/null: it has no file
        if must_exist:
            raise ConfigError(f"{path}: there is no such config file") from None
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: can't read the config file: {error.strerror}") from error


def content_of(path: Path) -> bytes:
    """The bytes of a config file: the user's own, unless `OSSIA_CONFIG` named another one. Raises OSError."""
    try:
        usual = paths.config_file().parent
    except ExitError:  # this user has no home
        return path.read_bytes()
    return read_own(path) if path.parent == usual else path.read_bytes()


def parsed(content: bytes, path: Path) -> Mapping[str, object]:
    """The bytes of a TOML file, parsed. Raises ConfigError."""
    try:
        text = content.decode()
        if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):  # tomllib takes a minute for 50,000
            raise RecursionError
        value = tomllib.loads(text)
        require_shallow(value)
        return value
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: can't read the config file: it isn't UTF-8") from None
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{path}: not valid TOML: {why}") from error


def require_shallow(value: object) -> None:
    """Raise RecursionError for tables and lists in over 32 levels, which parsers take and nothing else does."""
    level = [value]
    for _ in range(_MAX_LEVELS):
        tables = [list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [inner for table in tables for inner in table]
    if level:
        raise RecursionError


def _environment_layer(variables: Mapping[str, str]) -> _Layer:
    names = {one.variable: key for key, one in SETTINGS.items()}
    given = {names[name]: text for name, text in variables.items() if name in names}
    values = {key: checked(key, text, SETTINGS[key].variable, as_text=True) for key, text in given.items()}
    return _Layer(values, lambda key: SETTINGS[key].variable)


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    values: dict[str, Value] = {}
    for key, value in flags.items():
        if value is not None and value not in ([], ()):
            values[key] = checked(key, value, SETTINGS[key].long_flag, as_text=isinstance(value, str))
    return _Layer(values, lambda key: SETTINGS[key].long_flag)


def _unknown_variables(variables: Mapping[str, str]) -> tuple[str, ...]:
    """A warning each, not an error: other programs and versions share the environment."""
    known = ["OSSIA_CONFIG", *(one.variable for one in SETTINGS.values())]
    return tuple(f"{name} is not a setting{nearest(name, known)}" for name in variables if name not in known)


def nearest(name: str, known: Iterable[str]) -> str:
    """`": did you mean 'effort'?"`, or the command that lists all names."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else ": `ossia config show` lists them all"
