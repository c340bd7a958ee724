"""The base of the browser's tools, and their arguments as models write them (`"3"`, `3.0`, `"【3†About】"`)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ossia.tools.spec import Effect, Fault, ToolFailed, ToolSpec

_LINK_ID = re.compile(r"【?\s*(-?[0-9]{1,9})(?:\.0+)?\s*(?:†[^】]*)?】?")


READ: frozenset[Effect] = frozenset({"read"})


class PageTool:
    """The base of the tools: their specification. They have nothing to release."""

    def __init__(
        self, name: str, description: str, parameters: Mapping[str, object], effects: frozenset[Effect], section: str
    ) -> None:
        self.spec = ToolSpec(
            f"browser.{name}",
            description,
            parameters,
            effects=effects,
            trained=True,
            section=section,
            provenance="built-in",
            result_taints=frozenset(),  # each result has those of its page
        )

    def close(self) -> None:
        pass


def as_mapping(args: object) -> Mapping[str, object]:
    """The arguments as an object, validated by the toolbox."""
    assert isinstance(args, Mapping)
    return args


def whole_number(args: Mapping[str, object], name: str) -> int:
    """The number `name`; -1 if it is missing or null. `7.0` is 7. Raises `ToolFailed` for anything else."""
    value = args.get(name)
    if value is None:
        return -1
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    came = value if isinstance(value, float) else type(value).__name__
    raise fault(f"`{name}` should be an integer, not `{came}`")


def link_or_url(args: Mapping[str, object]) -> int | str:
    """The `id` of an open: a link's number (-1: none was given) or a URL. Raises `ToolFailed` for anything else."""
    value = args.get("id")
    if isinstance(value, str):
        value = value.strip()
        number = _LINK_ID.fullmatch(value)
        return int(number[1]) if number else value or -1
    return whole_number(args, "id")


def text(args: Mapping[str, object], name: str) -> str:
    """The text `name`. Raises `ToolFailed` if it is empty."""
    value = str(args[name])
    if not value.strip():
        raise fault(f"`{name}` is empty: say what to look for")
    return value


def fault(message: str, *, why: Fault | None = None) -> ToolFailed:
    """A failure in our own words, without outside text."""
    return ToolFailed(message, taints=frozenset(), fault=why)


def shortened(value: str, max_chars: int = 1024) -> str:
    """A text shortened for an error's line, as the reference does it."""
    return value if len(value) <= max_chars else value[: max_chars - 3] + "..."


def reason(failure: ToolFailed) -> str:
    """The reason of a failure, to be used in a longer line."""
    return shortened(" ".join(str(failure).removeprefix("Error: ").split()))
