"""Values checked by a stranger's JSON Schema, in bounded time.

`jsonschema` alone has no bound: Python's `re` can take for ever on a pattern, and no other thread runs meanwhile; and
where schemas refer twice to the next one, each of them doubles the work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ossia.tools.calls.coerce import children

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_CHECKS, _CHECKS_A_VALUE = 10_000, 100
"""Some 0.1 ms each: checking a value takes no longer than it took the model to write it."""


class CheckTooLong(ValueError):
    """The schema has too much to be checked."""


def faults(value: object, schema: Any, draft: Any = None) -> Iterator[Any]:
    """The faults of a value by a schema, as errors of jsonschema. `draft`: its validator, None: the one of 2020-12.

    Raises CheckTooLong, and referencing's Unresolvable for a `$ref` to elsewhere, which isn't fetched.

        [fault.message for fault in faults({"n": "x"}, {"properties": {"n": {"type": "integer"}}})]
        # ["'x' is not of type 'integer'"]
    """
    from attrs import evolve as changed
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry

    left = _CHECKS + _CHECKS_A_VALUE * _values_in(value)

    def evolve(self: Any, **changes: Any) -> Any:
        """The validator of a part, whatever `$schema` that names."""
        nonlocal left
        left -= 1
        if not left:
            raise CheckTooLong("its schema has too much to check: write it with fewer $ref, anyOf and allOf")
        return changed(self, **changes)

    bounded: Any = extend(draft or Draft202012Validator, _BOUNDED)  # type: ignore[no-untyped-call]
    bounded.evolve = evolve
    try:
        yield from bounded(schema, registry=Registry()).iter_errors(value)
    except RecursionError:
        raise CheckTooLong("its schema, or the value, is too deep") from None


def matches(pattern: str, text: str) -> bool:
    """True if the pattern is found in the text; also for one that no guide can follow."""
    if (known := _matcher(pattern)) is None:
        return True
    matcher = known.deep_copy()
    matcher.consume_tokens(list(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")))
    return bool(matcher.is_accepting())


def _values_in(value: object) -> int:
    count, row = 0, [value]
    while row:
        count += len(row)
        row = [inner for one in row for inner in children(one)]
    return count


# -- the keywords that jsonschema looks at by `re` ---------------------------------------------------------------------


def _pattern(validator: Any, pattern: object, value: object, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(value, str) and isinstance(pattern, str) and not matches(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, object], value: Any, schema: Any) -> Iterator[Any]:
    for pattern, inner in patterns.items() if isinstance(value, dict) else ():
        for name in value:
            if matches(pattern, name):
                yield from validator.descend(value[name], inner, path=name, schema_path=pattern)


def _additional(validator: Any, inner: object, value: object, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(value, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in value:
        if name in known or any(matches(pattern, name) for pattern in patterns):
            continue
        if inner is False:
            yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
        else:
            yield from validator.descend(value[name], inner, path=name)


def _unevaluated(validator: Any, inner: object, value: object, schema: Any) -> Iterator[Any]:
    """No guide can follow it, so that such a schema is refused, unless it allows anything."""
    yield from ()


_BOUNDED = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated,
}


# -- patterns, in a time that grows with the text ----------------------------------------------------------------------


class Bytes:
    """A vocabulary of bytes, as llguidance wants it: 256 is the end."""

    bos_token_id = None
    eos_token_id = 256
    tokens = (*(bytes((byte,)) for byte in range(256)), b"\xff<end>")
    special_token_ids = (256,)

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


@lru_cache(1)
def byte_tokenizer() -> LLTokenizer:
    """The tokenizer of `Bytes`. It takes 0.1 s, once."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(Bytes()), n_vocab=len(Bytes.tokens))


@lru_cache(256)
def _matcher(pattern: str) -> LLMatcher | None:
    from llguidance import LLMatcher

    form = {"type": "string", "pattern": pattern, "x-guidance": {"json_allow_general_unicode_escapes": True}}
    made = LLMatcher(byte_tokenizer(), f"start: value\nvalue: %json {json.dumps(form)}\n", log_level=0)
    return None if made.is_error() else made
