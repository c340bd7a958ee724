"""A conversation and all that is needed to go on with it: messages with their sampled ids, turns and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.adapt import is_call
from agent.engine.base import Sampling
from agent.events import MessageAdded, TurnEnd
from agent.request import Request
from harmony.messages import ANALYSIS, COMMENTARY, Channel, Effort, Message, ResponseFormat
from tools.spec import ToolSpec
from tools.toolbox import INTERRUPTED


@dataclass(frozen=True, slots=True)
class Options:
    """How the next turns are to be answered. `date` is shown to the model as the current date: `"2025-06-28"`."""

    effort: Effort = "medium"
    instructions: str | None = None
    date: str | None = None
    response_format: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored message. `turn` counts from 0; `cut`: nothing closed it, a stop or a limit did."""

    message: Message
    turn: int
    cut: bool = False


class Session:
    """The history of one conversation, in memory. `agent.session_file` saves and loads it.

    session = Session(Options(effort="low"))
    for event in run_turn(session, "What is 48*17?", …): …
    session.messages[-1].text        # 'The result is 816.'
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        entries: Sequence[Entry] = (),
        ends: Sequence[TurnEnd | None] = (),
    ) -> None:
        self.options = options or Options()
        self._entries = list(entries)
        self._ends = list(ends)
        self._calls = sum(is_call(entry.message) for entry in self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    @property
    def ends(self) -> tuple[TurnEnd | None, ...]:
        """How each turn ended; None for one that is under way, or was when the process died."""
        return tuple(self._ends)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message of the conversation, also those that no longer enter the prompt."""
        return tuple(entry.message for entry in self._entries)

    def open_turn(self, user_text: str) -> list[MessageAdded]:
        """Begin a turn. An unanswered call of the last one gets its answer first: every call has one."""
        added = self.answer_open_call()
        self._ends.append(None)
        added.append(self.add(Message("user", (user_text,))))
        return added

    def answer_open_call(self) -> list[MessageAdded]:
        """Answer the call that stands last, if one does: it was cut, or the process ended while it ran."""
        call = self._entries[-1].message if self._entries else None
        if call is None or not is_call(call):
            return []
        result = Message(
            "tool", (INTERRUPTED,), name=call.recipient, recipient="assistant", channel=call.channel or COMMENTARY
        )
        return [self.add(result)]

    def add(self, message: Message, *, cut: bool = False) -> MessageAdded:
        """Store a message of the turn under way."""
        self._entries.append(Entry(message, max(0, len(self._ends) - 1), cut))
        return MessageAdded(message, cut)

    def close_turn(self, end: TurnEnd) -> None:
        """Note how the turn ended."""
        self._ends[-1] = end

    def next_call_id(self) -> str:
        """An id for the next call of this session: `call_1`, `call_2`, …"""
        self._calls += 1
        return f"call_{self._calls}"

    def request(
        self, specs: Sequence[ToolSpec], *, max_tokens: int | None = None, open_with: Channel | None = None
    ) -> Request:
        """What the next step needs, less the thoughts of past turns that never got their answer."""
        options = self.options
        return Request(
            history=tuple(entry.message for entry in self._entries if self._in_prompt(entry)),
            tools=tuple(specs),
            effort=options.effort,
            instructions=options.instructions,
            date=options.date,
            response_format=options.response_format,
            sampling=options.sampling,
            max_tokens=max_tokens,
            open_with=open_with,
        )

    def _in_prompt(self, entry: Entry) -> bool:
        """A turn with a `final` is the codec's to trim; one that was stopped or broke loses its analysis here."""
        past = entry.turn < len(self._ends) - 1
        return not (past and self._ends[entry.turn] != "answered" and entry.message.channel == ANALYSIS)

    def without_ids(self) -> Session:
        """The same conversation for another vocabulary: its messages are rendered from their text from now on."""
        entries = [replace(entry, message=replace(entry.message, sampled=None)) for entry in self._entries]
        return Session(self.options, entries=entries, ends=self._ends)
