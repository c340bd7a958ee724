"""Answers one step with a server that keeps Harmony to itself: messages go out, messages come in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

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
from ossia.agent.served.wire import Called, Ended, Failed, Names, Piece, Reasoning, Said, Usage
from ossia.harmony.codec import Codec
from ossia.harmony.messages import (
    ANALYSIS,
    COMMENTARY,
    FINAL,
    Completion,
    CompletionEnd,
    Delta,
    Message,
    Sampled,
    is_call,
)

_CONTEXTS = 8
"""An answer ends after this many contexts, by our count of its tokens, which the étude's short ones make too high."""
_MOST_NAME_CHARS = 256


@dataclass(slots=True)
class _Open:
    """The message that is being written. `key`: that of a call; `name`: its name with the server, so far."""

    kind: type[Reasoning] | type[Said] | type[Called]
    key: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)


class Writing:
    """The messages of one step. A call's arguments are streamed; raw text in them only comes as a whole, at the end."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._messages: list[Message] = []
        self._open: _Open | None = None

    @property
    def answers_or_calls(self) -> bool:
        """True once an answer or a call has begun."""
        begun = self._open is not None and self._open.kind is not Reasoning
        return begun or any(message.channel != ANALYSIS or is_call(message) for message in self._messages)

    @property
    def prose(self) -> str | None:
        """The text of the open message; None: it is a call."""
        return None if self._open is None or self._in_call else "".join(self._open.text)

    def has_other_call(self, piece: Called) -> bool:
        """True if there is another call than this one.

        It has a name, and another number, or what came before it is whole. Ids say nothing: some servers give two calls
        the same, some each piece another; and some repeat the name in each piece.
        """
        if any(map(is_call, self._messages)):
            return True
        if self._open is None or not self._in_call or not piece.name:
            return False
        if self._open.key != piece.key or self._is_whole:
            return True
        return piece.name != self._open.name and bool(self._open.text)

    def has_endless_name(self, piece: Called) -> bool:
        """Would the call's name be longer than that of any tool?"""
        there = self._open.name if self._open is not None and self._in_call else ""
        return len(there) + len(piece.name) > _MOST_NAME_CHARS

    def take(self, piece: Reasoning | Said | Called) -> Iterator[Delta]:
        """Add a piece; yields the new text."""
        if self._open is None or self._open.kind is not type(piece):
            yield from self.close()
            self._open = _Open(type(piece), piece.key if isinstance(piece, Called) else "")
        if isinstance(piece, Called) and piece.name != self._open.name:
            held_back = self._is_held_back
            self._open.name += piece.name
            if held_back and not self._is_held_back and self._open.text:  # it is another tool's after all
                yield self._delta(self._text)
        if piece.text:
            self._open.text.append(piece.text)
            if not self._is_held_back:
                yield self._delta(piece.text)

    def close(self) -> Iterator[Delta]:
        """End the open message; yields what was held back of it."""
        if self._open is None:
            return
        if self._is_held_back or not self._open.text:
            yield self._delta(self._text)
        self._messages.append(replace(self._header(), content=(self._text,)))
        self._open = None

    def messages(self, *, cut: bool) -> tuple[Message, ...]:
        """The messages so far, up to the first call. `cut`: the last one isn't whole.

        What was said before a call is a preamble, and no answer, although its deltas couldn't tell.
        """
        calls = [n for n, message in enumerate(self._messages) if is_call(message)]
        messages = self._messages[: calls[0] + 1] if calls else list(self._messages)
        if calls:
            messages = [replace(one, channel=COMMENTARY) if one.channel == FINAL else one for one in messages]
        if cut and messages:
            messages[-1] = replace(messages[-1], sampled=Sampled((), None))
        return tuple(messages)

    @property
    def _in_call(self) -> bool:
        return self._open is not None and self._open.kind is Called

    @property
    def _is_whole(self) -> bool:
        """True once the call's arguments are complete: another name can then only be another call's."""
        assert self._open is not None
        text = "".join(self._open.text) if self._open.text and self._open.text[-1].rstrip().endswith("}") else ""
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    @property
    def _is_held_back(self) -> bool:
        return self._in_call and self._names.takes_text(self._header().recipient or "")

    @property
    def _text(self) -> str:
        assert self._open is not None
        text = "".join(self._open.text)
        return self._names.text_back(text) if self._is_held_back else text

    def _header(self) -> Message:
        assert self._open is not None
        if self._open.kind is not Called:
            return Message("assistant", channel=ANALYSIS if self._open.kind is Reasoning else FINAL)
        recipient = self._names.back(self._open.name)
        channel, content_type = self._names.header(recipient)
        return Message("assistant", recipient=recipient, channel=channel, content_type=content_type)

    def _delta(self, text: str) -> Delta:
        header = self._header()
        return Delta(
            len(self._messages),
            text,
            recipient=header.recipient,
            channel=header.channel,
            content_type=header.content_type,
        )


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
