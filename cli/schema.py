"""An answer in JSON by a schema (`ossia run --schema`, `/schema`): reading the schema, checking the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli.clean import one_line
from cli.exits import ExitCode, ExitError
from harmony.messages import ResponseFormat

NAME = "answer"
"""How the model is told of it."""
_MAX_BYTES = 1 << 20  # what is read; less can be followed


def read_schema(given: str, *, of: str) -> ResponseFormat:
    """The schema in a file, or written out: `{"type": "object", …}`. `of`: who asks, for errors ("--schema").

    Raises ExitError, in one line that names the keyword, when no answer could be sampled by it.
    """
    from agent.errors import SchemaUnusable
    from agent.guide import require_usable

    text, where = (given, of) if given.lstrip().startswith("{") else (_read(given, of), f"{of} {one_line(given, 200)}")
    try:
        schema = json.loads(text)
        require_usable(schema, known_only=True)
    except (ValueError, RecursionError) as error:
        raise ExitError(f"{where}: expected a JSON Schema: {one_line(str(error), 200)}", ExitCode.USAGE) from None
    except SchemaUnusable as error:
        raise ExitError(f"{where}: this schema can't be used: {one_line(str(error), 400)}", ExitCode.USAGE) from None
    return ResponseFormat(NAME, schema)


def fault_of(text: str, schema: Any) -> str | None:
    """What is wrong with an answer by its schema: `"it is no JSON (…)"`. None: nothing."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({one_line(str(error), 200)})"
    kind = validator_for(schema, default=Draft202012Validator)
    fault = best_match(kind(schema).iter_errors(value))
    return None if fault is None else f"{one_line(fault.message, 200)} (at {fault.json_path})"


def _read(name: str, of: str) -> str:
    path = Path(name)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        reason = f"can't read {one_line(name, 200)}: {error.strerror}"
        raise ExitError(f"{of}: expected a file, or a schema that begins with {{: {reason}", ExitCode.USAGE) from None
    if len(content) > _MAX_BYTES:
        raise ExitError(f"{of} {one_line(name, 200)}: has more than {_MAX_BYTES >> 20} MiB", ExitCode.USAGE)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ExitError(f"{of} {one_line(name, 200)}: expected UTF-8 text", ExitCode.USAGE) from None
