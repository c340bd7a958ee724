"""A turn as the Responses API gives it: the events of a stream, and the whole response."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ossia.agent.serving.asked import Asked, BadRequest
from ossia.agent.serving.failures import error_object, failure_of, is_cut
from ossia.agent.serving.response_calls import CallItems
from ossia.agent.serving.response_items import sealed
from ossia.agent.serving.response_object import citations, repeated, usage
from ossia.agent.serving.response_stream import Json, Stream
from ossia.agent.stream.events import (
    Approval,
    Arguments,
    Event,
    Reasoning,
    Result,
    Source,
    Text,
    ToolCall,
    ToolResult,
    ToolStarted,
)

Phase = Literal["reasoning", "commentary", "final_answer"]


@dataclass(slots=True)
class _Open:
    """The item that the model is writing: a message or its reasoning. `number`: of the message in the turn."""

    phase: Phase
    number: int
    place: Json
    pieces: list[str] = field(default_factory=list)


class ResponsesWriter:
    """Writes one turn. Feed it all published events, the last of which is the `Result`; what comes later is ignored.

    `mark` is in the ids of its items: `"msg_1f2e_0"`. `now` gives Unix seconds, for `completed_at`; None: it stays
    null. An item is added once, only the last one can be incomplete, and one event ends the stream, whatever happens.
    `failure`: the reason for which there is no answer, after the last event.

        writer = ResponsesWriter(asked, id="resp_1f2e", mark="1f2e", created_at=1764374400, model="gpt-oss-20b")
        for event in publisher.see(…):
            for sent in writer.see(event):
                …                                  # {"type": "response.output_text.delta", "delta": "816", …}
        writer.response()                          # {"id": "resp_1f2e", "status": "completed", "output": […], …}
    """

    def __init__(
        self, asked: Asked, *, id: str, mark: str, created_at: int, model: str, now: Callable[[], int] | None = None
    ) -> None:
        self.failure: BadRequest | None = None
        self._head = {"id": id, "object": "response", "created_at": created_at, "model": model}
        self._asked, self._now = asked, now
        given, reasoning = asked.raw.get("include"), asked.raw.get("reasoning")
        include = given if isinstance(given, list) else []
        self._sealed = "reasoning.encrypted_content" in include
        self._summarized = isinstance(reasoning, dict) and bool(reasoning.get("summary"))
        self._reasoning = "response.reasoning_text" if asked.openais else "response.reasoning"
        self._stream = Stream(mark)
        logs = "code_interpreter_call.outputs" in include
        self._calls = CallItems(self._stream, asked, logs=logs)
        self._open: _Open | None = None
        self._result: Result | None = None
        self._completed_at: int | None = None

    def begin(self) -> Iterator[Json]:
        """The first events. `see` gives them before anything else, unless they were given."""
        if not self._stream.number:
            yield self._stream.event("response.created", response=self.response())
            yield self._stream.event("response.in_progress", response=self.response())

    def see(self, event: Event) -> Iterator[Json]:
        """The events to send for a published one. Iterate to the end."""
        if self._result is not None:
            return
        yield from self.begin()
        match event:
            case Text(delta, number, preamble):
                yield from self._written("commentary" if preamble else "final_answer", number, delta)
            case Reasoning(delta, number):
                yield from self._written("reasoning", number, delta)
            case Arguments():
                yield from self._close()
            case ToolCall() | Approval() | ToolStarted() | ToolResult():
                yield from self._close()
                yield from self._calls.see(event)
            case Result():
                yield from self._finish(event)

    def response(self) -> Json:
        """The response as it is now; after the last event, the whole one."""
        status, result = self._status, self._result
        return {
            **self._head,
            **repeated(self._asked),
            "completed_at": self._completed_at,
            "status": status,
            "error": self.failure and {"code": self.failure.code, "message": str(self.failure)},
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": list(self._stream.output),
            "usage": usage(result) if result else None,
        }

    @property
    def _status(self) -> str:
        if self._result is None:
            return "in_progress"
        return "failed" if self.failure else "incomplete" if is_cut(self._result) else "completed"

    def _finish(self, result: Result) -> Iterator[Json]:
        failure = failure_of(result)
        whole = failure is None and not is_cut(result)
        yield from self._close("completed" if whole else "incomplete", result)
        yield from self._calls.stop()
        self._result, self.failure = result, failure
        if failure:  # clients read the fields of one form or of the other
            error = error_object(failure)["error"]
            flat = {name: error[name] for name in ("code", "message", "param")}
            yield self._stream.event("error", **flat, error=error)
        elif whole and self._now:
            self._completed_at = self._now()
        yield self._stream.event(f"response.{self._status}", response=self.response())

    # -- text ----------------------------------------------------------------------------------------------------------

    def _written(self, phase: Phase, number: int, delta: str) -> Iterator[Json]:
        if not delta:
            return
        now = self._open
        if now is None or (now.phase, now.number) != (phase, number):
            yield from self._close()
            now = yield from self._opened(phase, number)
        now.pieces.append(delta)
        place: Json = {**now.place, "content_index": 0}
        if phase != "reasoning":
            yield self._stream.event("response.output_text.delta", **place, delta=delta, logprobs=[])
            return
        yield self._stream.event(f"{self._reasoning}.delta", **place, delta=delta)
        if self._summarized:  # the text itself is the only summary that there is
            place = {**now.place, "summary_index": 0}
            yield self._stream.event("response.reasoning_summary_text.delta", **place, delta=delta)

    def _opened(self, phase: Phase, number: int) -> Generator[Json, None, _Open]:
        item = self._item(phase, self._stream.new_id("rs" if phase == "reasoning" else "msg"), "in_progress", [])
        self._open = opened = _Open(phase, number, self._stream.place(item))
        yield from self._stream.add(item)
        part = _part(phase, "", ())
        yield self._stream.event("response.content_part.added", **opened.place, content_index=0, part=part)
        if self._summarized and phase == "reasoning":
            place: Json = {**opened.place, "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            yield self._stream.event("response.reasoning_summary_part.added", **place, part=part)
        return opened

    def _close(self, status: str = "completed", result: Result | None = None) -> Iterator[Json]:
        """End the item that is being written, if any. `result`: the turn's, whose sources may be cited in it."""
        if self._open is None:
            return
        now, self._open = self._open, None
        event, text = self._stream.event, "".join(now.pieces)
        part = _part(now.phase, text, result.sources if result and result.text == text else ())
        place: Json = {**now.place, "content_index": 0}
        for number, one in enumerate(part.get("annotations", ())):
            yield event("response.output_text.annotation.added", **place, annotation_index=number, annotation=one)
        if now.phase == "reasoning":
            yield event(f"{self._reasoning}.done", **place, text=text)
        else:
            yield event("response.output_text.done", **place, text=text, logprobs=[])
        yield event("response.content_part.done", **place, part=part)
        if self._summarized and now.phase == "reasoning":
            place = {**now.place, "summary_index": 0}
            yield event("response.reasoning_summary_text.done", **place, text=text)
            part_ = {"type": "summary_text", "text": text}
            yield event("response.reasoning_summary_part.done", **place, part=part_)
        yield from self._stream.done(now.place, self._item(now.phase, now.place["item_id"], status, [part]))

    def _item(self, phase: Phase, item_id: str, status: str, content: list[Json]) -> Json:
        item: Json = {"id": item_id, "status": status, "content": content}
        if phase != "reasoning":
            return {**item, "type": "message", "role": "assistant", "phase": phase}
        text = "".join(part["text"] for part in content)
        summary = [{"type": "summary_text", "text": text}] if self._summarized and content else []
        hidden = {"encrypted_content": sealed(text)} if self._sealed else {}
        return {**item, "type": "reasoning", "summary": summary, **hidden}


def _part(phase: Phase, text: str, sources: Sequence[Source]) -> Json:
    if phase == "reasoning":
        return {"type": "reasoning_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": citations(sources), "logprobs": []}
