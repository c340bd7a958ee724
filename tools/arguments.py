"""The arguments of a call, read as models write them, and checked against the tool's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tools.spec import ToolFailed, ToolSpec

_FENCED = re.compile(r"\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_SHOWN_CHARS = 600
_NO_ARGUMENTS: Mapping[str, object] = {"type": "object", "additionalProperties": False}


def read_arguments(spec: ToolSpec, text: str) -> object:
    """The arguments that `spec` describes: a dict, or `text` itself for a tool that takes raw text.

    What models are known to write around them is taken off: a Markdown fence, junk behind the first JSON value
    (`{"n": 2}]`), a wrapper that names the tool again (`{"name": "double", "parameters": {"n": 2}}`). No text at all is
    `{}`. Raises `ToolFailed` that tells the model what was expected.
    """
    if spec.input == "text":
        return text
    schema = spec.parameters or _NO_ARGUMENTS
    args = _unwrapped(spec, schema, _first_value(spec, text))
    from jsonschema import Draft202012Validator  # 60 ms, and python alone never needs it

    try:
        fault = next(Draft202012Validator(schema).iter_errors(args), None)
    except RecursionError:
        raise ToolFailed(f"Error: the arguments of {spec.name} are nested too deep. Send simpler ones.") from None
    if fault is not None:
        place = "/".join(map(str, fault.absolute_path)) or "arguments"
        expected = json.dumps(schema, ensure_ascii=False)[:_SHOWN_CHARS]
        raise ToolFailed(f"Error: {place} of {spec.name}: {_short(fault.message)}. Expected {expected}")
    return args


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS // 2]} … {text[-_SHOWN_CHARS // 2 :]}"


def _first_value(spec: ToolSpec, text: str) -> object:
    fenced = _FENCED.fullmatch(text)
    text = (fenced[1] if fenced else text).strip()
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse).raw_decode(text or "{}")
    except (ValueError, RecursionError) as error:
        problem = f"Error: the arguments of {spec.name} are not valid JSON ({error}). Send one JSON object."
        raise ToolFailed(problem) from None
    if any(opening in text[end:] for opening in "{["):
        raise ToolFailed(f"Error: {spec.name} got more than one JSON value. Send one call with one JSON object.")
    return value


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unwrapped(spec: ToolSpec, schema: Mapping[str, object], value: object) -> object:
    """The inner arguments of `{"name": …, "parameters": {…}}`, unless the tool has such arguments itself."""
    properties = schema.get("properties")
    own = properties if isinstance(properties, dict) else {}
    if not isinstance(value, dict) or value.get("name") not in (spec.name, spec.name.rpartition(".")[2]):
        return value
    for key in ("parameters", "arguments"):
        if set(value) == {"name", key} and key not in own and isinstance(value[key], dict):
            return value[key]
    return value
