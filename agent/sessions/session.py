"""A conversation and all that is needed to continue it: messages with their sampled ids, turns and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol

from ossia.agent.adapt import result_message
from ossia.agent.engine.base import Sampling
from ossia.agent.events import MessageAdded, TurnEnd
from ossia.agent.kinds import is_answer, says_nothing
from ossia.agent.request import Request
from ossia.harmony.messages import ANALYSIS, Channel, Effort, Message, ResponseFormat, is_call
from ossia.tools.skills import READER
from ossia.tools.spec import INTERRUPTED, Attachment, Taint, ToolResult, ToolSpec

SUMMARY_HEAD = "Summary of our conversation so far (its turns no longer fit into the context):"
"""Begins the message that stands for summarised turns: a user message, so that a page's text gains no authority."""
_CUT_BY: Final[Mapping[TurnEnd | None, str]] = MappingProxyType(
    {
        "time": INTERRUPTED["time"],
        "tokens": "cut by the limit of tokens: it did not run",
        "context": "cut, since the context was full: it did not run",
        "error": "broken off by a failure of the program",
    }
)
"""The result of a call that has none by the end of its turn; for other ends: the user interrupted it."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options for the next turns. `date` is shown to the model as the current date: `"2025-06-28"`.

    `taints`: what kinds of text the instructions (a trusted folder's AGENTS.md) and tools' descriptions have brought.
    `planning`: only a plan is being made (`agent.prompt.PLAN`).
    """

    effort: Effort = "medium"
    instructions: str | None = None
    date: str | None = None
    response_format: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)
    taints: frozenset[Taint] = frozenset()
    planning: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored message. `turn` counts from 0; `cut`: a stop or a limit ended it, not a token that closes it.

    `taints`, `state`, `attachments` and `error` are those of a tool's result (`tools.spec.ToolResult`). `typed`: the
    part of a user's message that the user typed; None: all of it. `vocabulary` is the digest of the vocabulary that the
    sampled ids belong to, `model` the user's name for the model that wrote it. `shortened` replaces, in the prompt, a
    result that was too long to stay; the message itself is whole. `mark` and `said_at` (unix seconds) are those of a
    turn's first message: see `UserText`. `structured`: an
    answer that was to follow a schema.
    """

    message: Message
    turn: int
    cut: bool = False
    taints: frozenset[Taint] = frozenset()
    state: Mapping[str, object] | None = None
    typed: str | None = None
    attachments: tuple[Attachment, ...] = ()
    vocabulary: str | None = None
    model: str | None = None
    shortened: str | None = None
    error: bool = False
    mark: str = ""
    said_at: float | None = None
    structured: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """The text that replaces the first `turns` turns in the prompt. The session still has the turns themselves."""

    text: str
    turns: int


def summary_message(text: str) -> Message:
    """A summary as the prompt has it."""
    return Message("user", (f"{SUMMARY_HEAD}\n\n{text}",))


class Recorder(Protocol):
    """Gets every change of a session, on the thread that makes it. Never raises: it notes a problem."""

    def added(self, entry: Entry) -> None:
        """The entry is the last one now."""

    def ended(self, turn: int, end: TurnEnd) -> None: ...

    def cut_back(self, turn: int) -> None:
        """The entries of this turn and of later ones are no longer part of the conversation."""

    def shortened(self, index: int, text: str) -> None:
        """`entries[index]` has this `shortened` now."""

    def summarised(self, summary: Summary | None) -> None: ...

    def options_changed(self, options: Options) -> None: ...


@dataclass(frozen=True, slots=True)
class UserText:
    """The user's words. `typed` is the part that they typed themselves; the rest was piped in or attached.

    `taints`: what kinds of text were attached (a file: private; a web page: outside). `mark`: the id of the turn that
    it begins, under which undo keeps what that changes (`tools.undo`); `said_at`: its beginning, in unix seconds.
    """

    text: str
    typed: str
    taints: frozenset[Taint] = frozenset()
    mark: str = ""
    said_at: float | None = None


class Session:
    """The history of one conversation, in memory. `recorder` stores it as it grows (`agent.sessions.store`).

    `vocabulary` and `model` are those of the engine in use: what is added is marked with them. Ids that were sampled
    with another vocabulary stay out of the prompt (the message is then rendered from its text). `skills` is what the
    prompt says about skills, while a tool can read them (`tools.skills`). `call_mark` makes its calls' ids its own.

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
        summary: Summary | None = None,
    ) -> None:
        self.vocabulary: str | None = None
        self.model: str | None = None
        self.skills = ""
        self.call_mark = ""
        self.recorder: Recorder | None = None
        self._options = options or Options()
        self._entries = list(entries)
        self._ends = list(ends)
        self._summary = summary
        self._calls = sum(is_call(entry.message) for entry in self._entries)

    @property
    def options(self) -> Options:
        """The options for the next turns; a change takes effect with the next turn."""
        return self._options

    @options.setter
    def options(self, options: Options) -> None:
        self._options = options
        if self.recorder:
            self.recorder.options_changed(options)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    @property
    def ends(self) -> tuple[TurnEnd | None, ...]:
        """The end of each turn; None for one that is under way, or that was when the process died."""
        return tuple(self._ends)

    @property
    def summary(self) -> Summary | None:
        """The summary of the oldest turns, once they no longer fit."""
        return self._summary

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message of the conversation, including those that are no longer in the prompt."""
        return tuple(entry.message for entry in self._entries)

    @property
    def taint(self) -> frozenset[Taint]:
        """The kinds of text in the prompt. It never shrinks: a summary of a text is as tainted as the text."""
        return self.options.taints.union(*(entry.taints for entry in self._entries))

    @property
    def said(self) -> str:
        """All that the user typed in this conversation."""
        users = (entry for entry in self._entries if entry.message.role == "user")
        return "\n".join(entry.message.text if entry.typed is None else entry.typed for entry in users)

    @property
    def states(self) -> tuple[Mapping[str, object], ...]:
        """The states that tools left with their results, in order. They bring a browser's pages back."""
        return tuple(entry.state for entry in self._entries if entry.state is not None)

    def read(self, taints: frozenset[Taint]) -> None:
        """Note that descriptions of tools have brought text of these kinds into the prompt."""
        if not taints <= self.options.taints:
            self.options = replace(self.options, taints=self.options.taints | taints)

    @property
    def has_answer(self) -> bool:
        """True if the turn under way holds an answer that says something."""
        said = (entry.message for entry in self._entries if entry.turn == self._turn)
        return any(is_answer(message) and not says_nothing(message) for message in said)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def open_turn(self, user_text: str | UserText) -> list[MessageAdded]:
        """Begin a turn; a plain string counts as typed as a whole.

        An unanswered call of the last turn gets a result first: every call needs one.
        """
        added = self.answer_open_call()
        self._ends.append(None)
        if isinstance(user_text, str):
            entry = Entry(Message("user", (user_text,)), self._turn)
        else:
            message = Message("user", (user_text.text,))
            entry = Entry(message, self._turn, taints=user_text.taints, typed=user_text.typed, mark=user_text.mark,
                          said_at=user_text.said_at)  # fmt: skip
        self._store(entry)
        return [*added, MessageAdded(entry.message)]

    def steer(self, text: str) -> MessageAdded:
        """Add what the user says in the middle of the turn under way, behind a tool's result."""
        self._store(Entry(Message("user", (text,)), self._turn))
        return MessageAdded(self._entries[-1].message, steers=True)

    def answer_open_call(self) -> list[MessageAdded]:
        """Answer the last message if it is a call: it was cut, or the process ended while it ran."""
        call = self._entries[-1].message if self._entries else None
        if call is None or not is_call(call):
            return []
        why = _CUT_BY.get(self._ends[-1] if self._ends else None, INTERRUPTED["user"])
        return [self.add(result_message(call, f"[{why}]"))]

    def reopen_turn(self) -> None:
        """Go on with the last turn, as if it had not ended: its reasoning is in the prompt again."""
        self._ends[-1] = None

    def add(self, message: Message, *, cut: bool = False) -> MessageAdded:
        """Store a message of the turn under way."""
        if message.sampled is not None and not message.sampled.ids:  # a server's that gives none: it only says "cut"
            message = replace(message, sampled=None)
        sampled_by = self.vocabulary if message.sampled else None
        model = self.model if message.role == "assistant" else None
        by_schema = is_answer(message) and self._options.response_format is not None
        self._store(Entry(message, self._turn, cut, vocabulary=sampled_by, model=model, structured=by_schema))
        return MessageAdded(message, cut)

    def add_result(self, message: Message, result: ToolResult) -> MessageAdded:
        """Store a tool's result, with those parts that the model doesn't see."""
        self._store(
            Entry(
                message,
                self._turn,
                taints=result.taints,
                state=result.state,
                attachments=result.attachments,
                error=result.error,
            )
        )
        return MessageAdded(message)

    def extend(self, entries: Sequence[Entry], ends: Sequence[TurnEnd | None]) -> None:
        """Add what was said elsewhere; `ends` are those of all turns so far."""
        for entry in entries:
            self._store(entry)
        self._ends = list(ends)

    def close_turn(self, end: TurnEnd) -> None:
        """Note how the turn ended."""
        self._ends[-1] = end
        if self.recorder:
            self.recorder.ended(self._turn, end)

    def cut_back(self, turn: int) -> tuple[Entry, ...]:
        """Take this turn and later ones out of the conversation; returns their entries. For retry and edit.

        A summary that stands for one of them goes too: the turns before them are then in the prompt again.
        """
        taken = tuple(entry for entry in self._entries if entry.turn >= turn)
        self._entries = [entry for entry in self._entries if entry.turn < turn]
        del self._ends[turn:]
        if self.recorder:
            self.recorder.cut_back(turn)
        if self._summary is not None and self._summary.turns > turn:
            self.summarise(None)
        return taken

    def next_call_id(self) -> str:
        """An id for the next call of this session: `call_1`, `call_2`, …, with `call_mark` in it."""
        self._calls += 1
        return self.last_call_id

    @property
    def last_call_id(self) -> str:
        """The id that was given last."""
        return f"call_{self.call_mark}{self._calls}"

    # -- room ----------------------------------------------------------------------------------------------------------

    def shorten(self, index: int, text: str) -> None:
        """From now on the prompt has `text` in place of the result `entries[index]`."""
        self._entries[index] = replace(self._entries[index], shortened=text)
        if self.recorder:
            self.recorder.shortened(index, text)

    def summarise(self, summary: Summary | None) -> None:
        """From now on the prompt has the summary in place of its turns; None: it has the turns themselves again."""
        self._summary = summary
        if self.recorder:
            self.recorder.summarised(summary)

    # -- the prompt ----------------------------------------------------------------------------------------------------

    def request(
        self, specs: Sequence[ToolSpec], *, max_tokens: int | None = None, open_with: Channel | None = None
    ) -> Request:
        """The request of the next step, without the reasoning of past turns that got no answer."""
        options = self.options
        skills = self.skills if any(spec.name == READER for spec in specs) else ""
        summary = (summary_message(self._summary.text),) if self._summary else ()
        return Request(
            history=(*summary, *(self._as_prompted(self._entries[index]) for index in self.prompted)),
            tools=tuple(specs),
            effort=options.effort,
            instructions="\n\n".join(filter(None, (options.instructions, skills))) or None,
            date=options.date,
            response_format=options.response_format,
            sampling=options.sampling,
            max_tokens=max_tokens,
            open_with=open_with,
            summarised=self._summary is not None,
            skills=skills,
        )

    def request_ahead(self, specs: Sequence[ToolSpec]) -> Request:
        """The request of the next turn's first step, as far as it is known: everything but the user's words."""
        ahead = Session(self._options, entries=self._entries, ends=self._ends, summary=self._summary)
        ahead.vocabulary, ahead.skills = self.vocabulary, self.skills
        ahead.open_turn("")
        request = ahead.request(specs)
        return replace(request, history=request.history[:-1])

    @property
    def prompted(self) -> tuple[int, ...]:
        """The entries in a request's history, in order; the summary, if any, comes before them."""
        last_said = {entry.turn: index for index, entry in enumerate(self._entries) if entry.message.role == "user"}
        return tuple(
            index
            for index, entry in enumerate(self._entries)
            if self._in_prompt(entry) and not self._is_behind_a_steer(entry, index, last_said)
        )

    def _is_behind_a_steer(self, entry: Entry, index: int, last_said: Mapping[int, int]) -> bool:
        """True for what an answered turn reasoned before the user steered it: the codec takes that for an open turn."""
        answered = entry.turn < len(self._ends) - 1 and self._ends[entry.turn] == "answered"
        return answered and entry.message.channel == ANALYSIS and index < last_said.get(entry.turn, 0)

    def _as_prompted(self, entry: Entry) -> Message:
        if entry.shortened is not None:
            return replace(entry.message, content=(entry.shortened,))
        if entry.message.sampled is not None and entry.vocabulary != self.vocabulary:
            return replace(entry.message, sampled=None)
        return entry.message

    @property
    def _turn(self) -> int:
        return max(0, len(self._ends) - 1)

    def _store(self, entry: Entry) -> None:
        self._entries.append(entry)
        if self.recorder:
            self.recorder.added(entry)

    def _in_prompt(self, entry: Entry) -> bool:
        """True if the entry is in the prompt: not the analysis of a stopped or broken turn, nor an empty answer.

        (An empty answer would only be a bad example.) The codec trims turns with a `final`.
        """
        if self._summary is not None and entry.turn < self._summary.turns:
            return False
        if entry.turn >= len(self._ends) - 1 or self._ends[entry.turn] == "answered":
            return True
        return entry.message.channel != ANALYSIS and not says_nothing(entry.message)
