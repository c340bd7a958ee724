"""The `schema` of a question: a JSON Schema, or a type that answers are made into."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from inspect import isroutine
from typing import TYPE_CHECKING, Any

from ossia.agent.errors import SchemaUnusable
from ossia.agent.schema import NAME, not_enforced, require_usable
from ossia.api.host import LOG
from ossia.harmony.messages import ResponseFormat

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_EXPECTED = "expected a dict (a JSON Schema), a dataclass, a TypedDict, a pydantic model or another type"
_LEFT_TO_PYDANTIC = ("uniqueItems", "propertyNames", "discriminator", "contentMediaType", "contentSchema", "writeOnly")
"""Keywords of types that the guide can't hold an answer to. Pydantic checks such answers when it reads them."""
_MAX_FAULTS = 5


def read(schema: object) -> tuple[ResponseFormat, Callable[[str], object]]:
    """The form that answers are held to, and the reader of such an answer.

    The reader returns an instance of a type, the JSON of a dict; it raises ValueError, in one line, for an answer that
    a validator of the type refuses. An object of a type has no properties but its own. Raises SchemaUnusable, in one
    line that names the keyword or the field, when answers can't be held to it.

        form, data = read(Trip)
        data('{"city": "Seoul", "days": 2}')  →  Trip(city='Seoul', days=2)
    """
    reader: Callable[[str], object]
    if isinstance(schema, Mapping):
        plain, reader = dict(schema), json.loads
    else:
        adapter = _adapter(schema)
        plain, reader = _guidable(_schema_of(adapter)), partial(_instance, adapter)
    try:
        require_usable(plain)
    except SchemaUnusable as fault:
        raise SchemaUnusable(f"schema: {fault}") from None
    if ignored := not_enforced(plain):
        LOG.warning("schema: %s", ignored)
    return ResponseFormat(NAME, plain), reader


def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    if isinstance(kind, str | bytes) or isroutine(kind):  # pydantic would look the name up, and call the function
        raise SchemaUnusable(f"schema: {_EXPECTED}, not {kind!r:.60}")
    try:
        return TypeAdapter(kind)
    except Exception as fault:  # pydantic's own kinds, a hint without a type, an invalid pattern
        raise SchemaUnusable(f"schema: {_EXPECTED}, not {kind!r:.60} ({_line(fault)})") from fault


def _schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        """Without a title for each field, which says what its name says."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    try:
        return adapter.json_schema(schema_generator=Plain)
    except Exception as fault:  # as above
        raise SchemaUnusable(f"schema: a field has a type that JSON can't express ({_line(fault)})") from fault


def _guidable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a type, as the guide can follow it: no other properties, no unknown formats, no `oneOf`."""
    from ossia.agent.guide.schemas import FORMATS, each_schema

    def inner(one: object) -> object:
        return _guidable(one) if isinstance(one, Mapping) else one

    kept = {
        "anyOf" if word == "oneOf" else word: each_schema(word, value, inner)
        for word, value in schema.items()
        if word not in _LEFT_TO_PYDANTIC and not (word == "format" and value not in FORMATS)
    }
    if "properties" in kept:
        kept.setdefault("additionalProperties", False)
    return kept


def _instance(adapter: TypeAdapter[Any], text: str) -> object:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        lines = [f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}" for fault in faults]
        more = f" (and {len(lines) - _MAX_FAULTS} more)" if len(lines) > _MAX_FAULTS else ""
        raise ValueError("; ".join(lines[:_MAX_FAULTS]) + more) from error


def _line(fault: Exception) -> str:
    """The first sentence of it: the next one names a setting of pydantic."""
    return " ".join(str(fault).partition(". ")[0].split())[:300] or type(fault).__name__
