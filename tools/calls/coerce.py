"""Values as models write them: JSON that is almost right, and the types that a JSON Schema asks for.

JSON is read with fences, trailing commas, single quotes, Python's constants and text around it; every step is linear in
the length of the text. A value is converted to a schema's type if there is only one way to do so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

_WHOLE = re.compile(r"[+-]?\d{1,18}(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_TRUTH = {"true": True, "false": False, "yes": True, "no": False}
_OPEN = frozenset({"patternProperties", "allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if"})
"""Keywords that may allow more properties than `properties` does."""
_HARMLESS: tuple[object, ...] = (None, "", [], {})
MAX_CHARS = 2_000_000
"""Longer arguments are refused: a whole context of 131,072 tokens is half a million characters."""
MAX_DEPTH = 64
_FENCE = re.compile(r"```[\w+-]*[ \t]*")
_TOKEN = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*(?:"|\Z))"""
    r"""|(?P<single>'(?:[^'\\]|\\.)*(?:'|\Z))"""
    r"""|(?P<comma>,(?=\s*[}\]]))"""
    r"""|(?P<word>[A-Za-z_$][\w$-]*)(?P<colon>\s*:)?""",
    re.DOTALL,
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_STRING_IN_SINGLE = re.compile(r"""\\'|\\.|\"""", re.DOTALL)


class Misfit(ValueError):
    """A value can't be converted; the message says which and why: `Error: functions.weather: {it}`."""


def children(value: object) -> list[Any]:
    """The values of an object, the items of an array; none of anything else."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def fitted(value: object, schema: Mapping[str, object], *, depth: int = 0) -> object:
    """`value`, its numbers, texts and lists turned into what `schema` asks for.

    `"3"` and 3.0 become 3 if an integer is wanted; 3 becomes `"3"` if a text is wanted; a JSON text becomes a list or
    an object; a single value becomes a list of it; a null that isn't allowed is removed. What doesn't fit stays as it
    is: a validator explains it better. Raises Misfit for names that the schema doesn't know, for NUL characters, and
    beyond 64 levels.
    """
    if depth > MAX_DEPTH:
        raise Misfit(f"the arguments are nested too deep (more than {MAX_DEPTH} levels)")
    kinds = _kinds(schema)
    value = _of_kind(value, kinds)
    if isinstance(value, dict):
        return _fitted_object(value, schema, depth)
    if isinstance(value, list):
        items = mapping(schema.get("items"))
        return [fitted(item, items, depth=depth + 1) for item in value]
    if isinstance(value, str):
        if "\0" in value:
            raise Misfit("the arguments hold a NUL character")
        return _encodable(value)
    return value


def closed(schema: Mapping[str, object], *, depth: int = 0) -> Mapping[str, object]:
    """The schema, with `additionalProperties` false wherever `fitted` refuses a property that isn't named.

    `closed({"properties": {"n": {}}})` is `{"properties": {"n": {}}, "additionalProperties": False}`.
    """
    if depth > MAX_DEPTH:
        return schema
    properties = mapping(schema.get("properties"))
    parts: dict[str, object] = {}
    if properties:
        parts["properties"] = {key: _closed_part(part, depth) for key, part in properties.items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            parts[key] = _closed_part(schema[key], depth)
    return {**schema, **parts} | ({"additionalProperties": False} if _is_closed(schema) else {})


def _closed_part(part: object, depth: int) -> object:
    return closed(part, depth=depth + 1) if isinstance(part, Mapping) else part


def _is_closed(schema: Mapping[str, object]) -> bool:
    """True if the properties that it names are the only ones."""
    more = schema.get("additionalProperties")
    return more is False or (more is None and bool(mapping(schema.get("properties"))) and _OPEN.isdisjoint(schema))


def _kinds(schema: Mapping[str, object]) -> frozenset[str]:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return frozenset({kinds})
    names = kinds if isinstance(kinds, list | tuple) else ()
    return frozenset(kind for kind in names if isinstance(kind, str))


def _of_kind(value: object, kinds: frozenset[str]) -> object:
    """The value converted to one of these JSON types, if it has none of them and only one conversion makes sense."""
    if not kinds:
        return value
    if isinstance(value, str):
        return value if "string" in kinds else _of_text(value, kinds)
    if isinstance(value, float) and value.is_integer() and "integer" in kinds and "number" not in kinds:
        return int(value)
    if isinstance(value, bool | int | float) and kinds == {"string"}:
        return json.dumps(value)
    if isinstance(value, int) and value in (0, 1) and kinds == {"boolean"}:
        return bool(value)
    if "array" in kinds and value is not None and not kinds & _names_of(value):
        return [value]
    return value


def _names_of(value: object) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"number", "integer"}
    return {"array"} if isinstance(value, list) else {"object"} if isinstance(value, dict) else set()


def _of_text(text: str, kinds: frozenset[str]) -> object:
    """The value that a text stands for if another type is wanted."""
    bare = text.strip()
    if kinds & {"integer", "number"} and _WHOLE.fullmatch(bare):
        return int(bare.partition(".")[0])
    if "number" in kinds and _NUMBER.fullmatch(bare):
        return float(bare)
    if "boolean" in kinds and bare.lower() in _TRUTH:
        return _TRUTH[bare.lower()]
    if "null" in kinds and bare.lower() in ("null", "none", ""):
        return None
    if kinds & {"array", "object"} and bare.startswith(("[", "{", '"')):
        try:
            inner = innermost(bare)
        except NotJsonError:
            inner = text
        if _names_of(inner) & kinds or not bare.startswith('"'):
            return inner if _names_of(inner) & kinds else text
    return [text] if "array" in kinds else text


def _fitted_object(value: dict[str, object], schema: Mapping[str, object], depth: int) -> dict[str, object]:
    properties = mapping(schema.get("properties"))
    rest: Mapping[str, object] = mapping(schema.get("additionalProperties"))
    value = {_own_name(key, value, properties): item for key, item in value.items()}
    unknown = [key for key in value if key not in properties]
    if unknown and _is_closed(schema):
        bad = [key for key in unknown if value[key] not in _HARMLESS]
        if bad:
            raise Misfit(_unknown(bad, properties))
        value = {key: item for key, item in value.items() if key in properties}
    required = schema.get("required")
    musts = set(required) if isinstance(required, list | tuple) else set()
    return {
        _encodable(key): fitted(item, mapping(properties.get(key, rest)), depth=depth + 1)
        for key, item in value.items()
        if not (item is None and key not in musts and _refuses_null(properties.get(key)))
    }


def _own_name(key: str, value: Mapping[str, object], properties: Mapping[str, object]) -> str:
    """The schema's name for `filePath`, `file-path` or `FILE_PATH`, unless that is given, too."""
    if key in properties:
        return key
    plain = _plain(key)
    return next((name for name in properties if _plain(name) == plain and name not in value), key)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _unknown(names: list[str], properties: Mapping[str, object]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:5])
    valid = ", ".join(list(properties)[:40])
    return f"unknown argument{'' if len(names) == 1 else 's'} {shown} " + (
        f"(it has: {valid})" if valid else "(it takes no arguments)"
    )


