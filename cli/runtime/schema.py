"""The schema of an answer in JSON (`ossia run --schema`, `/schema`), read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ossia.agent.errors import SchemaUnusable
from ossia.agent.schema import NAME, not_enforced, require_usable
from ossia.agent.worker import Worker, awaited
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitError
from ossia.cli.paths import expanded
from ossia.cli.runtime.schema_line import EXAMPLE, from_line, several
from ossia.harmony.messages import ResponseFormat

_WRAPS = ("name", "schema", "strict", "description")
_MAX_BYTES = 1 << 20  # of a file: more is not read; what can be followed is less


def read_schema(
    given: str, *, of: str, warn: Callable[[str], object], multi: bool = False, files: bool = True
) -> ResponseFormat:
    """The schema in a file, written out (`{"type": "object", …}`), or a line (`name, age int, tags[]`).

    `of`: who asks, for errors ("--schema"). `multi`: the schema of `{"items": […]}`, with that one for each item. Not
    `files`: it can't name a file.

    It may stand in the form that OpenAI's API takes: `{"name": …, "strict": true, "schema": {…}}`. Raises ExitError, in
    one line that names the keyword, when no answer could be sampled or checked by it.
    """
    if not given.strip():
        raise ExitError(f"{of}: is empty; give a file, a schema, which begins with {{, or a line such as {EXAMPLE}")
    where, text = of, given if given.lstrip().startswith("{") else None
    if text is None and _names_file(given, files=files):
        if not files:
            raise ExitError(f"{of}: must be a schema, written out or as a line such as {EXAMPLE}: no file is read")
        where, text = f"{of} {one_line(given, 200)}", _read(given, of)
    try:
        schema = from_line(given, of) if text is None else _unwrapped(json.loads(text))
        schema = several(schema) if multi else schema
        _require_usable(schema)
    except (ValueError, RecursionError) as error:
        raise ExitError(f"{where}: not a JSON Schema: {one_line(str(error), 200)}") from None
    except SchemaUnusable as error:
        raise ExitError(f"{where}: this schema can't be used: {one_line(str(error), 400)}") from None
    if ignored := not_enforced(schema):
        warn(f"{where}: {ignored}")
    return ResponseFormat(NAME, schema)


def _unwrapped(schema: Any) -> Any:
    """The schema inside OpenAI's `response_format` or `json_schema`; any other as it is."""
    if not isinstance(schema, dict):
        return schema
    inner = schema.get("json_schema") if schema.get("type") == "json_schema" else schema
    if not isinstance(inner, dict) or not {"name", "schema"} <= inner.keys() <= {*_WRAPS}:
        return schema
    return inner["schema"]


def _require_usable(schema: Any) -> None:
    """Raises SchemaUnusable. On a thread of its own: the compiler would take Ctrl-C for a fault of the schema."""
    worker = Worker()
    try:
        awaited(worker.submit(lambda: require_usable(schema)))
    finally:
        worker.close(0)


def _names_file(given: str, *, files: bool) -> bool:
    """Does it name a file, rather than properties? One that exists, if `files`, or a word like `person.json`."""
    path = expanded(given)
    try:
        if files and path.exists():
            return True
    except OSError:  # too long for a name
        return False
    return len(given.split()) == 1 and "," not in given and (path.suffix == ".json" or "/" in given)


def _read(name: str, of: str) -> str:
    try:
        with expanded(name).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        fault = f"{error.strerror} (a schema begins with {{; a line is such as {EXAMPLE})"
        raise ExitError(f"{of}: can't read {one_line(name, 200)}: {fault}") from None
    if len(content) > _MAX_BYTES:
        raise ExitError(f"{of} {one_line(name, 200)}: is larger than {_MAX_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ExitError(f"{of} {one_line(name, 200)}: not UTF-8 text") from None
