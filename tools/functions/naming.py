"""Names of functions that aren't ours: `functions.x`, never like something that gpt-oss was trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ossia.tools.spec import Tool

PREFIX = "functions."
MAX_NAME_CHARS = 64

CONFUSING = frozenset(
    {
        *("python", "bash", "sh", "browser", "container", "exec", "functions", "repo_browser", "exec_command"),
        *("analysis", "commentary", "final", "assistant", "user", "system", "developer", "tool", "all", "json", "code"),
    }
)
"""Trained recipients, channels and roles, and tools that the model invents: a function of such a name is called like
the trained tool (raw code instead of JSON), or isn't recognised as a call (odysseus#5877, llama.cpp#15158)."""

_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tools, and warnings about them for the user, a line each, e.g. about a changed name.

    `skipped`: functions that can't be tools, with place and fault: `{"look": "weather.py line 3: the parameter …"}`.
    """

    tools: tuple[Tool, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


def plain_name(name: str, *, filler: str = "_") -> str:
    """`name` with `_` for what a recipient can't hold, at most 64 characters: `"weird.name 1"` → `"weird_name_1"`."""
    return _OTHER.sub(filler, name).strip("_")[:MAX_NAME_CHARS] or "tool"


def offered_name(name: str) -> str:
    """The name under which a function is offered: `"get_weather"` as it is, `"python"` as `"python_tool"`."""
    plain = plain_name(name)
    return f"{plain}_tool" if plain.lower() in CONFUSING else plain


def name_warning(name: str, where: str) -> str | None:
    """A warning for the user if `offered_name` gives another name; else None."""
    offered = offered_name(name)
    if offered == name:
        return None
    if plain_name(name) == name:
        return f"{where}: gpt-oss would take {name!r} for a tool of its own: the function is offered as {offered!r}"
    return f"{where}: {name!r} isn't a valid name for a tool: the function is offered as {offered!r}"


def without_duplicates(tools: Iterable[Tool]) -> Loaded:
    """The tools, only the first of each name; warnings name those left out."""
    kept: dict[str, Tool] = {}
    warnings = []
    for tool in tools:
        first = kept.setdefault(tool.spec.name, tool)
        if first is not tool:
            warnings.append(
                f"{tool.spec.source}: {tool.spec.name} is left out: {first.spec.source} has a tool of that name"
            )
    return Loaded(tuple(kept.values()), tuple(warnings))
