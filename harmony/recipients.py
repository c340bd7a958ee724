"""Which of the offered tools a recipient means, when the model didn't write its name as it should."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harmony.messages import NOT_TOOLS

_AROUND = "\"'`,;:()[]{}<>?!*= "
_END = re.compile(r"<\||[>=]")
_FOREIGN = re.compile(r"(?:functions?\.|tools?[._])+")
_TOOL_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[\w-]+)+|python")


def clean_recipient(text: str) -> str:
    """`text` up to a marker or a sign that ends it (`f<|channel|>…`, `f>msg=…`), without quotes and punctuation."""
    return _END.split(text.lstrip(_AROUND), maxsplit=1)[0].strip(_AROUND)


def is_tool_name(text: str) -> bool:
    """Does `text` look like a tool's name, on offer or not: `functions.f`, `repo_browser.search`, `python`?"""
    return _TOOL_NAME.fullmatch(text) is not None


def resolve(name: str, tools: frozenset[str]) -> str | None:
    """The offered tool that `name` means; None when it means none, or more than one.

    It may lack what stands before the name (`search`), have something else there (`functions.browser.search`,
    `tool_bash`), end with a content type (`shelljson`), and differ in blanks and in the case of letters.

        resolve("get_weather", frozenset({"functions.get_weather"}))  # "functions.get_weather"
    """
    if name in tools:
        return name
    if name in NOT_TOOLS:
        return None
    bare = _FOREIGN.sub("", name, count=1) if _FOREIGN.match(name) else name
    short = (bare.removesuffix(word) for word in ("json", "code") if bare.endswith(word))
    for spelling in filter(None, (name, bare, *short)):
        if (whole := f"functions.{spelling}") in tools:
            return whole
        if found := spelling if spelling in tools else _only(tool for tool in tools if _is_end(spelling, tool)):
            return found
    return None


def _is_end(name: str, tool: str) -> bool:
    """`search` and `browser.search` are ends of `repo_browser.search`, `browser` is none."""
    name, tool = ("".join(text.lower().split()) for text in (name, tool))
    return tool == name or tool.endswith("." + name) or ("." in name and tool.endswith("_" + name))


def _only(found: Iterator[str]) -> str | None:
    first = next(found, None)
    return first if next(found, None) is None else None
