"""JSON Schema → a small, flat JSON Schema, readable for a model and checkable without the schema's owner.

Harmony writes `anyOf`, `allOf`, `$ref` and `const` as `any`. So references are inlined, choices expressed as far as
possible, and the rest dropped. The result is lenient: its owner (pydantic, the MCP server) checks arguments in the end.
The input may be hostile: huge, deep, or referring to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from ossia.tools.calls.coerce import mapping
from ossia.tools.text import has_unseen, one_line

Schema = dict[str, object]

_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_KINDS = {type(None): "null", bool: "boolean", int: "integer", float: "number"}
_NULL: Mapping[str, object] = {"type": ["null"]}  # as a list, since Harmony writes that as `null`, but "null" as `any`
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems"),
}  # no `pattern`: a stranger's regular expression can take for ever


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """Bounds of a flat schema.

    Beyond `max_depth` and `max_nodes` a type is "anything". `max_entries` limits the properties of an object and the
    variants of a choice. A result of more than `max_chars` as JSON is made again with all other limits halved.
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
        """One type. `chain` holds the references being inlined: each at most once inside itself."""
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
        """The target of `#/$defs/City` in this schema; {} if it is missing or lies elsewhere."""
        if not reference.startswith("#"):
            return {}
        target: object = self._root
        for step in islice(filter(None, reference[1:].split("/")), self._limits.max_depth):
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        return target if isinstance(target, Mapping) else {}

    def _merged(self, parts: Sequence[object], chain: tuple[str, ...]) -> Mapping[str, object]:
        """An `allOf` merged: all properties and requirements of its parts; else the last part wins."""
        merged: Schema = {}
        properties: Schema = {}
        required: list[object] = []
        for part in parts:
            part = self._looked_up(part, chain)
            properties |= mapping(part.get("properties"))
            required += _as_list(part.get("required"))
            merged |= part
        if properties:
            merged |= {"properties": properties, "required": required}
        return merged

    def _looked_up(self, part: object, chain: tuple[str, ...]) -> Mapping[str, object]:
        part = mapping(part)
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in chain:
            return {**self._target(reference), **{key: value for key, value in part.items() if key != "$ref"}}
        return part

    # -- types --------------------------------------------------------------------------------------------------------

    def _typed(self, schema: Mapping[str, object], depth: int, chain: tuple[str, ...]) -> Schema:
        for key in ("anyOf", "oneOf"):
            if variants := _as_list(schema.get(key)):
                return self._choice(variants[: self._limits.max_entries], depth, chain)
        kind = schema.get("type")
        if not isinstance(kind, str):
            kinds = _type_names(kind)
            if len(kinds) == 1:
                kind = kinds[0]
            elif kinds:
                return {"type": [kind for kind in kinds if kind != "integer" or "number" not in kinds]}
            elif mapping(schema.get("properties")):
                kind = "object"
            elif "items" in schema or "prefixItems" in schema:
                kind = "array"
        match kind:
            case "object":
                return self._object(schema, depth, chain)
            case "array":
                items = self.node(schema.get("items"), depth + 1, chain)
                return {"type": "array", **({"items": items} if items else {}), **_numbers(schema, "array")}
            case str() if kind in _TYPES:
                return {"type": kind, **_numbers(schema, kind)}
            case _:
                return {}

    def _object(self, schema: Mapping[str, object], depth: int, chain: tuple[str, ...]) -> Schema:
        """An object; one that names no property is `["object"]`, which Harmony writes as `object`."""
        properties: Schema = {}
        required = {key for key in _as_list(schema.get("required")) if isinstance(key, str)}
        must: list[str] = []
        named = mapping(schema.get("properties"))
        for key, value in islice(named.items(), self._limits.max_entries):
            if not isinstance(key, str) or not key or len(key) > 100 or has_unseen(key):
                continue
            flat = self.node(value, depth + 1, chain)
            properties[key] = _with_values_described(flat if key in required else _without_null(flat))
            if key in required:
                must.append(key)
        if not properties:
            return {"type": ["object"]}
        more = schema.get("additionalProperties")
        is_open = more is True or isinstance(more, Mapping) or len(properties) < len(named)
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
            return _or_null(plain[0]) if len(plain) < len(flats) else plain[0]
        if not plain:
            return dict(_NULL)
        if all(set(flat) <= {"type", "enum", "description"} and "enum" in flat for flat in plain):
            values = [value for flat in plain for value in _as_list(flat["enum"])]
            return _enum_of(values + ([None] if len(plain) < len(flats) else []))
        if all(_is_primitive(flat) for flat in plain):
            kinds = list(dict.fromkeys(kind for flat in flats for kind in _type_names(flat["type"])))
            return {"type": [kind for kind in kinds if kind != "integer" or "number" not in kinds]}
        if not _are_disjoint(plain):
            return {}
        return {"oneOf": plain + [dict(_NULL)] * (len(plain) < len(flats))}

    # -- values -------------------------------------------------------------------------------------------------------

    def _add_values(self, schema: Mapping[str, object], flat: Schema) -> None:
        """Add the enum (of one value: a `const`) and the default, if they are plain, short JSON."""
        values = [schema["const"]] if "const" in schema else _as_list(schema.get("enum"))
        values = [value for value in values if value is None or isinstance(value, str | int | float | bool)]
        if values:
            flat |= _enum_of([one_line(v, 200) if isinstance(v, str) and len(v) > 200 else v for v in values][:64])
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


