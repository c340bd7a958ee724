"""A turn's events as other programs get them: the one mapping from `agent.events` to `agent.stream.events`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING

from ossia.agent import events
from ossia.agent.kinds import is_answer, model_kind
from ossia.agent.stream import events as stream
from ossia.agent.stream.account import Account, arguments_of
from ossia.harmony.messages import Delta, Repaired
from ossia.tools.approval.flags import flags_for
from ossia.tools.outcome import diff_in
from ossia.tools.saying import saying
from ossia.tools.spec import Preview, ToolCall, ToolResult, ToolSpec

if TYPE_CHECKING:
    from ossia.agent.citations import Citations

_EFFECTS: tuple[stream.CallKind, ...] = ("run", "send", "write", "read")


class Publisher:
    """Publishes the events of one turn; `account` gets each of them, too. Its owner adds the first and the last event.

    `specs` gives the tools on offer by name. `asked`: the questions that are open, by their ids. `mark`: a new ending
    for the id of each question, for those who mustn't guess it.

        publisher = Publisher(Account(model.name, stopped=lambda: control.stopped), lambda: tools.toolbox.by_name)
        for event in (turn := conversation.say("What is 48*17?")):
            for published in publisher.see(event):
                …                                      # Reasoning("They want"), …, Text("816")
        publisher.account.result()                     # Result("answered", "816", …)
    """

    def __init__(
        self,
        account: Account,
        specs: Callable[[], Mapping[str, ToolSpec]] = dict,
        *,
        mark: Callable[[], str] = str,
    ) -> None:
        self.account = account
        self.asked: dict[str, events.ApprovalAsked] = {}
        self._specs, self._mark = specs, mark
        self._called: dict[str, tuple[ToolCall, str]] = {}  # the calls that are announced, with their titles
        self._questions = 0
        self._early: events.ApprovalDecided | None = None  # a rule's, on a call that isn't announced yet
        self._item, self._index = -1, -1  # of the message that the last delta belongs to
        self._citations: Citations | None = None

    def see(self, event: events.Event) -> tuple[stream.Event, ...]:
        """The published form of an event, often one, none of a `TurnEnded`."""
        self.account.see(event)
        return tuple(self._published(event))

    def finish(self) -> tuple[stream.Event, ...]:
        """The results of the calls that were still being stopped when the run ended."""
        over = {done.call.id for done in self.account.calls}
        left = [call for call, _ in self._called.values() if call.id not in over]
        return tuple(one for call in left for one in self.see(events.ToolFinished(call, ToolResult("", error=True), 0)))

    def _published(self, event: events.Event) -> Iterator[stream.Event]:
        if isinstance(event, events.MessageAdded | events.Stats | events.SampledAgain) or (
            isinstance(event, Delta) and event.index != self._index
        ):
            yield from self._end_of_message()
        match event:
            case Delta():
                yield from self._delta(event)
            case events.MessageAdded(message, steers=True):
                yield stream.Steered(message.text)
            case events.ApprovalAsked(call, preview):
                yield from self._call(call, preview, event.arguments)
                yield self._question(event)
            case events.ApprovalDecided(by="policy") if event.call_id not in self._called:
                self._early = event
            case events.ApprovalDecided():
                yield self._decided(event)
            case events.ToolShown(call, preview):
                yield from self._call(call, preview)
            case events.ToolStarted(call, preview):
                yield from self._call(call, preview)
                yield stream.ToolStarted(call.id, call.name, self._arguments(call))
            case events.ToolOutput(call_id, text, output):
                yield stream.ToolOutput(call_id, text, output)
            case events.ToolFinished(call):
                yield from self._call(call, None)
                yield self._finished(event)
            case events.Progress():
                yield stream.Progress(event.done, event.total, event.reused, event.phase)
            case Repaired():
                yield stream.Notice("repaired", event.message)
            case events.ConstraintDropped():
                yield stream.Notice("constraint-dropped", event.reason)
            case events.ContextTrimmed():
                yield stream.Notice("trimmed", event.reason)
            case events.SampledAgain(reason):
                yield stream.Notice("sampled-again", reason)
            case events.ThinkingCut(tokens):
                yield stream.Notice("thinking-cut", f"the reasoning reached its limit of {tokens:,} tokens")
            case events.Stats(step):
                yield stream.Usage(
                    step.prompt_tokens, step.reused_tokens, step.evaluated_tokens, step.completion_tokens,
                    round(step.prefill_s, 4), round(step.decode_s, 4),
                )  # fmt: skip
            case events.TurnEnded():
                return

    # -- text ----------------------------------------------------------------------------------------------------------

    def _delta(self, delta: Delta) -> Iterator[stream.Event]:
        if delta.index != self._index:
            self._item, self._index = self._item + 1, delta.index
        kind = model_kind(delta)
        if kind == "call":
            yield stream.Arguments(delta.recipient or "", delta.text, self._item)
            return
        text = self._cited(delta.text) if is_answer(delta) else delta.text
        if text:
            thinking = kind == "thinking"
            yield stream.Reasoning(text, self._item) if thinking else self._text(text, preamble=kind == "preamble")

    def _text(self, text: str, *, preamble: bool = False) -> stream.Text:
        return stream.Text(text, self._item, preamble)

    def _cited(self, text: str) -> str:
        """The text with its citations numbered; an unfinished one is held back."""
        if self._citations is None:
            if "【" not in text or self.account.schema is not None:
                return text
            from ossia.agent.citations import Citations

            self._citations = Citations(self.account.page)
        return self._citations.feed(text)

    def _end_of_message(self) -> Iterator[stream.Event]:
        rest = self._citations.finish() if self._citations else ""
        if rest:
            yield self._text(rest)
        self._citations, self._index = None, -1

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, call: ToolCall, preview: Preview | None, arguments: object = None) -> Iterator[stream.Event]:
        """Announce a call, unless it was."""
        if call.id in self._called:
            return
        title = preview.summary if preview else saying(call.name, call.arguments)
        self._called[call.id] = call, title
        spec = self._specs().get(call.name)
        effects = (preview.effects if preview else None) or (spec.effects if spec else frozenset())
        rest: stream.CallKind = "read" if preview else "other"
        rest = "run" if spec and spec.present.language in ("python", "bash") else rest  # confined, it has no effects
        kind = next((effect for effect in _EFFECTS if effect in effects), rest)
        files = preview is not None and not preview.command and spec is not None and spec.provenance == "built-in"
        paths = tuple(one for one in preview.subjects if "://" not in one) if preview and files else ()
        yield stream.ToolCall(call.name, self._arguments(call, arguments), call.id, title, kind, paths)
        if self._early and self._early.call_id == call.id:
            yield self._decided(self._early)
        self._early = None

    def _arguments(self, call: ToolCall, arguments: object = None) -> object:
        spec = self._specs().get(call.name)
        if arguments is not None or (spec is not None and spec.input == "text"):
            return call.arguments if arguments is None else deepcopy(arguments)
        return arguments_of(call.arguments)

    def _question(self, asked: events.ApprovalAsked) -> stream.Approval:
        self._questions += 1
        name = f"{asked.call.id}/{self._questions}{self._mark()}"
        self.asked = {name: asked}
        preview = asked.preview
        lasting = asked.lasting or not asked.firm
        return stream.Approval(
            name,
            asked.call.id,
            asked.call.name,
            deepcopy(asked.arguments),  # a reader may write into them, and what was previewed runs
            preview.summary,
            preview.detail,
            preview.language,
            asked.reason,
            preview.conditions,
            asked.firm,
            asked.rules if lasting else (),
            asked.wider if lasting else (),
            lasting and asked.form is None,
            asked.edits,
            asked.fault,
            asked.form,
            flags_for(asked) if asked.form is None else "",
        )

    def _decided(self, decided: events.ApprovalDecided) -> stream.ApprovalDecided:
        name = next((name for name, asked in self.asked.items() if asked.call.id == decided.call_id), None)
        self.asked = {}
        return stream.ApprovalDecided(decided.call_id, decided.allow, decided.by, decided.reason, name)

    def _finished(self, done: events.ToolFinished) -> stream.ToolResult:
        self.asked = {}
        result, call = done.result, done.call
        return stream.ToolResult(
            call.id,
            self.account.statuses[call.id],
            result.text,
            self._called[call.id][1],
            diff_in(result.state),
            result.notices,
            tuple(str(one.path) for one in result.attachments),
            done.ms,
        )
