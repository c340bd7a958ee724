"""The log of a session as a person reads it: words, thoughts, calls and answers, in order.

It grows with the events of turns, or comes from a stored session: the items are the same except for details that aren't
stored (durations, questions, notes).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ossia.agent.events import (
    ApprovalAsked,
    ApprovalDecided,
    ContextTrimmed,
    Delta,
    Event,
    MessageAdded,
    Stats,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnd,
    TurnEnded,
)
from ossia.agent.kinds import model_kind
from ossia.agent.sessions.session import Entry, Session
from ossia.cli.chat.pager.items import TAIL_CHARS, Item, ItemKind, ItemState, diff_of, item_name, tokens_of
from ossia.cli.words import ENDS
from ossia.harmony.messages import Message
from ossia.tools.outcome import diff_in
from ossia.tools.spec import Preview, ToolCall, ToolResult


@dataclass(slots=True)
class Transcript:
    """Everything so far. `version` grows with each change, so that a reader knows when to look again.

        transcript = Transcript.of(session)
        transcript.add_user("What is 6*7?")              # as it was typed; without it the whole message stands there
        for event in run_turn(session, …): transcript.see(event)
        transcript.last_answer()                         # '42.'
    """

    clock: Callable[[], float] = time.monotonic
    items: list[Item] = field(default_factory=list)
    version: int = 0
    _turn: int = -1
    _typed: Item | None = None  # the user's item whose message hasn't come yet
    _waiting: list[Item] = field(default_factory=list)  # calls without a result
    _step: dict[int, Item] = field(default_factory=dict)  # by index: messages of this step that aren't added yet
    _step_over: bool = False

    @classmethod
    def of(cls, session: Session, *, clock: Callable[[], float] = time.monotonic) -> Transcript:
        """The transcript of a stored session."""
        transcript = cls(clock)
        for entry in session.entries:
            if entry.turn > transcript._turn and transcript._turn >= 0:
                transcript._ended(session.ends[transcript._turn])
            transcript._enter(entry)
        if session.ends and session.entries:
            transcript._ended(session.ends[transcript._turn])
        if session.summary:
            transcript._summarise(session.summary.text, session.summary.turns)
        return transcript

    # -- reading -------------------------------------------------------------------------------------------------------

    def calls(self) -> list[Item]:
        """The calls, oldest first."""
        return [item for item in self.items if item.kind == "call"]

    def last_answer(self) -> str | None:
        """The text of the last answer with any words, as the model wrote it; None without one."""
        answers = (item.text for item in reversed(self.items) if item.kind == "answer")
        return next((text for text in answers if text.strip()), None)

    # -- writing -------------------------------------------------------------------------------------------------------

    def add_user(self, typed: str, *, steers: bool = False) -> Item:
        """The user's line as they typed it: call it before the event of its message. `steers`: within a turn."""
        self._typed = self._add("user", typed, turn=self._turn + (not steers))
        return self._typed

    def add_note(self, text: str, name: str = "") -> Item:
        """A line by ossia."""
        return self._add("note", text, name=name)

    def cut_back(self, turn: int) -> None:
        """Drop this turn and those after it, as `Session.cut_back` does."""
        self.items = [item for item in self.items if item.turn < turn]
        self._waiting = [item for item in self._waiting if item.turn < turn]
        self._turn, self._typed, self._step = min(self._turn, turn - 1), None, {}
        self.version += 1

    def see(self, event: Event) -> None:
        """Take note of one event of a turn."""
        match event:
            case Delta():
                self._delta(event)
            case MessageAdded(message, cut, steers):
                self._turn -= steers
                self._added(message, cut=cut)
            case Stats():
                self._step_over = True
            case ApprovalAsked(call, preview):
                item = self._touch(self._call(call))
                item.state, item.diff = "asked", diff_of(preview)
                item.summary = preview.summary if event.form is None else item.summary
            case ApprovalDecided(call_id):
                for item in self._with_id(call_id):
                    self._touch(item).state = "open"
            case ToolStarted(call, preview):
                self._started(call, preview)
            case ToolOutput(call_id, text):
                for item in self._with_id(call_id):
                    self._touch(item).output = (item.output + text)[-TAIL_CHARS:]
                    item.state = "running"  # its server may have asked something meanwhile
            case ToolFinished(call, result, ms):
                self._finished(self._call(call), result, ms)
            case ContextTrimmed(before, after, reason):
                self.add_note(f"{reason} · {before:,} → {after:,} tokens")
                if event.summary is not None:
                    self._summarise(event.summary, event.turns)
            case TurnEnded(end, error):
                self._ended(end, " ".join(str(error).split()) if error else "")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _delta(self, delta: Delta) -> None:
        if self._step_over:
            self._drop_step()
        if delta.role != "assistant":
            return
        item = self._step.get(delta.index)
        if item is None:
            for before in self._step.values():
                self._close(before)
            item = self._step[delta.index] = self._add(model_kind(delta), "", name=item_name(delta), state="open")
            item.tokens, item.since = 0, self.clock()
        item.said.append(delta.text)
        item.tokens = (item.tokens or 0) + (delta.text != "")
        self._touch(item)

    def _added(self, message: Message, *, cut: bool = False) -> Item | None:
        """A message is in the session now; returns the item that holds it."""
        if message.role == "assistant":
            return self._model_said(message, cut=cut)
        if message.sampled:  # written by the model in another role: nobody with that role said it
            return self._add("note", f"the model wrote this as the {message.role}: {message.text}")
        self._drop_step()
        if message.role == "user":
            return self._user_said(message.text)
        if message.role == "tool":
            return self._result(message)
        return self._add("note", message.text) if message.text else None

    def _model_said(self, message: Message, *, cut: bool) -> Item:
        """The item whose text came as deltas, or a new one. Those before it, never added as messages, are dropped."""
        kind, found = model_kind(message), None
        while self._step and found is None:
            item = self._step.pop(next(iter(self._step)))
            self._close(item)
            if item.kind == kind and "".join(item.said) == message.text:
                found = item
            else:
                self._remove(item)
        item = found or self._add(kind, "")
        item.said = [message.text]  # the session's own text: no second copy stays
        item.name, item.cut = item_name(message), cut
        item.tokens = tokens_of(message.sampled) if message.sampled else item.tokens
        return self._touch(item)

    def _user_said(self, text: str) -> Item:
        self._turn += 1
        before = next((item for item in reversed(self.items) if item.kind == "user" and item is not self._typed), None)
        item, self._typed = self._typed or self._add("user", text), None
        item.steers = before is not None and before.turn == self._turn
        self.items.remove(item)  # something may have come in between
        self.items.append(item)
        item.turn = self._turn
        item.attached = text.removeprefix(item.text).strip("\n")
        return self._touch(item)

    def _result(self, message: Message) -> Item:
        """A result. It belongs to the call that just ended, else to a waiting one of its name, else to the oldest."""
        ended = [item for item in self._waiting if item.ms is not None]
        named = [item for item in self._waiting if item.name == message.name]
        item = next(iter([*ended, *named, *self._waiting]), None) or self._add("call", "", name=message.name or "")
        self._waiting.remove(item)
        item.result, item.answered, item.state = message.text, True, "done"
        item.lost = item.lost if item.cut else ""
        return self._touch(item)

    def _enter(self, entry: Entry) -> None:
        """A stored message."""
        if entry.message.role == "user":
            self._turn = entry.turn - 1
            if entry.typed:
                self.add_user(entry.typed)
        self._turn = max(self._turn, entry.turn - (entry.message.role == "user"))
        item = self._added(entry.message, cut=entry.cut)
        if item is not None and entry.message.role == "tool":
            item.attachments, item.error = entry.attachments, entry.error
            item.kept, item.diff = entry.state, diff_in(entry.state)

    def _drop_step(self) -> None:
        """Drop the items that are in no session: text after the model's call, or an empty message that was cut."""
        for item in self._step.values():
            self._remove(item)
        self._step, self._step_over = {}, False

    def _close(self, item: Item) -> None:
        """Its text is whole."""
        if item.state == "open" and item.seconds is None:
            item.seconds = self.clock() - item.since
            item.state = "open" if item.kind == "call" else "done"
            self._touch(item)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, call: ToolCall) -> Item:
        """The item with this id, else that of the last call that waits; one that no message asked for gets its own."""
        self._drop_step()
        item = next(iter(self._with_id(call.id)), None)
        if item is not None:
            return item
        item = next((item for item in reversed(self._waiting) if not item.id), None)
        if item is None:
            item = self._add("call", "", name=call.name, state="open")
            item.said = [call.arguments]
        item.id = call.id
        return self._touch(item)

    def _with_id(self, call_id: str) -> list[Item]:
        """The call under way, if it is this one."""
        return [item for item in self._waiting if item.id == call_id]

    def _started(self, call: ToolCall, preview: Preview | None) -> None:
        item = self._call(call)
        item.diff, item.summary = diff_of(preview), preview.summary if preview else ""
        item.state, item.since, item.output = "running", self.clock(), ""
        item.ran = call.arguments if call.arguments != item.arguments else None
        self._touch(item)

    def _finished(self, item: Item, result: ToolResult, ms: int) -> None:
        item.result, item.error, item.attachments, item.kept = (
            result.text, result.error, result.attachments, result.state,
        )  # fmt: skip
        item.ms, item.state, item.output = ms, "done", ""
        self._touch(item)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _ended(self, end: TurnEnd | None, why: str = "") -> None:
        self._drop_step()
        for item in reversed(self.items):
            if item.turn < self._turn:
                break
            if item.state != "done":
                self._touch(item).state = "done"
            if item.kind == "call" and (item.cut or not (item.answered or item.text)):
                because = ENDS.get(end, "cut").removeprefix("cut off: ")
                self._touch(item).lost = f"{'not called' if item.cut else 'no result'} ({because})"
        if end != "answered":
            self.add_note(why or ENDS[end], name=end or "closed")

    def _summarise(self, text: str, turns: int) -> None:
        """Put the summary before the first turn that it doesn't cover; it replaces an older one."""
        self.items = [item for item in self.items if item.kind != "summary"]
        at = next((number for number, item in enumerate(self.items) if item.turn >= turns), len(self.items))
        item = Item("summary", turn=turns - 1)
        item.said = [text]
        self.items.insert(at, item)
        self.version += 1

    def _remove(self, item: Item) -> None:
        self.items.remove(item)
        if item in self._waiting:
            self._waiting.remove(item)
        self.version += 1

    def _add(
        self, kind: ItemKind, text: str, *, name: str = "", state: ItemState = "done", turn: int | None = None
    ) -> Item:
        item = Item(kind, turn=self._turn if turn is None else turn, name=name, state=state)
        item.said = [text]
        self.items.append(item)
        if kind == "call":
            self._waiting.append(item)
        return self._touch(item)

    def _touch(self, item: Item) -> Item:
        item.version += 1
        self.version += 1
        return item
