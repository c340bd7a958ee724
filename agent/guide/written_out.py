"""The size and the depth of a JSON Schema as llguidance compiles it.

It writes out each `$ref` where several parts hold for one value (`allOf`, or a `$ref` with something beside it), and
follows references by recursion. Of 30 lines that refer twice to the next one it makes gigabytes, and of 900 that refer
once a stack that overflows, which ends the process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ossia.tools.calls.coerce import children

if TYPE_CHECKING:
    from referencing._core import Resolver

_TOGETHER = frozenset(("allOf", "anyOf", "oneOf", "$ref", "enum"))
_IDLE = frozenset(("$comment", "$defs", "$id", "$schema", "definitions", "description", "title"))
_BY_NAME = frozenset(("properties", "patternProperties"))
_MOST = 1 << 40


class Size(NamedTuple):
    """A schema with all that it refers to: the choices that it gives, their bytes in all, and its levels."""

    choices: int = 1
    length: int = 0
    levels: int = 0


def written_out(schema: Mapping[str, Any]) -> Size:
    """The most bytes that are written out, and the most levels; 2**40 for what has no end that can be found.

        written_out({"items": {"type": "string"}})       # Size(choices=1, length=0, levels=2): nothing is written out
    """
    sizes = _Sizes()
    try:
        return Size(levels=sizes.of(schema, _resolver(schema)).levels, length=sizes.longest)
    except RecursionError:
        return Size(levels=_MOST)


def _resolver(schema: Any) -> Resolver[Any]:
    from referencing import Registry

    return Registry().resolver_with_root(_resource(schema))


def _resource(schema: Any) -> Any:
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    return Resource.from_contents(schema, default_specification=DRAFT202012)


class _Sizes:
    """The sizes of a schema's parts. `longest`: the bytes of the largest one that is written out."""

    def __init__(self) -> None:
        self.longest = 0
        self._known: dict[int, Size] = {}

    def of(self, schema: object, resolver: Resolver[Any]) -> Size:
        """The size of a part; of anything else its text's."""
        if not isinstance(schema, dict):
            return Size(length=len(json.dumps(schema)))
        if id(schema) not in self._known:
            self._known[id(schema)] = Size()  # within itself: there llguidance names it, or refuses it
            if isinstance(schema.get("$id", schema.get("id")), str):
                resolver = resolver.in_subresource(_resource(schema))
            self._known[id(schema)] = self._all_of(self._held_together(schema, resolver))
        return self._known[id(schema)]

    def _all_of(self, parts: list[Size]) -> Size:
        choices, length, levels = 1, 0, 0
        for one in parts:
            length = min(length * one.choices + one.length * choices, _MOST)
            choices, levels = min(choices * one.choices, _MOST), max(levels, one.levels)
        if len(parts) > 1:
            self.longest = max(self.longest, length)
        return Size(choices, length, levels + 1)

    def _held_together(self, schema: dict[str, Any], resolver: Resolver[Any]) -> list[Size]:
        """The sizes of the parts that all hold for one value. What only names schemas is read where it is named."""
        parts = [self.of(one, resolver) for one in children(schema.get("allOf"))]
        for word in ("anyOf", "oneOf"):
            if choices := [self.of(one, resolver) for one in children(schema.get(word))]:
                parts.append(_sum(choices))
        if isinstance(reference := schema.get("$ref"), str):
            parts.append(self._target(reference, resolver))
        if values := children(schema.get("enum")):
            parts.append(Size(len(values), len(json.dumps(values))))
        own = {word: value for word, value in schema.items() if word not in _TOGETHER | _IDLE}
        if own.keys() - {"type"}:
            inner = [one for word, value in own.items() for one in _values(word, value)]
            parts.append(_sum([self.of(one, resolver) for one in inner])._replace(choices=1))
        return parts

    def _target(self, reference: str, resolver: Resolver[Any]) -> Size:
        from referencing.exceptions import Unresolvable

        try:
            found = resolver.lookup(reference)
        except Unresolvable:  # llguidance says so
            return Size()
        return self.of(found.contents, found.resolver)


def _values(word: str, value: object) -> list[Any]:
    return children(value) if word in _BY_NAME or isinstance(value, list | tuple) else [value]


def _sum(sizes: list[Size]) -> Size:
    choices, lengths = sum(one.choices for one in sizes), sum(one.length for one in sizes)
    return Size(min(choices, _MOST), min(lengths, _MOST), max((one.levels for one in sizes), default=0))
