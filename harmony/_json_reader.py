"""JSON of unknown shape, read with care: every complaint names the place."""

from __future__ import annotations

from dataclasses import dataclass

from ossia.harmony.errors import ConversationError


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
