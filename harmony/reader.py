"""JSON written as the reference library does (serde_json): no spaces, non-ASCII raw, numbers in their shortest form.

One difference is on purpose: serde_json reads some floats of 16 or 17 digits one unit off (31.245270191439438 comes out
as 31.24527019143944); here every float is written exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from ossia.harmony.errors import ConversationError, RenderError


def compact_json(value: object) -> str:
    """`{"a":[1,2.5,1e-7],"b":"é"}`.

    Raises `RenderError` for what JSON can't hold: NaN, infinity, a number beyond a double, another kind of object.
    """
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(compact_json, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(key)}:{compact_json(item)}" for key, item in value.items()) + "}"
    raise RenderError(f"a value must be null, a boolean, number, string, list or object of JSON, not {value!r}")


def _key(key: object) -> str:
    if isinstance(key, str):
        return json.dumps(key, ensure_ascii=False)
    raise RenderError(f"the key of a JSON object must be a string, not {key!r}")


def _number(value: int | float) -> str:
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 64:
            return str(value)
        try:
            value = float(value)  # what no 64 bits can hold is read as a double
        except OverflowError:
            raise RenderError("the integer is too large for a double") from None
    if not math.isfinite(value):
        raise RenderError(f"JSON can't hold the number {value!r}")
    return _shortest(value)


def _shortest(value: float) -> str:
    """The shortest digits that read back as `value`, laid out as Rust's ryu does: 1.0, 0.00001, 1e-6, 1.5e300.

    Python's `repr` finds the same digits, but begins exponents elsewhere and writes `1e-06`.
    """
    sign, all_digits, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, all_digits)).rstrip("0")
    minus = "-" if sign else ""
    if not digits:
        return f"{minus}0.0"
    point = len(all_digits) + int(exponent)  # where the decimal point stands, counted from the first digit
    if 0 < point <= 16:
        digits = digits.ljust(point, "0")
        return f"{minus}{digits[:point]}.{digits[point:] or '0'}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1}"


# -- JSON of unknown shape, read with care -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Json:
    """A value and where it stands: `Json(5, "messages[2].content").text()` raises
    `messages[2].content: must be a string, not 5`."""

    value: object
    where: str = ""

    def field(self, key: str) -> Json:
        """The value under `key` of an object; None for a missing field, as for null."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return Json(self.value.get(key), f"{self.where}.{key}" if self.where else key)

    def first(self, *keys: str) -> Json:
        """The first of these fields present, else the first one, which is None."""
        fields = [self.field(key) for key in keys]
        return next((field for field in fields if field.there), fields[0])

    @property
    def there(self) -> bool:
        return self.value is not None

    def items(self) -> list[Json]:
        if not isinstance(self.value, list):
            raise self.wrong("an array")
        return [Json(item, f"{self.where}[{i}]") for i, item in enumerate(self.value)]

    def entries(self) -> list[tuple[str, Json]]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return [(key, Json(value, f"{self.where}.{key}")) for key, value in self.value.items()]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def text_or_none(self) -> str | None:
        return self.text() if self.there else None

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def wrong(self, expected: str) -> ConversationError:
        """The error that says what must be here and what is."""
        found = repr(self.value)
        found = found if len(found) <= _LONGEST else found[:_LONGEST] + "…"
        complaint = f"is missing, must be {expected}" if self.value is None else f"must be {expected}, not {found}"
        return ConversationError(f"{self.where or 'the conversation'}: {complaint}")


def messages_of(data: object) -> list[Json]:
    """The messages of `{"messages": […]}` or of a bare list."""
    if isinstance(data, list):
        return Json(data, "messages").items()
    if isinstance(data, dict):
        return Json(data).field("messages").items()
    raise Json(data).wrong('an object with "messages", or an array of messages')


_LONGEST = 60
