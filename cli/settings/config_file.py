"""Changing the config file; the user's comments and order stay (tomlkit)."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ossia.cli import paths
from ossia.cli.settings.config import FAMILIES, ConfigError, checked, config_path, nearest
from ossia.cli.settings.kinds import Value, source_and_function
from ossia.cli.settings.table import SETTINGS
from ossia.tools.approval.rules import ACTIONS, parse_rule
from ossia.tools.files import write_whole
from ossia.tools.locks import file_lock

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

_APPROVALS = "approvals."
_WAIT_S = 5.0
"""The time to wait while another ossia changes the file, which takes it some milliseconds."""


def set_value(environ: Mapping[str, str], key: str, texts: Sequence[str], *, wait_s: float = _WAIT_S) -> Value:
    """Write a setting into the config file, which is made if there is none; returns the value.

    `key` is a setting, or `approvals.RULE`. Only a list takes several texts. Raises ConfigError, OSError: also if
    another ossia is changing the file for longer than `wait_s`.

        set_value(os.environ, "effort", ["high"])                          → "high"
        set_value(os.environ, "approvals.container.exec:git status*", ["auto"])     → "auto"
    """
    path = config_path(environ)
    with _locked(wait_s):
        document = _read(path)
        if key.startswith(_APPROVALS):
            value: Value = _action(key, texts)
            rules, rule = _approvals(document, path), key.removeprefix(_APPROVALS)
            for holder, name in _places_of(rules, rule):
                if holder is not rules:  # a rule that is said twice would hold as the later one says
                    del holder[name]
            rules[rule] = value
        else:
            key = _known(key)
            value = _value(key, texts)
            if "_" in key:
                document.pop(key.replace("_", "-"), None)
            _put(document, key, value)
        _write(path, document)
    return value


def unset_value(environ: Mapping[str, str], key: str) -> None:
    """Take a setting, or `approvals.RULE`, out of the config file. Raises ConfigError if it isn't there, OSError."""
    path = config_path(environ)
    with _locked(_WAIT_S) if path.exists() else nullcontext():
        _unset(path, key)


def _unset(path: Path, key: str) -> None:
    document = _read(path)
    holder: Table | TOMLDocument = document
    name = key if key in document else key.replace("-", "_")
    if key.startswith(_APPROVALS):
        holder, name = _approvals(document, path), key.removeprefix(_APPROVALS)
        holder, name = next(_places_of(holder, name), (holder, name))
    if isinstance(holder.get(name), dict | list) and name not in SETTINGS:
        raise ConfigError(f"{path}: {name!r} is a table: remove it with `ossia config edit`")
    if name not in holder:
        raise ConfigError(f"{path}: {key!r} isn't set there{nearest(name, list(holder)) if holder else ''}")
    del holder[name]
    _write(path, document)


@contextmanager
def _locked(wait_s: float) -> Iterator[None]:
    """Within the block no other ossia changes the file: both would read it, and one change would be lost.

    The lock is on a file apart: one on the config's folder could be held by anybody who can read it. Raises OSError if
    another one holds it for `wait_s`.
    """
    place = paths.data_dir() / "config.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock(place, wait_s=wait_s):
            yield
    except TimeoutError as error:
        what = f"another program has had {place} locked for {wait_s:g} s: end it, or try again"
        raise BlockingIOError(errno.EAGAIN, what) from error


def _real(path: Path) -> Path:
    """The target of a link, as into a folder of dotfiles: the link stays. Raises OSError for a circle of links."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return Path(os.path.realpath(path))


def _put(document: TOMLDocument, key: str, value: Value) -> None:
    """Set the value; the comments inside a list stay beside the entries that stay."""
    there = document.get(key)
    if isinstance(there, list) and isinstance(value, tuple):
        for at in reversed(range(len(there))):
            if there[at] not in value:
                del there[at]
        there.extend(entry for entry in value if entry not in list(there))
        if list(there) == list(value):
            return
    document[key] = list(value) if isinstance(value, tuple) else value


def _approvals(document: TOMLDocument, path: Path) -> Table:
    table = document.setdefault("approvals", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: approvals: must be a table, not {table!r}")
    return cast("Table", table)


def _places_of(rules: Table, rule: str) -> Iterator[tuple[Table, str]]:
    """The places of a rule: `weather:Oslo*` is a key, or `Oslo*` in a table `weather`; see `flat_rules`."""
    tool, *pattern = rule.split(":", 1)
    spellings = [[rule], [tool, *pattern]]
    family, _, rest = tool.partition(".")
    if rest and family in FAMILIES:
        spellings += [[family, ":".join([rest, *pattern])], [family, rest, *pattern]]
    for *above, name in spellings[:: 1 if pattern else 2]:  # without a pattern, two of them are the same
        holder: Table | None = rules
        for one in above:
            holder = holder.get(one) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and name in holder and not isinstance(holder[name], dict):
            yield holder, name


def _known(key: str) -> str:
    name = key.removeprefix("--").replace("-", "_")
    if name not in SETTINGS:
        raise ConfigError(f"{key!r} is not a setting{nearest(name, SETTINGS)}")
    return name


def _value(key: str, texts: Sequence[str]) -> Value:
    """The value to store. A path keeps its `~`: the file may be shared with another machine."""
    kind = SETTINGS[key].kind
    if kind.flag == list[str]:
        value = checked(key, list(texts), key)
        return tuple(map(_in_full, cast("tuple[str, ...]", value))) if key == "tools" else value
    if len(texts) != 1:
        raise ConfigError(f"{key}: must be one value ({kind.expected}), not {len(texts)}")
    value = checked(key, texts[0], key, as_text=True)
    return texts[0] if isinstance(value, str) else value


def _in_full(name: str) -> str:
    """A file of functions in full: the config file reads names beside itself, a command line in the current folder."""
    is_file = source_and_function(name)[0].endswith(".py")
    return os.path.abspath(name) if is_file else name  # noqa: PTH100 - no link is followed


def _action(key: str, texts: Sequence[str]) -> str:
    try:
        parse_rule(key.removeprefix(_APPROVALS), "allow")
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    if len(texts) != 1 or texts[0] not in ACTIONS:
        raise ConfigError(f"{key}: must be {', '.join(ACTIONS)}, not {' '.join(texts)!r}")
    return texts[0]


def _read(path: Path) -> TOMLDocument:
    from tomlkit import document, parse
    from tomlkit.exceptions import TOMLKitError

    if path.exists() and not path.is_file():  # OSSIA_CONFIG=/dev/null means no file, also to root
        raise ConfigError(f"{path}: not a regular file")
    try:
        return parse(path.read_bytes().decode())
    except FileNotFoundError:
        return document()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: can't read the config file: it isn't UTF-8") from None
    except (TOMLKitError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{path}: not TOML: {why}; `ossia config edit` opens it") from None


def _write(path: Path, document: TOMLDocument) -> None:
    from tomlkit import dumps

    text = dumps(document)
    try:
        text.encode()
    except UnicodeEncodeError:  # from an argument whose bytes are no UTF-8
        raise ConfigError(f"{path}: the text must be UTF-8") from None
    write_whole(_real(path), text, keep_mode=True)


def write_template(path: Path) -> None:
    """Make the file, unless there is one, with every setting as a comment. Raises OSError."""
    if not path.exists():
        lines = [f"# {one.flag.help}\n# {key} = {_shown(one.default)}\n" for key, one in SETTINGS.items()]
        write_whole(_real(path), "\n".join(lines))


def _shown(default: Value) -> str:
    return "…" if default is None else json.dumps(default)
