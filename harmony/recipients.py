"""The offered tool that a recipient means, when the model didn't write its name as it should."""

from __future__ import annotations

import re
from functools import lru_cache

from ossia.harmony.messages import CHANNELS, NOT_TOOLS

_AROUND = "\"'`,;:()[]{}<>?!*= "
_END = re.compile(r"<\||[>=]")
_BEFORE_END = re.compile(r"\.|_(?=.*\.)")
_FOREIGN = re.compile(r"^(?:functions?\.|tools?[._])+")
_TOOL_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[\w-]+)+|python")
_LABEL = re.compile(r".*?(?:to|tool|name|function|recipient)[=:]+", re.IGNORECASE)
_FRONT = rf"(?:^|[^\w.-]|(?:{'|'.join((*CHANNELS, 'json', 'code'))})[._-]?)"
_BACK = r"(?:[.,]?(?:json|code))?(?:[^\w.-]|$)"


def clean_recipient(text: str) -> str:
    """`text` up to a marker or a sign that ends it (`f<|channel|>…`, `f>msg=…`), without quotes and punctuation."""
    return _END.split(text.lstrip(_AROUND), maxsplit=1)[0].strip(_AROUND)


def is_tool_name(text: str) -> bool:
    """True if `text` looks like a tool's name, on offer or not: `functions.f`, `repo_browser.search`, `python`."""
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
    ends = _by_end(tools)
    bare = _FOREIGN.sub("", name, count=1)
    short = (bare.removesuffix(word) for word in ("json", "code") if bare.endswith(word))
    for spelling in (name, bare, *short):
        if (whole := f"functions.{spelling}") in tools:
            return whole
        if found := ends.get(_squeezed(spelling)):
            return found
    return None


def offered_in(word: str, tools: frozenset[str]) -> str | None:
    """The offered tool that a word of a header names, with what models write around a name there.

        offered_in("commentary_to=functions.f", tools), offered_in("name=f", tools), offered_in("functions::f", tools)
        # "functions.f" each
    """
    name = re.sub("::|/", ".", clean_recipient(_LABEL.sub("", word, count=1)))
    if tool := resolve(name, tools):
        return tool
    whole = [one for one in tools if "." in one and re.search(f"{_FRONT}{re.escape(one)}{_BACK}", word)]
    return whole[0] if len(whole) == 1 else None


@lru_cache(maxsize=8)
def _by_end(tools: frozenset[str]) -> dict[str, str | None]:
    """Each name and end of a name that a tool has; None: more than one have it.

    `search` and `browser.search` are ends of `repo_browser.search`, `browser` isn't one.
    """
    found: dict[str, str | None] = {}
    for tool in tools:
        whole = _squeezed(tool)
        for end in {whole, *(whole[dot.end() :] for dot in _BEFORE_END.finditer(whole))}:
            found[end] = None if end in found else tool
    return found


def _squeezed(name: str) -> str:
    return "".join(name.lower().split())
