"""A schema as a line, `name, age int, tags[]`, as `llm` has it."""

from __future__ import annotations

from typing import Any

from ossia.cli.clean import one_line
from ossia.cli.exits import ExitError

EXAMPLE = '"name, age int, tags[]"'
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_MAX_CHARS, _MAX_ITEMS = 4000, 1000
"""The bounds of a text and of a list: without one, a model that lost its way fills the context."""


def from_line(given: str, of: str) -> dict[str, Any]:
    """The schema of an object with these properties, all of them required. `of`: who asks, for errors.

    Items are separated by commas, or stand on lines of their own; each is `NAME [TYPE][[]] [: DESCRIPTION]`. Raises
    ExitError.

        from_line("name, tags[]", of="--schema")["required"]        # ["name", "tags"]
    """
    items = [item.strip() for item in given.strip().split("\n" if "\n" in given.strip() else ",")]
    properties: dict[str, Any] = {}
    for item in filter(None, items):
        name, value = _property(item, of)
        if name in properties:
            raise ExitError(f"{of}: {one_line(name, 60)!r} is there twice: give each property a name of its own")
        properties[name] = value
    if not properties:
        raise ExitError(f"{of}: no property is named: give a line such as {EXAMPLE}, a schema ({{…}}) or its file")
    return closed(properties)


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


def several(items: Any) -> dict[str, Any]:
    """The schema of `{"items": […]}`, with that schema for each of them."""
    return closed({"items": {"type": "array", "items": items, "maxItems": _MAX_ITEMS}})


def _property(item: str, of: str) -> tuple[str, dict[str, Any]]:
    head, _, description = item.partition(":")
    is_list = head.rstrip().endswith("[]")
    name, *types = head.rstrip().removesuffix("[]").split() or [""]
    kind = types[0] if types else "str"
    if not name or types[1:] or kind not in _TYPES or any(char in name for char in '[]{}",'):
        raise ExitError(
            f"{of}: {one_line(item, 60)!r}: expected NAME [TYPE][[]] [: DESCRIPTION], the type one of "
            f"{', '.join(_TYPES)}, as in {EXAMPLE}"
        )
    value: dict[str, Any] = {"type": _TYPES[kind]}
    if kind == "str":
        value["maxLength"] = _MAX_CHARS
    if is_list:
        value = {"type": "array", "items": value, "maxItems": _MAX_ITEMS}
    if description.strip():
        value["description"] = " ".join(description.split())
    return name, value
