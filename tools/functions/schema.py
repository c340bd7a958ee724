"""JSON Schema → a small, flat JSON Schema: what a model reads, and what can be checked without the schema's owner.

Harmony writes `anyOf`, `allOf`, `$ref` and `const` as `any`, a `title` as a useless comment and a parameter's
description on one line. So references are inlined, choices are expressed as far as possible, and the rest is dropped.
The output is lenient: the final check of arguments is up to the schema's owner (pydantic, the MCP server). The input
may be hostile: huge, deep, or referring to itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from ossia.tools.functions._flat import (
    NULL,
    TYPES,
    Schema,
    are_disjoint,
    as_list,
    as_mapping,
    enum_of,
    is_primitive,
    or_null,
    type_names,
    with_values_told,
    without_null,
)
from ossia.tools.text import has_unseen, one_line

_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems"),
}  # no `pattern`: a stranger's regular expression can take for ever


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """How much of a schema is kept.

    Beyond `max_depth` and `max_nodes` a type is "anything". `max_entries` limits the properties of an object, the
    values of an enum and the variants of a choice. `max_chars` limits the whole result as JSON: a longer one is
    made again with all other limits halved.
    """

    max_depth: int = 8
    max_nodes: int = 400
    max_entries: int = 64
    max_description_chars: int = 400
    max_chars: int = 16_000


def flatten(schema: Mapping[str, object], *, limits: SchemaLimits | None = None) -> Schema | None:
    """The parameters of a function, flat; None when it takes none. Never raises, whatever `schema` holds.

        flatten({"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}],
                                                        "title": "N", "default": None}}})

    is `{"type": "object", "properties": {"n": {"type": "integer"}}}`. A key whose value may be null is optional when it
    has a default, else its type says `null`.
    """
    limits = limits or SchemaLimits()
    while True:
        flat = _Flattener(schema, limits).node(schema, 0, ())
        for noise in ("description", "default"):  # the function's own description covers the whole
            flat.pop(noise, None)
        if not flat.get("properties") and not flat.get("oneOf"):
            return None
        if len(json.dumps(flat, ensure_ascii=False)) <= limits.max_chars:
            return flat
        if limits.max_nodes <= 1:
            return {"type": "object", "properties": {}}
        limits = SchemaLimits(
            max(1, limits.max_depth // 2),
            limits.max_nodes // 2,
            max(1, limits.max_entries // 2),
            limits.max_description_chars // 2,
            limits.max_chars,
        )


class _Flattener:
    """One walk over one schema; references are looked up in `root`."""

    def __init__(self, root: Mapping[str, object], limits: SchemaLimits) -> None:
        self._root, self._limits = root, limits
        self._nodes_left = limits.max_nodes

    def node(self, schema: object, depth: int, chain: tuple[str, ...]) -> Schema:
        """One type. `chain` holds the references that are being written out: each at most once inside itself."""
        if not isinstance(schema, Mapping) or depth > self._limits.max_depth or self._nodes_left <= 0:
            return {}
        self._nodes_left -= 1
        schema, chain = self._written_out(schema, chain)
        flat = self._typed(schema, depth, chain)
        description = schema.get("description")
        if isinstance(description, str) and (line := one_line(description, self._limits.max_description_chars)):
            flat["description"] = line
        self._add_values(schema, flat)
        return flat

    # -- references ---------------------------------------------------------------------------------------------------

    def _written_out(
        self, schema: Mapping[str, object], chain: tuple[str, ...]
    ) -> tuple[Mapping[str, object], tuple[str, ...]]:
        """The schema with references inlined and the parts of an `allOf` merged.

        What is beside a `$ref` (a description, a default) wins over what it refers to.
        """
        for _ in range(self._limits.max_depth):
            reference, parts = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str):
                own = {key: value for key, value in islice(schema.items(), self._limits.max_entries) if key != "$ref"}
                if chain.count(reference) > 1:
                    return own, chain
                chain += (reference,)
                schema = {**self._target(reference), **own}
            elif isinstance(parts, Sequence) and not isinstance(parts, str):
                own = {key: value for key, value in schema.items() if key != "allOf"}
                schema = self._merged([*islice(parts, self._limits.max_entries), own], chain)
            else:
                break
        return schema, chain

    def _target(self, reference: str) -> Mapping[str, object]:
        """What `#/$defs/City` points to in this schema; {} if it is missing or lies elsewhere."""
        if not reference.startswith("#"):
            return {}
        target: object = self._root
        for step in islice(filter(None, reference[1:].split("/")), self._limits.max_depth):
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        return target if isinstance(target, Mapping) else {}

    def _merged(self, parts: Sequence[object], chain: tuple[str, ...]) -> Mapping[str, object]:
        """An `allOf` merged: the properties of all parts, what any of them requires; else the last part wins."""
        merged: Schema = {}
        properties: Schema = {}
        required: list[object] = []
        for part in parts:
            part = self._looked_up(part, chain)
            properties |= as_mapping(part.get("properties"))
            required += as_list(part.get("required"))
            merged |= part
        if properties:
            merged |= {"properties": properties, "required": required}
        return merged

    def _looked_up(self, part: object, chain: tuple[str, ...]) -> Mapping[str, object]:
        part = as_mapping(part)
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in chain:
            return {**self._target(reference), **{key: value for key, value in part.items() if key != "$ref"}}
        return part

    # -- types --------------------------------------------------------------------------------------------------------

    def _typed(self, schema: Mapping[str, object], depth: int, chain: tuple[str, ...]) -> Schema:
        for key in ("anyOf", "oneOf"):
            if variants := as_list(schema.get(key)):
                return self._choice(variants[: self._limits.max_entries], depth, chain)
        kind = schema.get("type")
        if not isinstance(kind, str):
            kinds = type_names(kind)
            if len(kinds) == 1:
                kind = kinds[0]
            elif kinds:
                return {"type": [kind for kind in kinds if kind != "integer" or "number" not in kinds]}
            elif as_mapping(schema.get("properties")):
                kind = "object"
            elif "items" in schema or "prefixItems" in schema:
                kind = "array"
        match kind:
            case "object":
                return self._object(schema, depth, chain)
            case "array":
                items = self.node(schema.get("items"), depth + 1, chain)
                return {"type": "array", **({"items": items} if items else {}), **_numbers(schema, "array")}
            case str() if kind in TYPES:
                return {"type": kind, **_numbers(schema, kind)}
            case _:
                return {}

    def _object(self, schema: Mapping[str, object], depth: int, chain: tuple[str, ...]) -> Schema:
        """An object; one that names no property is `["object"]`, which Harmony writes as `object`."""
        properties: Schema = {}
        required = {key for key in as_list(schema.get("required")) if isinstance(key, str)}
        must: list[str] = []
        told = as_mapping(schema.get("properties"))
        for key, value in islice(told.items(), self._limits.max_entries):
            if not isinstance(key, str) or not key or len(key) > 100 or has_unseen(key):
                continue
            flat = self.node(value, depth + 1, chain)
            properties[key] = with_values_told(flat if key in required else without_null(flat))
            if key in required:
                must.append(key)
        if not properties:
            return {"type": ["object"]}
        more = schema.get("additionalProperties")
        is_open = more is True or isinstance(more, Mapping) or len(properties) < len(told)
        flat = {"type": "object", "properties": properties}
        if must:
            flat["required"] = must
        if is_open:  # made explicit, because by default an object with properties allows no others here
            flat["additionalProperties"] = True
        return flat

    def _choice(self, variants: Sequence[object], depth: int, chain: tuple[str, ...]) -> Schema:
        """One of several: a list of types, one enum, the variants of a `oneOf`; else anything."""
        flats = [self.node(variant, depth + 1, chain) for variant in variants]
        plain = [flat for flat in flats if flat.get("type") not in ("null", ["null"])]
        if len(plain) == 1:
            return or_null(plain[0]) if len(plain) < len(flats) else plain[0]
        if not plain:
            return dict(NULL)
        if all(set(flat) <= {"type", "enum", "description"} and "enum" in flat for flat in plain):
            values = [value for flat in plain for value in as_list(flat["enum"])]
            return enum_of(values + ([None] if len(plain) < len(flats) else []))
        if all(is_primitive(flat) for flat in plain):
            kinds = list(dict.fromkeys(kind for flat in flats for kind in type_names(flat["type"])))
            return {"type": [kind for kind in kinds if kind != "integer" or "number" not in kinds]}
        if not are_disjoint(plain):
            return {}
        return {"oneOf": plain + [dict(NULL)] * (len(plain) < len(flats))}

    # -- values -------------------------------------------------------------------------------------------------------

    def _add_values(self, schema: Mapping[str, object], flat: Schema) -> None:
        """The enum (also of one value: a `const`) and the default, if they are plain JSON that a model can be shown."""
        values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
        values = [value for value in values if value is None or isinstance(value, str | int | float | bool)]
        if values:
            flat |= enum_of([one_line(v, 200) if isinstance(v, str) and len(v) > 200 else v for v in values][:64])
            if len(values) > 64:
                del flat["enum"]
        default = schema.get("default")
        if default is not None and (shown := _shown_default(default)) is not None:
            flat["default"] = shown


def _shown_default(value: object) -> object:
    """A default as JSON, if it is short; else None."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    if len(text) > 200:
        return None
    return one_line(value, 200) if isinstance(value, str) else cast(object, json.loads(text))


def _numbers(schema: Mapping[str, object], kind: str) -> Schema:
    return {
        key: schema[key]
        for key in _BOUNDS.get(kind, ())
        if isinstance(schema.get(key), int | float) and not isinstance(schema[key], bool)
    }
