"""Schemas of strangers, without regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMED = ("properties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("enum", "const", "default", "examples")


def without_patterns(schema: object) -> Any:
    """The schema without its regular expressions: Python may match a stranger's for ever, with all other threads held.

    `without_patterns({"type": "string", "pattern": "^(a+)+$"})` is `{"type": "string"}`.
    """
    if isinstance(schema, list):
        return [without_patterns(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    dropped = {"pattern", "patternProperties"}
    if "patternProperties" in schema:  # what they would have allowed is no longer known
        dropped |= {"additionalProperties", "unevaluatedProperties"}
    return {key: _without_patterns(key, value) for key, value in schema.items() if key not in dropped}


def _without_patterns(key: str, value: object) -> object:
    if key in _NAMED and isinstance(value, Mapping):
        return {name: without_patterns(one) for name, one in value.items()}
    return value if key in _VALUES else without_patterns(value)
