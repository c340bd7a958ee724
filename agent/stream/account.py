"""The account of a turn, from its events: the answer, the calls, the figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ossia.agent.events import (
    ApprovalDecided,
    ConstraintDropped,
    ContextTrimmed,
    Event,
    MessageAdded,
    Repaired,
    SampledAgain,
    Stats,
    ToolFinished,
    ToolShown,
    TurnEnd,
    TurnEnded,
)
from ossia.agent.kinds import is_answer, model_kind
from ossia.agent.stream import events as stream
from ossia.agent.sums import Sums
from ossia.harmony.messages import Message
from ossia.tools.saying import parsed

if TYPE_CHECKING:
    from ossia.agent.citations import Cited, Footnote
    from ossia.agent.engine.base import StepStats


def arguments_of(text: str) -> object:
    """The arguments of a call as an object, else the text: `{"city": "Oslo"}`, `"print(48*17)"`, `'{"n": NaN}'`."""
    read = parsed(text) if text.lstrip().startswith("{") else None
    try:
        json.dumps(read, allow_nan=False)  # NaN, infinity and what is nested too deep aren't
    except (ValueError, RecursionError):
        return text
    return read if isinstance(read, dict) else text


@dataclass(slots=True)
class Account:
    """The account of one turn. Feed it every event.

    `schema`: what a text must follow to count as the answer; None: any text counts. `origin`: where a document of the
    local library comes from. `stopped`: the turn was stopped, so that a call which fails now was stopped, too.
    """

    model: str
    schema: object | None = None
    origin: Callable[[str], str | None] = lambda url: None
    stopped: Callable[[], bool] = lambda: False
    end: TurnEnd = "error"
    error: BaseException | None = None
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolFinished] = field(default_factory=list)
    statuses: dict[str, stream.CallStatus] = field(default_factory=dict)
    repairs: list[Repaired] = field(default_factory=list)
    sampled_again: list[SampledAgain] = field(default_factory=list)
    dropped: list[ConstraintDropped] = field(default_factory=list)
    trimmed: list[ContextTrimmed] = field(default_factory=list)
    states: list[Mapping[str, object]] = field(default_factory=list)
    steps: list[StepStats] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    reasoning_tokens: int = 0
    _whole: str | None = None  # the last answer that came to its end

    def see(self, event: Event) -> None:
        """Take note of one event."""
        self.sums.see(event)
        match event:
            case MessageAdded(message, cut):
                self.messages.append(message)
                if message.sampled and model_kind(message) == "thinking":
                    self.reasoning_tokens += len(message.sampled.ids)
                self._whole = message.text if is_answer(message) and not cut else self._whole
            case ApprovalDecided(call_id, allow):
                self.statuses[call_id] = "done" if allow else "refused"
            case ToolShown(call):
                self.statuses[call.id] = "shown"
            case ToolFinished():
                self.calls.append(event)
                self.statuses[event.call.id] = self._status(event)
                if event.result.state is not None:
                    self.states.append(event.result.state)
            case Repaired():
                self.repairs.append(event)
            case SampledAgain():
                self.sampled_again.append(event)
            case ConstraintDropped():
                self.dropped.append(event)
            case ContextTrimmed():
                self.trimmed.append(event)
            case Stats(step):
                self.steps.append(step)
            case TurnEnded(end, error):
                self.end, self.error = end, error

    def _status(self, done: ToolFinished) -> stream.CallStatus:
        before, fault = self.statuses.get(done.call.id), done.result.fault
        if before == "shown":
            return "shown"
        if done.result.returned:
            return "returned"
        if not done.result.error:
            return "done"
        if self.stopped():
            return "stopped"
        refused = fault is not None and fault.kind in ("refused", "unasked", "planning")
        return "refused" if refused or (before == "refused" and not done.ms) else "failed"

    def fail(self, error: BaseException) -> None:
        """Note the end of the run outside its turn: an error while loading, or the user's interrupt."""
        if isinstance(error, KeyboardInterrupt):
            self.end, self.error = "stopped", KeyboardInterrupt("interrupted")
        else:
            self.end, self.error = "error", error

    @property
    def answer(self) -> str | None:
        """The text of the last `final` message that isn't blank; with a schema, only if it is whole and follows it.
        """
        if self.schema is not None:
            return self._whole if self._whole is not None and self.misfit is None else None
        finals = [message.text for message in self.messages if is_answer(message)]
        return next((text for text in reversed(finals) if text.strip()), None)

    @property
    def misfit(self) -> str | None:
        """The fault of a whole answer by the schema; None: it follows it, or one of them is missing."""
        if self.schema is None or self._whole is None:
            return None
        from ossia.agent.schema import fault_of

        return fault_of(self._whole, self.schema)

    @property
    def cited_answer(self) -> tuple[str | None, tuple[Footnote, ...]]:
        """The answer with its citations numbered, and their footnotes."""
        if self.answer is None or self.schema is not None or "【" not in self.answer:
            return self.answer, ()
        from ossia.agent.citations import cite

        return cite(self.answer, self.page)

    def page(self, cursor: int) -> Cited | None:
        """The page behind a cursor of the browser; None: the cursor shows no page."""
        from ossia.agent.citations import page_behind

        return page_behind(self.states, cursor, self.origin)

    @property
    def error_line(self) -> str | None:
        """The line on what broke, or on the answer that doesn't follow the schema; None: nothing."""
        if self.error is None:
            return self.misfit
        return " ".join(str(self.error).split()) or type(self.error).__name__

    def result(self, *, session_id: str | None = None, exit_code: int = 0) -> stream.Result:
        """The last event."""
        answer, notes = self.cited_answer
        sums = self.sums
        return stream.Result(
            self.end,
            answer,
            json.loads(answer) if answer is not None and self.schema is not None else None,
            tuple(
                stream.Call(
                    done.call.name,
                    arguments_of(done.call.arguments),
                    done.call.id,
                    self.statuses[done.call.id],
                    done.result.text,
                )
                for done in self.calls
            ),
            tuple(
                stream.Source(
                    note.number, note.title, note.url, note.first_line, note.last_line, note.verified, note.places
                )
                for note in notes
            ),
            stream.Usage(
                sums.prompt, sums.reused, sums.evaluated, sums.completion, round(sums.prefill_s, 4),
                round(sums.decode_s, 4),
            ),
            session_id,
            self.error_line,
            exit_code,
            min(self.reasoning_tokens, sums.completion),
        )  # fmt: skip
