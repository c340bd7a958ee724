"""A conversation and all that is needed to go on with it: messages with their sampled ids, turns and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.adapt import is_call
from agent.engine.base import Sampling
from agent.events import MessageAdded, TurnEnd
from agent.request import Request
from harmony.messages import ANALYSIS, COMMENTARY, Channel, Effort, Message, ResponseFormat
from tools.spec import Taint, ToolResult, ToolSpec
from tools.toolbox import INTERRUPTED


@dataclass(frozen=True, slots=True)
class Options:
    """How the next turns are to be answered. `date` is shown to the model as the current date: `"2025-06-28"`.

    `brings`: what kinds of text stand in the instructions (a folder's AGENTS.md).
    """

    effort: Effort = "medium"
    instructions: str | None = None
    date: str | None = None
    response_format: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)
    brings: frozenset[Taint] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored message. `turn` counts from 0; `cut`: nothing closed it, a stop or a limit did.

    `brings` and `state` are those of a tool's result (`tools.spec.ToolResult`). `typed`: the part of a user's message
    that the user typed, None: all of it.
    """

    message: Message
    turn: int
    cut: bool = False
    brings: frozenset[Taint] = frozenset()
    state: Mapping[str, object] | None = None
    typed: str | None = None


@dataclass(frozen=True, slots=True)
class UserText:
    """What the user says. `typed` is the part of it that they typed themselves, the rest was piped in or attached."""

    text: str
    typed: str


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

    @property
    def taint(self) -> frozenset[Taint]:
        """What kinds of text stand in the prompt. It never shrinks: a summary of a text is as tainted as the text."""
        return self.options.brings.union(*(entry.brings for entry in self._entries))

    @property
    def said(self) -> str:
        """All that the user typed in this conversation."""
        users = (entry for entry in self._entries if entry.message.role == "user")
        return "\n".join(entry.message.text if entry.typed is None else entry.typed for entry in users)

    @property
    def states(self) -> tuple[Mapping[str, object], ...]:
        """The states that tools left with their results, in order: what brings a browser's pages back."""
        return tuple(entry.state for entry in self._entries if entry.state is not None)

    def open_turn(self, user_text: str | UserText) -> list[MessageAdded]:
        """Begin a turn; a plain text is one that was typed as a whole.

        An unanswered call of the last turn gets its answer first: every call has one.
        """
        added = self.answer_open_call()
        self._ends.append(None)
        text, typed = (user_text, None) if isinstance(user_text, str) else (user_text.text, user_text.typed)
        entry = Entry(Message("user", (text,)), len(self._ends) - 1, typed=typed)
        self._entries.append(entry)
        return [*added, MessageAdded(entry.message)]

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
        self._entries.append(Entry(message, self._turn, cut))
        return MessageAdded(message, cut)

    def add_result(self, message: Message, result: ToolResult) -> MessageAdded:
        """Store a tool's answer, with what only we keep of it."""
        self._entries.append(Entry(message, self._turn, brings=result.brings, state=result.state))
        return MessageAdded(message)

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

    @property
    def _turn(self) -> int:
        return max(0, len(self._ends) - 1)

    def _in_prompt(self, entry: Entry) -> bool:
        """A turn with a `final` is the codec's to trim; one that was stopped or broke loses its analysis here."""
        past = entry.turn < len(self._ends) - 1
        return not (past and self._ends[entry.turn] != "answered" and entry.message.channel == ANALYSIS)

    def without_ids(self) -> Session:
        """The same conversation for another vocabulary: its messages are rendered from their text from now on."""
        entries = [replace(entry, message=replace(entry.message, sampled=None)) for entry in self._entries]
        return Session(self.options, entries=entries, ends=self._ends)
