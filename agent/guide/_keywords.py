"""The keywords of JSON Schema, to find misspelt ones."""

from __future__ import annotations

from collections.abc import Mapping

_OF_SCHEMA = frozenset((
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
))  # fmt: skip
"""Their value is a schema (`items` of older drafts: a list of them)."""
_OF_SCHEMAS = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_BY_NAME = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
"""Their value is an object whose keys are the user's own."""
_OTHERS = frozenset((
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary", "const",
    "contentEncoding", "contentMediaType", "default", "dependencies", "dependentRequired", "deprecated",
    "description", "enum", "example", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id",
    "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "pattern", "readOnly", "required", "title", "type", "uniqueItems",
    "writeOnly",
))  # fmt: skip
_KNOWN = _OF_SCHEMA | _OF_SCHEMAS | _BY_NAME | _OTHERS
"""Drafts 4 to 2020-12. (A keyword that begins with `x-` is somebody's own note and demands nothing.)"""


def unknown_keyword(schema: object) -> str | None:
    """The first keyword in `schema` that no draft has: `"requried"`. None: there is none."""
    if not isinstance(schema, Mapping):
        return None
    for key, value in schema.items():
        if key not in _KNOWN and not key.startswith("x-"):
            return str(key)
        inner: list[object] = []
        if key in _BY_NAME and isinstance(value, Mapping):
            inner += value.values()
        elif key in _OF_SCHEMAS and isinstance(value, list | tuple):
            inner += value
        elif key in _OF_SCHEMA:
            inner.append(value)
        found = next(filter(None, map(unknown_keyword, inner)), None)
        if found:
            return found
    return None
