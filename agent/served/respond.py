"""Answers one step with a server that keeps Harmony to itself: messages go out, messages come in."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

from ossia.agent._repeats import LOOK_EVERY, in_code, repeats
from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, StepStats
from ossia.agent.engine.remote.detect import models_of
from ossia.agent.errors import ContextFull, EngineFailed, ServerRefused
from ossia.agent.events import Stats
from ossia.agent.request import ContextUse, Request, StepEvent
from ossia.agent.resample import can_resample
from ossia.agent.respond import LocalResponder
from ossia.agent.served.api import DONE, call_refused
from ossia.agent.served.engine import ServedEngine, names_of
from ossia.agent.served.wire import Called, Ended, Failed, Names, Piece, Usage
from ossia.agent.served.writing import Writing
from ossia.harmony.codec import Codec
from ossia.harmony.messages import Completion, CompletionEnd, Delta

_CONTEXTS = 8
"""An answer ends after this many contexts, by our count of its tokens, which the étude's short ones make too high."""


class ServedResponder:
    """A responder for a server with one of OpenAI's APIs. `codec` measures prompts: roughly what the server counts.

    Reasoning becomes messages on `analysis`, the answer one on `final`, a call one to its tool: the conversation can go
    on with a local engine.
    """

    temperature = 1.0
    guided = False

    def __init__(self, codec: Codec, engine: ServedEngine) -> None:
        self._engine = engine
        self._count = codec.tokenizer.encode
        self._measuring = LocalResponder(codec, engine)

    def measure(self, request: Request) -> ContextUse:
        """The tokens of the request, part by part: an estimate."""
        return self._measuring.measure(request)

    def prefill(
        self, request: Request, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Does nothing: there is no way to have a server read ahead."""

    def respond(self, request: Request, *, control: Control) -> Generator[StepEvent, None, Completion]:
        """Ask once. Raises `ContextFull` at the very beginning, `EngineFailed` with what came in `partial`.

        There is at most one call: with a second one the answer is broken off.
        """
        engine, names = self._engine, Names(request.tools)
        used = self.measure(request).used_tokens
        if used >= engine.context_tokens:
            raise ContextFull(used, engine.context_tokens)
        yield Progress(0, used)
        step = _Step(request, Writing(names), used)
        try:
            end = yield from self._ask(step, names, control)
        except EngineFailed as error:
            yield from step.writing.close()
            failed = self._explained(error, control)
            failed.partial = Completion(step.writing.messages(cut=True), "stopped", tokens=len(step.tokens))
            raise failed from error
        yield from step.writing.close()
        stats = step.stats(end, engine.context_tokens)
        yield Stats(stats)
        messages = step.writing.messages(cut=stats.end != "stop")
        return Completion(messages, stats.end, tokens=stats.completion_tokens)

    def _ask(self, step: _Step, names: Names, control: Control) -> Generator[Delta, None, CompletionEnd]:
        """Ask, and once more without what the server doesn't take, if that is why it refused."""
        engine = self._engine
        while True:
            body = engine.body(step.request, names)
            try:
                with closing(engine.client.stream(engine.api.path, body, control, done=DONE)) as events:
                    return (yield from self._read(step, engine.api.read(events), control))
            except ServerRefused as refused:
                call = call_refused(refused.error)
                if call:
                    return (yield from self._read(step, iter((*call, Ended("stop"))), control))
                if call is not None and can_resample(step.request.sampling):
                    return "unreadable"
                if call is not None or not engine.can_do_without(refused, body):
                    raise

    def _read(self, step: _Step, pieces: Iterator[Piece], control: Control) -> Generator[Delta, None, CompletionEnd]:
        """Take what comes. Returns why it ended, as a local responder does."""
        ended: CompletionEnd | None = None
        for piece in pieces:
            if isinstance(piece, Usage):
                step.usage = piece
            elif isinstance(piece, Ended):
                ended = piece.how
            elif isinstance(piece, Failed):
                reason = self._engine.client.said(piece.why) or "it gave no reason"
                raise EngineFailed(f"{self._name} gave up: {reason}")
            elif isinstance(piece, Called) and step.writing.has_other_call(piece):
                return "stop"
            elif isinstance(piece, Called) and step.writing.has_endless_name(piece):
                raise EngineFailed(f"{self._name} calls a tool by a name that never ends: ask again")
            else:
                step.tokens += self._count(piece.text)
                yield from step.writing.take(piece)
                step.began()
                if (why := step.why_broken_off(control, self._engine.context_tokens)) is not None:
                    return why
        if control.stopped:
            return "stopped"
        if ended is None:
            raise EngineFailed(f"{self._name} broke off in mid-answer: ask again")
        return ended

    @property
    def _name(self) -> str:
        return self._engine.client.address.name

    def _explained(self, error: EngineFailed, control: Control) -> EngineFailed:
        """The error; if the server doesn't know the model, with those that it has."""
        engine = self._engine
        if not isinstance(error, ServerRefused) or error.status not in (400, 404):
            return error
        with suppress(EngineFailed):
            models = models_of(engine.client, control)
            if models and engine.model not in [model.name for model in models]:
                return ServerRefused(f"{error}; it has {names_of(models)}: name one with --model", error.status)
        return error


@dataclass(slots=True)
class _Step:
    """One answer on its way. `estimated` are the prompt's tokens as we count them; `tokens` those that have come."""

    request: Request
    writing: Writing
    estimated: int
    tokens: list[int] = field(default_factory=list)
    usage: Usage | None = None
    _asked_at: float = field(default_factory=time.monotonic)
    _began_at: float | None = None
    _look_at: int = LOOK_EVERY

    def began(self) -> None:
        """Something of the answer has come: the prompt has been read."""
        if self._began_at is None:
            self._began_at = time.monotonic()

    def why_broken_off(self, control: Control, context_tokens: int) -> CompletionEnd | None:
        """The reason to read no more of it; None: go on."""
        request = self.request
        if len(self.tokens) > _CONTEXTS * context_tokens:
            return "context"
        if not request.open_with and not self.writing.answers_or_calls:
            if control.answer_now_asked:
                return "answer_now"
            if request.max_thinking is not None and len(self.tokens) > request.max_thinking:
                return "thinking"
        if len(self.tokens) >= self._look_at:
            self._look_at = len(self.tokens) + LOOK_EVERY
            prose = None if request.response_format and self.writing.answers_or_calls else self.writing.prose
            if repeats(self.tokens, may=prose is None) and not (prose and in_code(prose)):
                return "loop"
        return None

    def stats(self, end: CompletionEnd, context_tokens: int) -> StepStats:
        """The step in numbers: the server's, where it gave any.

        Some servers don't tell that they reached a limit. One that nobody asked for is the server's own, such as the
        1,024 tokens of `transformers serve`, or its context, where we don't know that.
        """
        now = time.monotonic()
        began = self._began_at or now
        usage = self.usage or Usage(self.estimated, None, len(self.tokens))
        prompt, cached, completion = usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens
        most = self.request.max_tokens
        if end in ("stop", "tokens") and self.usage is not None:
            if most is not None and completion >= most:
                end = "tokens"
            elif prompt + completion >= context_tokens:
                end = "context"
        return StepStats(
            prompt,
            cached,
            completion,
            began - self._asked_at,
            now - began,
            end,
            evaluated_tokens=prompt - cached,
            cache_reported=usage.cached_tokens is not None,
        )
