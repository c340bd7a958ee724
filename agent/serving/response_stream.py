"""The stream of a response: numbered events, and the items that they add to its output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class Stream:
    """What was sent so far: `number` events, and the items of `output`. An item is replaced when it is done.

    `mark` is in all ids of a response, so that an item which comes back is known again.
    """

    mark: str
    output: list[Json] = field(default_factory=list)
    number: int = 0
    _ids: int = 0

    def new_id(self, prefix: str) -> str:
        """An id for an item: `"msg_1f2e_0"`."""
        self._ids += 1
        return f"{prefix}_{self.mark}_{self._ids - 1}"

    def event(self, kind: str, **fields: object) -> Json:
        """The next event: `event("error", …)` is `{"type": "error", "sequence_number": 7, …}`."""
        self.number += 1
        return {"type": kind, "sequence_number": self.number - 1, **fields}

    def place(self, item: Json) -> Json:
        """The fields that name, in events, the item to be added next."""
        return {"item_id": item["id"], "output_index": len(self.output)}

    def add(self, item: Json) -> Iterator[Json]:
        """Add an item, as it begins."""
        self.output.append(item)
        yield self.event("response.output_item.added", output_index=len(self.output) - 1, item=item)

    def done(self, place: Json, item: Json) -> Iterator[Json]:
        """End an item, as it is now."""
        self.output[place["output_index"]] = item
        yield self.event("response.output_item.done", output_index=place["output_index"], item=item)
