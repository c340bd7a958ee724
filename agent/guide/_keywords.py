"""The keywords of JSON Schema: misspelt ones are found, and those that demand nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

_OF_SCHEMA = frozenset((
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
))  # fmt: skip
"""Their value is a schema (`items` of older drafts: a list of them)."""
_OF_SCHEMAS = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_BY_NAME = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
"""Their value is an object whose keys are the user's own."""
_OTHERS = frozenset((
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref",
    "$schema", "$vocabulary", "const", "default", "dependencies", "dependentRequired", "deprecated", "description",
    "enum", "example", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "maxContains", "maxItems",
    "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "pattern", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly",
))  # fmt: skip
_NOTES = frozenset((
    "contentEncoding", "contentMediaType", "contentSchema",
    "discriminator", "externalDocs", "nullable", "xml",  # OpenAPI
    "enumDescriptions", "enumNames", "errorMessage", "markdownDescription", "propertyOrdering",  # editors, forms
))  # fmt: skip
"""They demand nothing of a value, though somebody may think so."""
_KNOWN = _OF_SCHEMA | _OF_SCHEMAS | _BY_NAME | _OTHERS | _NOTES
"""Drafts 4 to 2020-12. (A keyword that begins with `x-` is somebody's own note and demands nothing.)"""
_ANY: tuple[object, ...] = (True, {}, [], {"type": "string"})
"""The schemas that hold for each property's name, and for absent values."""


def unknown_keyword(schema: object) -> str | None:
    """The first keyword in `schema` that no draft has: `"requried"`; None: all are known."""
    words = (word for part in _parts(schema) for word in part)
    return next((word for word in words if word not in _KNOWN and not word.startswith("x-")), None)


def meant(word: str) -> str | None:
    """The keyword that a misspelt one is close to: `meant("requried")` is `"required"`."""
    plain = {known.lower(): known for known in sorted(_KNOWN)}
    found = get_close_matches(word.lower().replace("_", "").replace("-", ""), plain, 1, 0.8)
    return plain[found[0]] if found else None


def idle_keywords(schema: object) -> list[str]:
    """The keywords in `schema` that an answer isn't held to, each once: `["uniqueItems", "nullable"]`.

    Without `propertyNames`, by which Zod says that names are strings.
    """
    idle = ((word, word in _NOTES or _is_idle(word, part)) for part in _parts(schema) for word in part)
    found = [word for word, is_idle in idle if is_idle and word != "propertyNames"]
    return list(dict.fromkeys(found))


def without_idle(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema without the keywords that demand nothing as they stand, such as `"uniqueItems": false`."""

    def inner(one: object) -> object:
        return without_idle(one) if isinstance(one, Mapping) else one

    return {word: _each(word, value, inner) for word, value in schema.items() if not _is_idle(word, schema)}


def _is_idle(word: str, schema: Mapping[str, object]) -> bool:
    value = schema[word]
    match word:
        case "uniqueItems" | "not":
            return value is False
        case "then" | "else":
            return "if" not in schema
        case "if":
            return not {"then", "else"} & schema.keys()
        case "contains" | "minContains" | "maxContains":
            return "contains" not in schema or (schema.get("minContains") == 0 and "maxContains" not in schema)
        case "additionalItems":
            return not isinstance(schema.get("items"), list | tuple)
        case "unevaluatedProperties" | "unevaluatedItems":
            return value is True or value == {}
        case "propertyNames":
            return value in _ANY
        case "dependentRequired" | "dependentSchemas" | "dependencies":
            return isinstance(value, Mapping) and all(one in _ANY[:3] for one in value.values())
        case _:
            return False


def _parts(schema: object) -> Iterator[Mapping[str, object]]:
    """The schema and all those within it; not what stands in `const`, `enum`, `default` and examples."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for word, value in schema.items():
        inner: list[object] = []
        _each(word, value, inner.append)
        for one in inner:
            yield from _parts(one)


def _each(word: str, value: object, act: Callable[[object], object]) -> object:
    """The keyword's value with what `act` makes of each schema in it."""
    if word in _BY_NAME and isinstance(value, Mapping):
        return {name: act(one) for name, one in value.items()}
    if word in _OF_SCHEMAS and isinstance(value, list | tuple):
        return [act(one) for one in value]
    return act(value) if word in _OF_SCHEMA else value
