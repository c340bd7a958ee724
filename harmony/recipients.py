"""Which of the offered tools a recipient means, when the model didn't write its name as it should."""

from __future__ import annotations

from collections.abc import Iterator

from harmony.messages import NOT_TOOLS

_PREFIX = "functions."
_AROUND = "\"'`,;:()[]{}<>?!*= "


def clean_recipient(text: str) -> str:
    """`text` cut where a marker begins (`query<|channel|>…`), without quotes and punctuation around it."""
    return text.partition("<|")[0].strip(_AROUND)


def resolve(name: str, tools: frozenset[str]) -> str | None:
    """The offered tool that `name` means; None when it means none, or more than one.

    Tried in this order: the name itself; with `functions.`; without it (`functions.browser.search`); as the last part
    of a tool's name (`search`); all of these without a content type glued to it (`shelljson`); in any case of letters.

        resolve("get_weather", frozenset({"functions.get_weather"}))  # "functions.get_weather"
    """
    if name in tools:
        return name
    if name in NOT_TOOLS or not tools:
        return None
    for spelling in (name, *(name.removesuffix(word) for word in ("json", "code") if name.endswith(word))):
        found = next((known for known in _spellings(spelling) if known in tools), None)
        if found := found or _only(tool for tool in tools if tool.endswith("." + spelling)):
            return found
    wanted = {spelling.lower() for spelling in _spellings(name)}
    return _only(tool for tool in tools if tool.lower() in wanted)


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield _PREFIX + name
    if name.startswith(_PREFIX):
        yield name.removeprefix(_PREFIX)


def _only(found: Iterator[str]) -> str | None:
    first = next(found, None)
    return first if next(found, None) is None else None
