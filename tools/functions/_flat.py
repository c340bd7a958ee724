"""Types of a flat schema: enums, what may be null, and whether variants can be told apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

Schema = dict[str, object]

TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
NULL: Mapping[str, object] = {"type": ["null"]}  # as a list, since Harmony writes that as `null`, but "null" as `any`


def with_values_told(flat: Schema) -> Schema:
    """Repeat an enum's values in the description if Harmony doesn't write them: it does so for texts only."""
    if "enum" not in flat or flat.get("type") == "string":
        return flat
    among = f"One of: {', '.join(json.dumps(value) for value in as_list(flat['enum'])[:20])}"
    return {**flat, "description": f"{flat['description']} ({among})" if "description" in flat else among}


def enum_of(values: Sequence[object]) -> Schema:
    kinds = list(dict.fromkeys(_kind_of_value(value) for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(dict.fromkeys(values))}


def _kind_of_value(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


def is_primitive(flat: Schema) -> bool:
    kinds = type_names(flat.get("type"))
    return bool(kinds) and all(kind in TYPES for kind in kinds) and not {"properties", "items", "enum"} & set(flat)


def or_null(flat: Schema) -> Schema:
    """`flat`, or null; anything includes it."""
    kinds = type_names(flat.get("type"))
    if "enum" in flat:
        return {**flat, **enum_of([*as_list(flat["enum"]), None])}
    if kinds and "properties" not in flat and "items" not in flat:
        return {**flat, "type": [*kinds, "null"]}
    return {"oneOf": [flat, dict(NULL)]} if flat else {}


def without_null(flat: Schema) -> Schema:
    """`flat` without null: an optional value need not be null."""
    variants = [variant for variant in as_list(flat.get("oneOf")) if variant != NULL]
    if variants:
        rest = {key: value for key, value in flat.items() if key != "oneOf"}
        return {**as_mapping(variants[0]), **rest} if len(variants) == 1 else {"oneOf": variants, **rest}
    if "null" not in (kinds := type_names(flat.get("type"))) or kinds == ["null"]:
        return flat
    kinds.remove("null")
    flat["type"] = kinds[0] if len(kinds) == 1 and kinds != ["object"] else kinds
    if "enum" in flat:
        flat["enum"] = [value for value in as_list(flat["enum"]) if value is not None]
    return flat


def are_disjoint(flats: Sequence[Schema]) -> bool:
    """Can a value match only one variant? By their types, or for objects by a property that has one value in each."""
    kinds = [kind for flat in flats for kind in type_names(flat.get("type"))]
    if all(flat.get("type") for flat in flats) and len(kinds) == len({k.replace("integer", "number") for k in kinds}):
        return True
    tags = [dict(_tags(flat)) for flat in flats]
    return any(all(name in tag for tag in tags) and len({tag[name] for tag in tags}) == len(tags) for name in tags[0])


def _tags(flat: Schema) -> Iterator[tuple[str, object]]:
    """The required properties that can have only one value."""
    for name in as_list(flat.get("required")):
        values = as_list(as_mapping(as_mapping(flat.get("properties")).get(cast(str, name))).get("enum"))
        if len(values) == 1:
            yield cast(str, name), values[0]


def type_names(kind: object) -> list[str]:
    """The types that a `type` names, each once."""
    named = [kind] if isinstance(kind, str) else as_list(kind)[:16]
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name in TYPES))


def as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    return list(islice(value, 1000)) if isinstance(value, list | tuple) else []
