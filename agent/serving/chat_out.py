"""A turn as Chat Completions gives it: the chunks of a stream, and the whole completion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ossia.agent.serving.asked import Asked, BadRequest
from ossia.agent.serving.failures import error_object, failure_of, is_cut
from ossia.agent.serving.response_items import refusal, text_of
from ossia.agent.serving.response_object import citations
from ossia.agent.stream.events import Approval, Event, Reasoning, Result, Text, ToolCall, ToolResult

Json = dict[str, Any]


class ChatWriter:
    """Writes one turn. Feed it all published events, the last of which is the `Result`; what comes later is ignored.

    The reasoning is `reasoning` and `reasoning_content`, as other servers call it: clients read one or the other, and
    OpenAI's none. Words before a call are content, unless an answer by a schema is asked for: then only it is. This API
    knows no tools that run on the server: they aren't shown, but for the line on one that was refused, which is
    reasoning. `fingerprint`: of the server and the model, for `system_fingerprint`. `failure`: the reason for which
    there is no answer, after the last event.

        writer = ChatWriter(asked, id="chatcmpl-1f2e", created=1764374400, model="gpt-oss-20b")
        for event in publisher.see(…):
            for sent in writer.see(event):
                …                      # {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "816"}}]}
        writer.completion()            # {"object": "chat.completion", "choices": [{"message": {…}}], "usage": …}
    """

    def __init__(self, asked: Asked, *, id: str, created: int, model: str, fingerprint: str | None = None) -> None:
        self.failure: BadRequest | None = None
        self._head = {"id": id, "created": created, "model": model, "system_fingerprint": fingerprint}
        self._names = {one.spec.name: one.name for one in asked.functions}
        self._only_answer = asked.answer is not None
        options = asked.raw.get("stream_options")
        self._with_usage = isinstance(options, dict) and options.get("include_usage") is True
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[Json] = []
        self._named: dict[str, ToolCall] = {}
        self._questions: list[Approval] = []
        self._item: tuple[bool, int] | None = None  # the message that the last text belongs to
        self._begun = False
        self._result: Result | None = None

    def begin(self) -> Iterator[Json]:
        """The first chunk, with the role. `see` gives it before anything else, unless it was given."""
        if not self._begun:
            self._begun = True
            yield self._chunk({"role": "assistant", "content": ""})

    def see(self, event: Event) -> Iterator[Json]:
        """The chunks to send for a published event. Iterate to the end."""
        if self._result is not None:
            return
        yield from self.begin()
        match event:
            case Text(delta, number, preamble):
                yield from self._said(delta, number, thinking=preamble and self._only_answer)
            case Reasoning(delta, number):
                yield from self._said(delta, number, thinking=True)
            case ToolCall():
                self._named[event.id] = event
            case Approval():
                self._questions.append(event)
            case ToolResult(status="returned") if event.id in self._named:
                yield from self._called(self._named[event.id])
            case ToolResult():
                if line := refusal(event, self._named.get(event.id), self._questions):
                    yield from self._said(line, -1 - len(self._reasoning), thinking=True)
            case Result():
                yield from self._finish(event)

    def completion(self) -> Json:
        """The whole completion, after the last event."""
        assert self._result is not None
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        message: Json = {"role": "assistant", "content": content or (None if self._calls else ""), "refusal": None}
        if reasoning:
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        if self._calls:
            message["tool_calls"] = self._calls
        if notes := self._annotations(self._result):
            message["annotations"] = notes
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage(self._result)}

    @property
    def _reason(self) -> str:
        assert self._result is not None
        return "tool_calls" if self._calls else "length" if is_cut(self._result) else "stop"

    def _chunk(self, delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self._with_usage else {}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **usage}

    def _said(self, delta: str, number: int, *, thinking: bool) -> Iterator[Json]:
        """More text; a blank line parts it from another message's of its kind."""
        if not delta:
            return
        pieces = self._reasoning if thinking else self._content
        if pieces and self._item != (thinking, number):
            delta = f"\n\n{delta}"
        self._item = thinking, number
        pieces.append(delta)
        yield self._chunk({"reasoning": delta, "reasoning_content": delta} if thinking else {"content": delta})

    def _called(self, call: ToolCall) -> Iterator[Json]:
        """The call of a client's function: it is whole, since the model may write it again until it fits."""
        function = {"name": self._names[call.name], "arguments": text_of(call.arguments)}
        index = len(self._calls)
        self._calls.append({"id": call.id, "type": "function", "function": function})
        begun = {**self._calls[-1], "index": index, "function": {**function, "arguments": ""}}
        yield self._chunk({"tool_calls": [begun]})
        yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})

    def _finish(self, result: Result) -> Iterator[Json]:
        self._result, self.failure = result, failure_of(result)
        if self.failure:
            yield error_object(self.failure)
            return
        notes = self._annotations(result)
        yield self._chunk({"annotations": notes} if notes else {}, self._reason)
        if self._with_usage:
            yield {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": _usage(result)}

    def _annotations(self, result: Result) -> list[Json]:
        """The citations, if the content ends with the answer that has them."""
        before = len("".join(self._content)) - len(result.text or "")
        if not result.text or not "".join(self._content).endswith(result.text):
            return []
        found = citations(result.sources)
        for one in found:
            one["start_index"] += before
            one["end_index"] += before
        return [{"type": one.pop("type"), "url_citation": one} for one in found]


def _usage(result: Result) -> Json:
    used = result.usage
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.prompt + used.completion,
        "prompt_tokens_details": {"cached_tokens": used.reused},
        "completion_tokens_details": {"reasoning_tokens": result.reasoning_tokens},
    }
