"""JSON as models write it → a value: fences, trailing commas, single quotes, Python's constants, text around it.

Every step is linear in the length of the text.
"""

from __future__ import annotations

import json
import math
import re

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
    decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, strict=False)
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
