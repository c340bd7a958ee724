"""The schema of the lines of `ossia run --jsonl`: `python -m tests.events_schema` writes docs/events.schema.json.

It is made from `agent.stream.events`: each field of an event must be there, and no other.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from ossia.agent.stream.events import TYPES, VERSION
from tests.support.command import ROOT

PAGE = ROOT / "docs" / "events.schema.json"
_ARGUMENTS = {"type": ["object", "string", "null"]}  # null: a question of MCP's without values
_ABOUT = "A line of `ossia run --jsonl`: docs/programs.md. `turn` counts from 1; `v` is the version of all of them."


def schema() -> dict[str, Any]:
    """The schema, of draft 2020-12."""
    shared: dict[str, Any] = {}
    events = {}
    for event, name in TYPES.items():
        made = TypeAdapter(event).json_schema(ref_template="#/$defs/{model}")
        shared |= made.pop("$defs", {})
        head = {"v": {"const": VERSION}, "type": {"const": name}, "turn": {"type": "integer", "minimum": 1}}
        events[name] = {**made, "description": inspect.cleandoc(event.__doc__ or ""),
                        "properties": head | made["properties"]}  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of ossia",
        "description": _ABOUT,
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in events],
        "$defs": {name: _strict(one) for name, one in (events | shared).items()},
    }


def _strict(made: Any) -> Any:
    """The same with all fields required and no others allowed, numbers from 0, and without titles and defaults."""
    if isinstance(made, list):
        return [_strict(one) for one in made]
    if not isinstance(made, dict):
        return made
    if made.get("type") in ("integer", "number"):
        made = {"minimum": 0} | made
    if isinstance(fields := made.get("properties"), dict):
        fields = {name: _ARGUMENTS if name == "arguments" else _strict(one) for name, one in fields.items()}
        rest = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return {"description": made["description"], **rest}
    return {key: _strict(value) for key, value in made.items() if key not in ("title", "default")}


def text() -> str:
    """The file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


@cache
def _validators() -> Mapping[str, Draft202012Validator]:
    """One for each type: asking all of them of each line takes 20 times as long."""
    whole = json.loads(PAGE.read_text(encoding="utf-8"))
    return {name: Draft202012Validator({**whole, "oneOf": [{"$ref": f"#/$defs/{name}"}]}) for name in TYPES.values()}


def faults(line: Mapping[str, object]) -> Iterator[str]:
    """The faults of a line by the file."""
    validator = _validators().get(str(line.get("type")))
    if validator is None:
        yield f"an unknown type: {str(line)[:200]}"
        return
    for error in validator.iter_errors(line):
        yield f"{error.message[:200]} at {error.json_path} of {str(line)[:200]}"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