def _refuses_null(schema: object) -> bool:
    kinds = _kinds(mapping(schema))
    return bool(kinds) and "null" not in kinds


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


# -- JSON that is almost right -----------------------------------------------------------------------------------------


class NotJsonError(ValueError):
    """The text isn't JSON, even allowing for the usual mistakes; the message says what is wrong with it."""


def unfenced(text: str) -> str:
    """The content of a Markdown fence around the whole text; without one, the text without blanks around it."""
    text = text.strip()
    first, _, rest = text.partition("\n")
    if len(text) < 6 or not rest or not _FENCE.fullmatch(first) or not rest.endswith("```"):
        return text
    return rest.removesuffix("```").rstrip(" \t").removesuffix("\n")


def first_value(text: str) -> object:
    """The one JSON value in a text. Raises NotJsonError, also if there are two values."""
    try:
        return _decoded(text)
    except NotJsonError:
        raise
    except (ValueError, RecursionError) as error:
        first = error
    try:
        return _decoded(_TOKEN.sub(_mended, text))
    except NotJsonError:
        raise
    except (ValueError, RecursionError):
        raise NotJsonError(f"not valid JSON ({first})") from None


def innermost(text: str) -> object:
    r"""As `first_value`; if that is a text with JSON in it, the value there, and so on.

    `innermost('"{\"n\": 2}"')` is `{"n": 2}`, `innermost('"[sic] a text"')` is `"[sic] a text"`.
    """
    value = first_value(text)
    while isinstance(value, str) and (inner := value.strip()).startswith(("{", "[", '"')):
        try:
            value = first_value(inner)
        except NotJsonError:
            break
    return value


def _decoded(text: str) -> object:
    decoder = json.JSONDecoder(**STRICT, strict=False)
    value, end = decoder.raw_decode(text)
    if any(opening in text[end:] for opening in "{["):
        raise NotJsonError("more than one JSON value. Send one call with one JSON object")
    return value


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


STRICT: Final[Mapping[str, Any]] = {"parse_constant": _refuse, "parse_float": _finite}
"""For `json.loads`: NaN, infinity and 1e999, which couldn't be written as JSON again, are a ValueError."""


def _mended(match: re.Match[str]) -> str:
    if match["single"] is not None:
        inner = match["single"][1:-1] if match["single"].endswith("'") else match["single"][1:]
        return '"' + _STRING_IN_SINGLE.sub(lambda one: {"\\'": "'", '"': '\\"'}.get(one[0], one[0]), inner) + '"'
    if match["comma"] is not None:
        return ""
    if match["word"] is not None:
        word, colon = match["word"], match["colon"]
        return _CONSTANTS.get(word, word) if colon is None else f'"{word}"{colon}'
    return match[0]
