"""A JSON Schema for answers: may it be used, and does an answer follow it?"""

from __future__ import annotations

import json
from typing import Any

from ossia.agent.errors import SchemaUnusable
from ossia.tools.calls.checked import CheckTooLong, faults
from ossia.tools.calls.coerce import STRICT

NAME = "answer"
"""The name of the schema in the prompt."""
_CHARS = 200  # of a library's message


def require_usable(schema: Any) -> None:
    """Raise SchemaUnusable, in one line that names the keyword, if no answer can be sampled or checked by it."""
    from jsonschema.exceptions import SchemaError

    from ossia.agent.guide import require_usable as require_guidable

    require_guidable(schema)
    try:
        _draft_of(schema).check_schema(schema)  # a pattern that Python doesn't know is a fault, too
    except SchemaError as error:
        raise SchemaUnusable(f"{_line(error.message)} (at {error.json_path})") from None


def fault_of(text: str, schema: Any) -> str | None:
    """The fault of an answer by its schema: `"it isn't JSON (…)"`. None: it follows it. No `$ref` is fetched."""
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        value = json.loads(text, **STRICT)
        fault = best_match(faults(value, schema, _draft_of(schema)))
    except CheckTooLong as error:
        return f"it can't be checked: {error}"
    except (ValueError, RecursionError) as error:
        return f"it isn't JSON ({_line(str(error))})"
    except Unresolvable as error:
        return f"its schema refers to something that isn't in it ({_line(str(error))})"
    return None if fault is None else f"{_line(fault.message)} (at {fault.json_path})"


def not_enforced(schema: Any) -> str:
    """A warning on the keywords of a usable schema that hold an answer to nothing; "" without such."""
    from ossia.agent.guide import idle_keywords

    words = idle_keywords(schema)
    null = '; where null may stand, write {"type": ["string", "null"]}' if "nullable" in words else ""
    return f"ignored, since it restricts nothing: {', '.join(words)}{null}" if words else ""


def _draft_of(schema: Any) -> Any:
    from jsonschema.validators import Draft202012Validator, validator_for

    named = isinstance(schema, dict) and isinstance(schema.get("$schema"), str)
    return validator_for(schema, default=Draft202012Validator) if named else Draft202012Validator


def _line(message: str) -> str:
    flat = " ".join(message.split())
    return flat if len(flat) <= _CHARS else f"{flat[: _CHARS - 1]}…"
