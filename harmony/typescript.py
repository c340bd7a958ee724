"""JSON Schema → the TypeScript-like text in which the model was trained to read the parameters of functions.

It is lossy, and keeps the reference library's habits to the character, the odd ones too, since this is the text that
the model knows: `enum` counts for strings only, `anyOf`, `allOf`, `$ref` and `const` are `any`, names and texts are
not escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ossia.harmony.reader import compact_json

_NESTED_PROPERTY = "    "
_NESTED_VARIANT = "   "


def typescript(schema: object, indent: str = "") -> str:
    """The type that `schema` (JSON: mappings, sequences, strings, numbers, bool, None) describes.

    Lines after the first begin with `indent`. Raises `RenderError` when a default holds something that isn't JSON.

        typescript({"type": "object", "properties": {"city": {"type": "string", "default": "Rome"}}})
        # '{\\ncity?: string, // default: "Rome"\\n}'
    """
    variants = _array(schema, "oneOf")
    if variants is not None:
        return "".join(_variant(variant, indent) for variant in variants)
    match _get(schema, "type"):
        case "object":
            return _object(schema, indent)
        case "array":
            return f"{typescript(_get(schema, 'items'), indent)}[]" if _has(schema, "items") else "Array<any>"
        case "string":
            return " | ".join(f'"{value}"' for value in _strings(schema, "enum")) or "string"
        case "number" | "integer":
            return "number"
        case "boolean":
            return "boolean"
        case list() | tuple():
            kinds = ["number" if kind == "integer" else kind for kind in _strings(schema, "type")]
            return " | ".join(kinds) if kinds else "any"
        case _:
            return "any"


def _object(schema: object, indent: str) -> str:
    description = _string(schema, "description")
    properties = _get(schema, "properties")
    required = _strings(schema, "required")
    parts = [] if description is None else [f"{indent}// {description}\n"]
    parts.append("{\n")
    if isinstance(properties, Mapping):
        for key, value in properties.items():
            parts.append(_property(key if key in required else f"{key}?", value, indent))
    parts.append(f"{indent}}}")
    return "".join(parts)


def _property(name: str, schema: object, indent: str) -> str:
    """The lines of one property; `name` has its question mark already."""
    lines = []
    if (title := _string(schema, "title")) is not None:
        lines += [f"// {title}", "//"]
    plain = not _has(schema, "oneOf")
    if plain and (description := _string(schema, "description")) is not None:
        lines.append(f"// {description}")
    if _array(schema, "examples"):
        lines += ["// Examples:", *(f'// - "{example}"' for example in _strings(schema, "examples"))]
    if (variants := _array(schema, "oneOf")) is not None:
        lines += _alternatives(name, schema, variants, indent)
    else:
        default = _default(schema) if plain else None
        comment = "" if default is None else f" // {default}"
        lines.append(f"{name}: {_nullable(schema, indent + _NESTED_PROPERTY)},{comment}")
    return "".join(f"{indent}{line}\n" for line in lines)


def _alternatives(name: str, schema: object, variants: Sequence[object], indent: str) -> list[str]:
    """The lines of a property with `oneOf`: one for each variant, under the property's own description and default.

    A description that the first variant has as well is written nowhere: a habit of the reference.
    """
    description = _string(schema, "description")
    first = _string(variants[0], "description") if variants else None
    shown = description is not None and description != first
    lines = [f"// {description}"] if shown else []
    if (default := _default(schema)) is not None:
        lines.append(f"// {default}")
    lines.append(f"{name}:")
    for index, variant in enumerate(variants):
        text = _string(variant, "description")
        if (index == 0 and shown) or text == description:
            text = None
        comment = _comment(text, _default(variant))
        lines.append(f" | {_nullable(variant, indent + _NESTED_VARIANT)}{comment}")
    lines.append(",")
    return lines


def _variant(schema: object, indent: str) -> str:
    """One variant of a `oneOf` that isn't a property's."""
    comment = _comment(_string(schema, "description"), _default(schema, with_enum="quoted"))
    return f"\n{indent} | {_nullable(schema, indent + _NESTED_VARIANT)}{comment}"


def _comment(*parts: str | None) -> str:
    present = [part for part in parts if part is not None]
    return f" // {' '.join(present)}" if present else ""


def _default(schema: object, *, with_enum: Literal["bare", "quoted"] = "bare") -> str | None:
    """`default: 10`. A string stands in quotes, unescaped; that of an enum stands bare, or as JSON with "quoted"."""
    if not _has(schema, "default"):
        return None
    value = _get(schema, "default")
    if not isinstance(value, str):
        return f"default: {compact_json(value)}"
    if not _array(schema, "enum"):
        return f'default: "{value}"'
    return f"default: {value}" if with_enum == "bare" else f"default: {compact_json(value)}"


def _nullable(schema: object, indent: str) -> str:
    """The type, with ` | null` where `nullable` says so, unless "null" stands anywhere in it already."""
    text = typescript(schema, indent)
    return f"{text} | null" if _get(schema, "nullable") is True and "null" not in text else text


# A key of something that isn't an object is absent, as is a value of another kind than asked for.


def _has(schema: object, key: str) -> bool:
    return isinstance(schema, Mapping) and key in schema


def _get(schema: object, key: str) -> object:
    return schema.get(key) if isinstance(schema, Mapping) else None


def _string(schema: object, key: str) -> str | None:
    value = _get(schema, key)
    return value if isinstance(value, str) else None


def _array(schema: object, key: str) -> Sequence[object] | None:
    value = _get(schema, key)
    return value if isinstance(value, (list, tuple)) else None


def _strings(schema: object, key: str) -> list[str]:
    return [item for item in _array(schema, key) or () if isinstance(item, str)]
