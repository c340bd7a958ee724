"""The responses given lately: a conversation goes on with the very ids that were sampled."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ossia.agent.events import TurnEnd
from ossia.agent.sessions.session import Entry, Summary
from ossia.harmony.messages import ANALYSIS, Message, is_call

MAX_BYTES = 128 << 20
MAX_RESPONSES = 4096
_ID_BYTES = 36  # of a sampled id: an int and its place in a tuple

Shown = tuple[tuple[str, str], ...]
"""Messages as a client sees them, in a form that survives its way: `(("user", "hi"),)`, `(("said", "Hello!"),)`,
`(("functions.add", '{"a": 1}'),)`. No reasoning: clients leave it out."""
SAID = "said"


@dataclass(frozen=True, slots=True)
class Given:
    """A response that was given, and the conversation up to its end.

    `mark` is in its id and in those of its items and calls. `lead`: the instructions that came as messages. `begins`:
    the first entry that is its own. `shown`: what its client saw of it; `digest`: of the whole conversation as its
    client has it. `call`: the id of the call that it ended with, for the client. `stored`: it may be continued by its
    id. `session_id`: of the stored session that has it; None: it isn't on disk.
    """

    mark: str
    key: str
    date: str | None
    lead: tuple[str, ...]
    entries: tuple[Entry, ...]
    ends: tuple[TurnEnd | None, ...]
    summary: Summary | None
    begins: int
    shown: Shown
    digest: bytes
    call: str | None
    stored: bool
    session_id: str | None = None

    @property
    def own(self) -> tuple[Entry, ...]:
        """The entries added by the response."""
        return self.entries[self.begins :]


class Source(Protocol):
    """Finds responses."""

    def of(self, mark: str) -> Given | None: ...

    def with_digest(self, digest: bytes) -> Given | None: ...


class Memory:
    """The responses given lately: those used longest ago leave first. Thread-safe.

    `beyond`: where others may be.
    """

    def __init__(
        self, beyond: Source | None = None, *, max_bytes: int = MAX_BYTES, max_responses: int = MAX_RESPONSES
    ) -> None:
        self._beyond = beyond
        self._max_bytes, self._max_responses = max_bytes, max_responses
        self._given: OrderedDict[str, Given] = OrderedDict()
        self._by_digest: dict[bytes, list[str]] = {}
        self._uses: Counter[int] = Counter()  # of each entry, by its id(): conversations share them
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, given: Given) -> None:
        """Remember a response."""
        with self._lock:
            self._given[given.mark] = given
            self._by_digest.setdefault(given.digest, []).append(given.mark)
            self._bytes += sum(map(len, given.lead))
            for entry in given.entries:
                self._uses[id(entry)] += 1
                self._bytes += _bytes_of(entry) if self._uses[id(entry)] == 1 else 0
            while len(self._given) > 1 and (self._bytes > self._max_bytes or len(self._given) > self._max_responses):
                self._drop(next(iter(self._given)))

    def of(self, identifier: str) -> Given | None:
        """The response with this id, or with an item or a call of this id."""
        mark = _mark_in(identifier)
        found = self._found(mark)
        return found or (self._beyond.of(mark) if self._beyond and mark else None)

    def with_digest(self, digest: bytes) -> Given | None:
        """The last response of a conversation with this digest.

        Of conversations that are the same so far each is given once: their tools aren't the same.
        """
        with self._lock:
            marks = self._by_digest.get(digest, [])
            mark = next(iter(marks), None)
            del marks[: len(marks) > 1]
        found = self._found(mark)
        return found or (self._beyond.with_digest(digest) if self._beyond else None)

    def _found(self, mark: str | None) -> Given | None:
        with self._lock:
            given = self._given.get(mark) if mark is not None else None
            if given is not None:
                self._given.move_to_end(given.mark)
            return given

    def _drop(self, mark: str) -> None:
        given = self._given.pop(mark)
        self._bytes -= sum(map(len, given.lead))
        marks = self._by_digest.get(given.digest, [])
        if mark in marks:
            marks.remove(mark)
        if not marks:
            self._by_digest.pop(given.digest, None)
        for entry in given.entries:
            self._uses[id(entry)] -= 1
            if not self._uses[id(entry)]:
                del self._uses[id(entry)]
                self._bytes -= _bytes_of(entry)


def _mark_in(identifier: str) -> str | None:
    """The mark in an id: of `"resp_1f2e"`, `"msg_1f2e_0"`, `"call_1f2e_3"` it is `"1f2e"`."""
    parts = identifier.split("_")
    return parts[1] if len(parts) > 1 else None


def _bytes_of(entry: Entry) -> int:
    message, state = entry.message, len(repr(entry.state)) if entry.state else 0
    return len(message.text) + state + _ID_BYTES * len(message.sampled.ids if message.sampled else ())


def shown(messages: Collection[Message]) -> Shown:
    """Messages in a row as a client sees them, however it parts the model's words."""
    others = [(message.role, message.text.strip()) for message in messages if message.role != "assistant"]
    said = "".join("".join(message.text.split()) for message in messages if _is_said(message))
    calls = [(message.recipient or "", _arguments(message.text)) for message in messages if is_call(message)]
    return (*others, *([(SAID, said)] if said else []), *calls)


def roll(digest: bytes, shown: Shown) -> bytes:
    """The digest of a conversation, continued. That of an empty one is `b""`."""
    for part in shown:
        digest = hashlib.sha256(digest + json.dumps(part).encode()).digest()
    return digest


def _is_said(message: Message) -> bool:
    return message.role == "assistant" and message.channel != ANALYSIS and not is_call(message)


def _arguments(text: str) -> str:
    with suppress(ValueError, RecursionError):
        return json.dumps(json.loads(text), sort_keys=True)
    return text
