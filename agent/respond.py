"""Answering one step with an engine of our own: codec, engine, parser."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace

from agent.adapt import is_answer, is_call
from agent.control import Control
from agent.engine.base import Engine, Generation, Prompt
from agent.errors import ContextFull, EngineFailed
from agent.events import Stats
from agent.prompt import compose
from agent.request import ContextUse, Request, StepEvent
from harmony.codec import Codec
from harmony.messages import FINAL, Completion, CompletionEnd
from harmony.parse import StreamParser
from harmony.render import drop_past_analysis

Tap = Callable[[Sequence[int]], None]


class LocalResponder:
    """A responder wherever ids can be sent: llama.cpp in this process, or a server that takes ids.

    `tap` sees the ids of each step as they come: first those the step was opened with (from `<|start|>` on), then every
    generated one, stop ids included.
    """

    def __init__(self, codec: Codec, engine: Engine, *, tap: Tap | None = None) -> None:
        self.codec = codec
        self.engine = engine
        self._tap = tap

    def measure(self, request: Request) -> ContextUse:
        """How much of the context the request takes, in tokens."""
        prompt, _ = self._prompt(request)
        static = prompt.marks[0] if prompt.marks else 0
        return ContextUse(len(prompt.ids), self.engine.context_tokens, static)

    def respond(self, request: Request, *, control: Control) -> Generator[StepEvent, None, Completion]:
        """Generate once. The completion holds every message that came, the last one cut if nothing closed it.

        Raises `ContextFull` before anything else when the prompt leaves no room. When the engine fails in the middle,
        the `EngineFailed` carries what had come so far in `partial`.
        """
        prompt, opening = self._prompt(request)
        if len(prompt.ids) >= self.engine.context_tokens:
            raise ContextFull(len(prompt.ids), self.engine.context_tokens)
        tokens = self.codec.tokenizer.control
        stops = tokens.generation_stops | ({tokens.end} if request.open_with else frozenset())
        parser = self.codec.parser(tools=frozenset(spec.name for spec in request.tools), opening=opening)
        generation = self.engine.generate(
            prompt,
            stops=stops,
            max_tokens=request.max_tokens,
            sampling=request.sampling,
            constraint=None,
            control=control,
        )
        if self._tap:
            self._tap(opening)
        try:
            with closing(generation):
                answer_now = yield from self._read(generation, parser, control)
        except EngineFailed as error:
            yield from parser.flush(cut=True)
            error.partial = _completion(parser, "stopped", generation.stats.completion_tokens)
            raise
        stats = replace(generation.stats, end="answer_now") if answer_now else generation.stats
        yield from parser.flush(cut=stats.end != "stop")
        yield Stats(stats)
        return _completion(parser, stats.end, stats.completion_tokens)

    def _read(self, generation: Generation, parser: StreamParser, control: Control) -> Generator[StepEvent, None, bool]:
        """Parse what comes. True: broken off because the user asked for the answer, which hadn't begun."""
        for item in generation:
            if isinstance(item, int):
                if self._tap:
                    self._tap((item,))
                yield from parser.push(item)
                if parser.call_ended:  # whatever closed it: nothing after a call belongs to this step
                    return False
            else:
                yield item
            if control.answer_now_asked and not _answering(parser):
                return True
        return False

    def _prompt(self, request: Request) -> tuple[Prompt, tuple[int, ...]]:
        """The prompt with the marks worth a checkpoint, and its opening: the ids after the last message."""
        messages = compose(request)
        rendered = self.codec.render(messages, purpose="completion", drop=drop_past_analysis)
        ids = list(rendered.ids)
        if request.open_with:
            control = self.codec.tokenizer.control
            ids += [control.channel, *self.codec.tokenizer.encode(request.open_with), control.message]
        static = len(messages) - len(request.history)
        marks = {end for index, end in rendered.ends if index == static - 1 or messages[index].role == "user"}
        opening = ids[rendered.ends[-1][1] :]
        return Prompt(tuple(ids), tuple(sorted(marks | {len(ids)}))), tuple(opening)


def _completion(parser: StreamParser, end: CompletionEnd, tokens: int) -> Completion:
    """What came, up to the first call: a mended header can hold one and more text, and every call gets its answer."""
    completion = parser.completion(end=end)
    calls = [number for number, message in enumerate(completion.messages, 1) if is_call(message)]
    messages = completion.messages[: calls[0]] if calls else completion.messages
    return replace(completion, messages=messages, tokens=tokens)


def _answering(parser: StreamParser) -> bool:
    """Has the answer begun? Then there is nothing left to hurry."""
    begun = parser.current_channel == FINAL and parser.current_recipient is None
    return begun or any(map(is_answer, parser.messages))
