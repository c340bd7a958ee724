"""Random conversations and schemas, meant to be awkward: for comparing renders with the reference library.

Everything comes from one `random.Random`, so a seed names a case. The floats are those that `read_alike` accepts: the
reference's JSON reader (serde_json) is one unit off on some others, and that is not imitated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar, get_args

from ossia.harmony.messages import (
    ChannelConfig,
    Content,
    DeveloperPrompt,
    Effort,
    FunctionDecl,
    Message,
    Namespace,
    Role,
    SystemPrompt,
)

T = TypeVar("T")

PIECES = (
    *("", "", " ", "\n", "\r\n", "\r", "\n\n", "\t", "  ", "\u2028", "\u0085", "\v", "\x1c", "\0", "\ufeff", "\u3000"),
    *("a", "the", "hello", "Weather", "don't", "I'LL", "3.14", "12345", "null", "null_x", "json", "code", "=", "//"),
    *("日本", "é", "e\u0301", "\U0001f469\u200d\U0001f467", "\u2011", "…", '"', "\\", "`", "assistant", " to="),
    *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>", "<|endoftext|>"),
    *("<|reserved_200013|>", "to=functions.f"),
)
CHANNELS = ("analysis", "analysis", "final", "final", "commentary", "commentary", "", "a b", "Final", "<|end|>")
RECIPIENTS = ("functions.f", "python", "browser.search", "all", "assistant", "", "a b", "user", "<|call|>")
TYPES = ("json", "code", "<|constrain|>json", "<|constrain|>", "<|constrain|> json", "", "x<|constrain|>y", "<|cons")
KINDS = ("string", "number", "integer", "boolean", "array", "object", "object", "object", "null", "any", "", "String")
NAMES = ("functions", "functions", "browser", "python", "Z", "a", "é", "𐀀", "\uffff", "", "a b", "x.y")


def read_alike(number: float) -> bool:
    """Whether a reader that multiplies the digits by a power of ten, as serde_json does, gets exactly `number`.

    True when the digits as JSON shows them (`737.0` has 4) are at most 2**53 and the power is from -22 to 22.
    """
    _, digits, exponent = Decimal(repr(number)).as_tuple()
    return int("".join(map(str, digits))) <= 2**53 and abs(int(exponent)) <= 22


class Hostile:
    """`Hostile(random.Random(7)).conversation()`: 0 to 8 messages of every kind that the reference accepts."""

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self._pick = source.choice

    def conversation(self) -> list[Message]:
        return [self.message() for _ in range(self._random.randrange(9))]

    def message(self) -> Message:
        role: Role = self._pick((*get_args(Role), "assistant", "assistant"))
        return Message(
            role,
            tuple(self._content(role) for _ in range(self._pick((0, 1, 1, 1, 1, 2, 3)))),
            name=self.text() if role == "tool" or self._chance(0.1) else None,
            recipient=self._maybe(0.4, lambda: self._pick(RECIPIENTS)),
            channel=self._maybe(0.7, lambda: self._pick(CHANNELS)),
            content_type=self._maybe(0.3, lambda: self._pick(TYPES)),
        )

    def text(self) -> str:
        return "".join(self._pick(PIECES) for _ in range(self._random.randrange(6)))

    def schema(self, depth: int = 4) -> Any:
        """A schema, or what somebody took for one: wrong kinds of values stand in every place."""
        if depth == 0 or self._chance(0.05):
            return self._value(1)
        entries: dict[str, Callable[[], Any]] = {
            "type": lambda: self._kind(),
            "description": lambda: self._odd(self.text),
            "title": lambda: self._odd(self.text),
            "enum": lambda: self._odd(lambda: [self._odd(self.text) for _ in range(self._random.randrange(4))]),
            "default": lambda: self._value(2),
            "nullable": lambda: self._pick((True, True, False, None, "true", 1)),
            "examples": lambda: self._odd(lambda: [self._value(1) for _ in range(self._random.randrange(3))]),
            "items": lambda: self._odd(lambda: self.schema(depth - 1)),
            "properties": lambda: self._odd(lambda: self._properties(depth - 1)),
            "required": lambda: self._odd(lambda: [self._odd(self._key) for _ in range(self._random.randrange(4))]),
            "oneOf": lambda: self._odd(lambda: self._variants(depth - 1)),
            "anyOf": lambda: [self.schema(depth - 1)],
            "const": lambda: self._value(1),
            "additionalProperties": lambda: False,
        }
        likely = {"type": 0.9, "properties": 0.6, "items": 0.4, "oneOf": 0.2, "anyOf": 0.03, "const": 0.03}
        keys = list(entries)
        self._random.shuffle(keys)
        return {key: entries[key]() for key in keys if self._chance(likely.get(key, 0.3))}

    def _variants(self, depth: int) -> list[Any]:
        """Variants of a `oneOf`; now and then two share a description, which the reference treats specially."""
        variants = [self.schema(depth) for _ in range(self._random.randrange(4))]
        for variant in variants:
            if isinstance(variant, dict) and self._chance(0.4):
                variant["description"] = "same"
        return variants

    def _properties(self, depth: int) -> dict[str, Any]:
        properties = {self._key(): self.schema(depth) for _ in range(self._random.randrange(4))}
        for value in properties.values():
            if isinstance(value, dict) and "oneOf" in value and self._chance(0.5):
                value["description"] = "same"
        return properties

    def _key(self) -> str:
        return self._pick(("a", "b", "c", "null_x", "", "ключ", self.text()))

    def _kind(self) -> Any:
        if self._chance(0.15):
            return [self._pick((*KINDS, 3, None)) for _ in range(self._random.randrange(4))]
        return self._odd(lambda: self._pick(KINDS))

    def _value(self, depth: int) -> Any:
        """Any JSON value, not deeper than `depth`."""
        simple: tuple[Callable[[], Any], ...] = (
            self.text,
            self.text,
            self.number,
            self.number,
            lambda: self._pick((None, True, False, [], {})),
            lambda: self._pick(("\x00\x1f\x7f\u0080", '"\\/\b\f\n\r\t', "\U0001f600\u2028")),
        )
        if depth and self._chance(0.3):
            values = [self._value(depth - 1) for _ in range(self._random.randrange(3))]
            return values if self._chance(0.5) else {self._key(): value for value in values}
        return self._pick(simple)()

    def number(self) -> int | float:
        """Integers of all sizes that JSON readers tell apart, and floats that every reader reads alike."""
        wide = float(f"{self._random.randrange(-(10**15), 10**15)}e{self._random.randrange(-22, 23)}")
        return self._pick(
            (
                self._random.randrange(-10, 100),
                self._pick((2**53, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 0, -1)),
                wide if read_alike(wide) else 0.5,
                float(f"{self._random.randrange(-99, 100)}e{self._random.randrange(-22, 21)}"),
                self._pick((0.0, -0.0, 0.1, 1.0, 1e15, 1e16, 1e-5, 1e-6, 1.5e-7, 1e22)),
            )
        )

    def _content(self, role: str) -> Content:
        if role == "system" and self._chance(0.7):
            return self._system()
        if role == "developer" and self._chance(0.7):
            return DeveloperPrompt(self._maybe(0.7, self.text), self._maybe(0.7, self._tools))
        return self.text()

    def _system(self) -> SystemPrompt:
        efforts: tuple[Effort | None, ...] = (*get_args(Effort), None)
        valid = tuple(self._pick(CHANNELS) for _ in range(self._random.randrange(4)))
        channels = ChannelConfig(valid, self._chance(0.5))
        return SystemPrompt(
            identity=self._maybe(0.8, self.text),
            effort=self._pick(efforts),
            knowledge_cutoff=self._maybe(0.7, self.text),
            date=self._maybe(0.5, self.text),
            tools=self._maybe(0.5, self._tools),
            channels=self._maybe(0.8, lambda: self._pick((ChannelConfig(), channels))),
        )

    def _tools(self) -> dict[str, Namespace]:
        return {self._pick(NAMES): self._namespace() for _ in range(self._random.randrange(4))}

    def _namespace(self) -> Namespace:
        functions = tuple(
            FunctionDecl(self._key(), self.text(), self._maybe(0.9, self.schema))
            for _ in range(self._random.randrange(3))
        )
        return Namespace(self._pick(NAMES), self._maybe(0.6, self.text), functions)

    def _odd(self, make: Callable[[], Any]) -> Any:
        """What `make` makes, or once in ten something of another kind."""
        return self._value(1) if self._chance(0.1) else make()

    def _maybe(self, chance: float, make: Callable[[], T]) -> T | None:
        return make() if self._chance(chance) else None

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance
