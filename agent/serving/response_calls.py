"""The calls of a turn in the stream of a response."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ossia.agent.serving import response_items as items
from ossia.agent.serving.asked import Asked
from ossia.agent.serving.response_stream import Json, Stream
from ossia.agent.stream.events import Approval, ToolCall, ToolResult, ToolStarted


@dataclass(slots=True)
class _Running:
    """A call that runs here: its item in full, though it was added without its text."""

    kind: items.Hosted
    name: str
    place: Json
    item: Json


class CallItems:
    """The items of calls. `logs`: show what code printed.

    A call of the client's function is added when it is whole and fits its schema: before that the model may write it
    again, and clients run an item that was added, however it ended. Calls that the model got wrong aren't shown.
    """

    def __init__(self, stream: Stream, asked: Asked, *, logs: bool) -> None:
        self._stream, self._logs, self._shell = stream, logs, "shell" in asked.hosted
        self._functions = {one.spec.name: one for one in asked.functions}
        self._running: dict[str, _Running] = {}  # by the call's id
        self._calls: dict[str, ToolCall] = {}
        self._questions: list[Approval] = []

    def see(self, event: ToolCall | Approval | ToolStarted | ToolResult) -> Iterator[Json]:
        """The events to send for one of a call."""
        match event:
            case ToolCall():
                self._calls[event.id] = event
            case Approval():
                self._questions.append(event)
            case ToolStarted(id, name, arguments):
                yield from self._start(id, name, arguments)
            case ToolResult():
                yield from self._end(event)

    def stop(self) -> Iterator[Json]:
        """End the calls that still run."""
        for id in tuple(self._running):
            yield from self._end(ToolResult(id, "stopped", ""))

    def _start(self, id: str, name: str, arguments: object) -> Iterator[Json]:
        """Add the item of a call that runs here; once, also if it runs again with what it lacked."""
        if id in self._running:
            return
        kind = items.hosted(name, shell=self._shell)
        item = items.of_hosted(kind, name, arguments, item_id=self._stream.new_id(kind.prefix), call_id=id)
        place = self._stream.place(item)
        yield from self._stream.add({**item, kind.text: ""} if kind.text else item)
        if kind is items.SHELL:  # what it prints is an item of its own
            yield from self._stream.done(place, {**item, "status": "completed"})
            item = items.shell_output(id, item_id=self._stream.new_id("sho"))
            place = self._stream.place(item)
            yield from self._stream.add(item)
        self._running[id] = _Running(kind, name, place, item)
        base = f"response.{kind.name}"
        for number, word in enumerate(kind.running):
            yield self._stream.event(f"{base}.{word}", **place)
            if kind.text and not number:
                yield from self._text(f"{base}_{kind.text}", place, kind.text, item[kind.text])

    def _end(self, result: ToolResult) -> Iterator[Json]:
        call = self._calls.get(result.id)
        if call and result.status == "returned":
            yield from self._give(call)
        elif call and result.status == "refused":
            yield from self._start(call.id, call.name, call.arguments)
        if (running := self._running.pop(result.id, None)) is None:
            return
        kind, refusal = running.kind, items.refusal(result, call, self._questions)
        item = items.ended(kind, running.item, running.name, result, refusal, logs=self._logs)
        if word := kind.ended[item["status"] == "failed"]:
            yield self._stream.event(f"response.{kind.name}.{word}", **running.place)
        yield from self._stream.done(running.place, item)

    def _give(self, call: ToolCall) -> Iterator[Json]:
        """Add the whole call of a client's function."""
        function = self._functions[call.name]
        field, prefix, base = ("arguments", "fc", "response.function_call_arguments")
        if function.text:
            field, prefix, base = ("input", "ctc", "response.custom_tool_call_input")
        item = items.of_function(function, call, item_id=self._stream.new_id(prefix))
        place = self._stream.place(item)
        yield from self._stream.add({**item, field: "", "status": "in_progress"})
        yield from self._text(base, place, field, item[field])
        yield from self._stream.done(place, item)

    def _text(self, base: str, place: Json, field: str, text: str) -> Iterator[Json]:
        if text:
            yield self._stream.event(f"{base}.delta", **place, delta=text)
        yield self._stream.event(f"{base}.done", **place, **{field: text})