# -- types of a flat schema: enums, null, variants ---------------------------------------------------------------------


def _with_values_described(flat: Schema) -> Schema:
    """Repeat an enum's values in the description if Harmony doesn't write them: it does so for texts only."""
    if "enum" not in flat or flat.get("type") == "string":
        return flat
    among = f"One of: {', '.join(json.dumps(value) for value in _as_list(flat['enum'])[:20])}"
    return {**flat, "description": f"{flat['description']} ({among})" if "description" in flat else among}


def _enum_of(values: Sequence[object]) -> Schema:
    kinds = list(dict.fromkeys(_KINDS.get(type(value), "string") for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(dict.fromkeys(values))}


def _is_primitive(flat: Schema) -> bool:
    kinds = _type_names(flat.get("type"))
    return bool(kinds) and all(kind in _TYPES for kind in kinds) and not {"properties", "items", "enum"} & set(flat)


def _or_null(flat: Schema) -> Schema:
    """`flat`, or null; anything includes it."""
    kinds = _type_names(flat.get("type"))
    if "enum" in flat:
        return {**flat, **_enum_of([*_as_list(flat["enum"]), None])}
    if kinds and "properties" not in flat and "items" not in flat:
        return {**flat, "type": [*kinds, "null"]}
    return {"oneOf": [flat, dict(_NULL)]} if flat else {}


def _without_null(flat: Schema) -> Schema:
    """`flat` without null: an optional value need not be null."""
    variants = [variant for variant in _as_list(flat.get("oneOf")) if variant != _NULL]
    if variants:
        rest = {key: value for key, value in flat.items() if key != "oneOf"}
        return {**mapping(variants[0]), **rest} if len(variants) == 1 else {"oneOf": variants, **rest}
    if "null" not in (kinds := _type_names(flat.get("type"))) or kinds == ["null"]:
        return flat
    kinds.remove("null")
    flat["type"] = kinds[0] if len(kinds) == 1 and kinds != ["object"] else kinds
    if "enum" in flat:
        flat["enum"] = [value for value in _as_list(flat["enum"]) if value is not None]
    return flat


def _are_disjoint(flats: Sequence[Schema]) -> bool:
    """True if a value can match only one variant: by its type, or for objects by a property with one value in each."""
    kinds = [kind for flat in flats for kind in _type_names(flat.get("type"))]
    if all(flat.get("type") for flat in flats) and len(kinds) == len({k.replace("integer", "number") for k in kinds}):
        return True
    tags = [dict(_tags(flat)) for flat in flats]
    return any(all(name in tag for tag in tags) and len({tag[name] for tag in tags}) == len(tags) for name in tags[0])


def _tags(flat: Schema) -> Iterator[tuple[str, object]]:
    """The required properties with only one possible value."""
    for name in _as_list(flat.get("required")):
        values = _as_list(mapping(mapping(flat.get("properties")).get(cast(str, name))).get("enum"))
        if len(values) == 1:
            yield cast(str, name), values[0]


def _type_names(kind: object) -> list[str]:
    """The types named by a `type`, each once."""
    named = [kind] if isinstance(kind, str) else _as_list(kind)[:16]
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name in _TYPES))


def _as_list(value: object) -> list[object]:
    return list(islice(value, 1000)) if isinstance(value, list | tuple) else []
