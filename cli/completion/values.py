"""The values of flags and arguments: those that a setting knows, and those found on this machine.

Nothing here loads a model, asks a server or writes; what another process has locked isn't waited for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from ossia.cli import paths
from ossia.cli.settings.table import SETTINGS

More = Literal["none", "files", "folders", "models"]
"""What the shell itself offers besides: nothing, files, folders, GGUF files."""
Candidate = tuple[str, str]
"""A value, and a line about it. Raw: a title or a description may hold anything."""

HELP_CHARS = 70
_SESSIONS = 50
_FILES, _FOLDER = re.compile(r"(?<![:@])\b(?:FILE|PATH|IN|OUT|ARG)\b"), re.compile(r"\bDIR\b")
"""In the metavar of a parameter that takes paths."""


def values_of(context: Any, wanted: Any, word: str) -> tuple[More, Iterable[Candidate]]:
    """The candidates for a parameter of the command in `context`, or for the word of a command: flags, subcommands.

    They may be more than those that begin with `word`.
    """
    if wanted is context.command:
        folders = context.parent is None and word[:1] in (".", "/", "~")  # `ossia ./project`
        below = getattr(wanted, "commands", {})
        found = [(one.value, one.help or "") for one in wanted.shell_complete(context, word)]
        found = [
            (name, below[name].get_short_help_str(HELP_CHARS) if name in below else about) for name, about in found
        ]
        return "folders" if folders else "none", found
    name, command = wanted.name, context.command.name
    group = context.parent.command.name if context.parent else ""
    names = (f"{group} {command} {name}", f"{group or command} {name}", name)
    metavar = wanted.metavar or ""
    listed = metavar.split("|") if metavar.replace("|", "").islower() else ()  # head|tail|middle
    choices = [(choice, "") for choice in (*getattr(wanted.type, "choices", ()), *listed)]
    source = next((_SOURCES[key] for key in names if key in _SOURCES), None)
    paths: More = "files" if _FILES.search(metavar) else "folders" if _FOLDER.search(metavar) else "none"
    more: More = "models" if name == "model" else paths
    return more, [*choices, *_words(name), *(source(context) if source else ())]


def _words(setting: str) -> list[Candidate]:
    """The words that a setting takes."""
    return [(word, "") for word in SETTINGS[setting].kind.words] if setting in SETTINGS else []


def _models(_: Any = None) -> Iterator[Candidate]:
    from ossia.agent.models.catalog import DOWNLOADS
    from ossia.agent.models.find import find_models, locations

    for one in find_models(locations(paths.host())):
        yield one.name, str(one.path)
    yield from ((one.name, f"ossia models pull {one.name}") for one in DOWNLOADS)


def _downloads(_: Any) -> Iterator[Candidate]:
    from ossia.agent.models.catalog import DOWNLOADS

    return ((one.name, one.repo) for one in DOWNLOADS)


def _engines(_: Any) -> Iterator[Candidate]:
    from ossia.cli.settings.engines import LLAMA, engine_entries

    yield LLAMA, "here"
    yield from ((name, str(entry.get("url", ""))) for name, entry in engine_entries(os.environ).items())


def _services(_: Any) -> Iterable[Candidate]:
    from ossia.tools.browser.web import KINDS

    return [(name, "") for name in KINDS]


def _sessions(_: Any) -> Iterator[Candidate]:
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.words import titled, when

    for info in SessionStore(paths.sessions_file(), now=float).glance(limit=_SESSIONS):
        yield info.id, f"{when(info.updated)}  {titled(info)}"


def _skills(context: Any) -> Iterator[Candidate]:
    """The user's own, and those of a workspace as it was trusted."""
    from ossia.cli.settings.config import resolve
    from ossia.tools.approval.trust import TrustStore
    from ossia.tools.skills import find_skills

    workspace = context.params.get("workspace") or resolve({}, environ=os.environ).settings.workspace
    brought = TrustStore(paths.data_dir()).content(paths.expanded(workspace).resolve())[1] if workspace else None
    for skill in find_skills(paths.host().home, brought):
        if skill.for_user or context.command.name != "run":
            yield skill.name, skill.description


def _tool_names(_: Any) -> Iterable[Candidate]:
    from ossia.tools.calls.names import BUILT_IN

    return [(name, "") for name in BUILT_IN]


def _rules(context: Any) -> Iterator[Candidate]:
    yield from _tool_names(context)
    yield from _stored_rules(context)


def _stored_rules(_: Any) -> Iterator[Candidate]:
    from ossia.tools.approval.grants import Grants

    for workspace, rules in Grants(paths.data_dir()).by_workspace().items():
        yield from ((str(rule), f"always, {workspace or 'without a workspace'}") for rule in rules)


def _forgettable(context: Any) -> Iterator[Candidate]:
    from ossia.tools.approval.grants import Hosts

    yield from _stored_rules(context)
    yield from ((host, "prompts may be sent there") for host in Hosts(paths.data_dir()).listed())


def _servers(_: Any) -> Iterator[Candidate]:
    from ossia.cli.settings.mcp import configured_servers

    return ((server.name, server.file) for server in configured_servers(os.environ))


def _places(_: Any) -> Iterator[Candidate]:
    from ossia.tools.library.library import Library

    return ((place, "") for place in Library(paths.library_file()).places())


def _keys(_: Any) -> Iterable[Candidate]:
    return [(name, one.flag.help) for name, one in SETTINGS.items()]


def _values(context: Any) -> Iterable[Candidate]:
    """The values of the setting that `ossia config set` names."""
    key = context.params.get("key") or ""
    return [*_words(key), *(_SOURCES[key](context) if key in SETTINGS and key in _SOURCES else ())]


def _topics(context: Any) -> Iterable[Candidate]:
    from ossia.cli.commands.help import pages

    commands = context.parent.command.commands
    return [(name, f"ossia {name}" if name in commands else "") for name in sorted({*pages(), *commands})]


_SOURCES: Mapping[str, Callable[[Any], Iterable[Candidate]]] = {
    "model": _models, "engine": _engines, "web": _services, "allow": _rules, "deny": _rules, "skill": _skills,
    "resume": _sessions, "sessions ref": _sessions, "sessions refs": _sessions,
    "skills show name": _skills, "skills edit name": _skills, "tools call name": _tool_names,
    "mcp rm name": _servers, "mcp login name": _servers, "mcp logout name": _servers, "mcp test name": _servers,
    "models pull name": _downloads, "docs what": _places, "trust forget": _forgettable, "help topic": _topics,
    "config key": _keys, "config set value": _values,
}  # fmt: skip
"""The sources of candidates by parameter, with its command and group where others have one of that name."""
