"""The conversation of a request: known to this process up to a point, from there on as its client says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ossia.agent.adapt import result_message
from ossia.agent.events import TurnEnd
from ossia.agent.kinds import is_answer
from ossia.agent.serving.asked import Asked, BadRequest, Item
from ossia.agent.serving.memory import SAID, Given, Memory, roll, shown
from ossia.agent.sessions.session import Entry, Session, Summary, UserText
from ossia.tools.spec import INTERRUPTED, Taint

_OUTSIDE: frozenset[Taint] = frozenset({"outside"})


@dataclass(frozen=True, slots=True)
class Start:
    """The conversation up to its next turn.

    `said` begins that turn; None: the last one goes on. `digest`: of all of it. `key`: of the conversation, None for a
    new one. `date`: its first one, None for a new one. `lead`: the instructions that came as messages. The first
    `known` entries are those of the stored session `session_id`, if it has one. `after`: the mark of the last response
    in it that was given here.
    """

    entries: tuple[Entry, ...]
    ends: tuple[TurnEnd | None, ...]
    summary: Summary | None
    said: UserText | None
    digest: bytes
    key: str | None
    date: str | None
    lead: tuple[str, ...]
    known: int = 0
    session_id: str | None = None
    after: str | None = None

    def session(self) -> Session:
        """A new session with it, the last turn left open."""
        return Session(entries=self.entries, ends=self.ends, summary=self.summary)


def begin(asked: Asked, memory: Memory) -> Start:
    """The conversation of a request. Raises BadRequest.

    What this process gave before stands in it as it was sampled, with the reasoning that a client leaves out: found by
    the ids of its items and calls, else by a history that is the same up to there.
    """
    if asked.previous is None:
        base, lead, items = _known(asked.items, memory)
    else:
        base, items = memory.of(asked.previous), asked.items
        if base is None or not base.stored or asked.previous != f"resp_{base.mark}":
            raise BadRequest(
                f"previous_response_id: no response is called {asked.previous!r} (any more): send all items",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        lead = base.lead
    reader = _Reader(base, list(lead))
    for group in _groups(items):
        reader.read(group, memory)
    return reader.start()


def _known(items: tuple[Item, ...], memory: Memory) -> tuple[Given | None, tuple[str, ...], tuple[Item, ...]]:
    """The last known response in a history that is the same up to it; the instructions before; the items behind it."""
    leading = next((at for at, item in enumerate(items) if not _is_developers(item)), len(items))
    lead = tuple(item.message.text for item in items[:leading] if item.message is not None)
    digest, at = b"", leading
    ends: list[tuple[bytes, int, tuple[Item, ...]]] = []
    for group in _groups(items[leading:]):
        digest, at = roll(digest, _shown(group)), at + len(group)
        if _is_models(group[0]):
            ends.append((digest, at, group))
    for digest, at, group in reversed(ends):
        named = (given for item in group if (given := _given(item, memory)) and given.digest == digest)
        if (given := next(named, None) or memory.with_digest(digest)) is not None:
            return _as_named(given, group), lead, items[at:]
    return None, lead, items[leading:]


def _groups(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """The items one by one; several of the model in a row together."""
    group: list[Item] = []
    for item in items:
        if group and not (_is_models(item) and _is_models(group[0])):
            yield tuple(group)
            group = []
        group.append(item)
    if group:
        yield tuple(group)


def _is_models(item: Item) -> bool:
    return item.message is None or item.message.role == "assistant"


def _is_developers(item: Item) -> bool:
    return item.message is not None and item.message.role == "developer"


def _shown(items: Sequence[Item]) -> tuple[tuple[str, str], ...]:
    return shown([item.message for item in items if item.message is not None])


@dataclass(slots=True)
class _Slot:
    """An entry, and the result of a call that its client ran."""

    entry: Entry
    result: Entry | None = None


@dataclass(slots=True)
class _Reader:
    """Reads group by group, and puts each result behind its call."""

    base: Given | None
    lead: list[str]
    slots: list[_Slot] = field(default_factory=list)
    ends: list[TurnEnd | None] = field(default_factory=list)
    owed: dict[str, _Slot] = field(default_factory=dict)  # the calls without a result, by their ids
    digest: bytes = b""
    key: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        if self.base is not None:
            self.slots += [_Slot(entry) for entry in self.base.entries]
            self.ends += self.base.ends
            self.digest, self.key, self.after = self.base.digest, self.base.key, self.base.mark
            self._owe(self.base.call)

    def read(self, group: tuple[Item, ...], memory: Memory) -> None:
        """Read several items of the model, or another one."""
        item = group[0]
        if not self.slots and item.message is not None and _is_developers(item):
            self.lead.append(item.message.text)
            return
        self.digest = roll(self.digest, _shown(group))
        if _is_models(item):
            self._read_models(group, memory)
        elif item.message is not None and item.message.role == "tool":
            self._read_result(item)
        elif item.message is not None:
            if item.message.role == "user":
                self.ends.append(None)
            self._add(Entry(item.message, 0, typed="" if item.message.role == "user" else None))

    def start(self) -> Start:
        """The whole of it. Raises BadRequest if there is nothing to answer."""
        last = self.slots[-1] if self.slots else None
        if last is None or not (last.result or last.entry.message.role in ("user", "developer", "tool")):
            call = f": {next(reversed(self.owed))} has no result" if self.owed else ""
            message = f"input: must end with a message of the user or the result of a call{call}"
            raise BadRequest(message, param="input")
        said = None
        if last.entry.message.role == "user":
            said = UserText(last.entry.message.text, typed="")
            self.slots.pop()
            self.ends.pop()
        for slot in self.owed.values():
            result = result_message(slot.entry.message, f"[{INTERRUPTED['user']}]")
            slot.result = Entry(result, slot.entry.turn, error=True)
        entries = [entry for slot in self.slots for entry in (slot.entry, slot.result) if entry is not None]
        base = self.base
        return Start(
            tuple(entries),
            tuple(self.ends),
            base.summary if base else None,
            said,
            self.digest,
            self.key,
            base.date if base else None,
            tuple(self.lead),
            len(base.entries) if base else 0,
            base.session_id if base else None,
            self.after,
        )

    def _add(self, entry: Entry, call_id: str | None = None) -> None:
        if not self.ends:
            self.ends.append(None)
        self.slots.append(_Slot(replace(entry, turn=len(self.ends) - 1)))
        self._owe(call_id)

    def _owe(self, call_id: str | None) -> None:
        """Note that the last entry is a call of this id, and that its client owes its result."""
        if call_id is not None:
            self.owed[call_id] = self.slots[-1]

    def _read_models(self, group: tuple[Item, ...], memory: Memory) -> None:
        found = {given.mark: given for item in group for given in [_given(item, memory)] if given is not None}
        given = _as_named(next(iter(found.values())), group) if len(found) == 1 else None
        if given is not None and given.own and _agree(group, given):
            self.key, self.after = given.key, given.mark
            for entry in given.own:
                self._add(entry)
            self._owe(given.call)
            self.ends[-1] = given.ends[-1]
            return
        for item in group:
            if item.message is None and item.where:
                message = f"{item.where}: there is no item {item.id!r} (any more): send it whole"
                raise BadRequest(message, param=item.where, code="item_not_found")
            if item.message is not None:
                self._add(Entry(item.message, 0, taints=_OUTSIDE), item.call_id)
                self.ends[-1] = "answered" if is_answer(item.message) else self.ends[-1]

    def _read_result(self, item: Item) -> None:
        assert item.message is not None
        slot = self.owed.pop(item.call_id or "", None)
        if slot is None:
            message = f"{item.where}: there is no call {item.call_id!r} before it that has no result yet"
            raise BadRequest(message, param=item.where)
        message_ = result_message(slot.entry.message, item.message.text)
        slot.result = Entry(message_, slot.entry.turn, taints=_OUTSIDE)


def _given(item: Item, memory: Memory) -> Given | None:
    for identifier in (item.id, item.call_id):
        if identifier is not None and (given := memory.of(identifier)) is not None:
            return given
    return None


def _as_named(given: Given, group: Sequence[Item]) -> Given:
    """The response with its call under the id that the client has for it: some clients give calls ids of their own."""
    named = group[-1].call_id
    return given if given.call is None or named is None else replace(given, call=named)


def _agree(group: Sequence[Item], given: Given) -> bool:
    """True if the client sends the response back unchanged. Some leave out the words beside a call."""
    theirs, ours = _shown(group), given.shown
    return theirs in (ours, tuple(part for part in ours if part[0] != SAID), ())
