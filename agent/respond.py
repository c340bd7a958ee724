"""Answers one step on ids: codec, engine, parser."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from ossia.agent._repeats import LOOK_EVERY, WINDOW_IDS, in_code, is_monotonous, repeats, repeats_as_text
from ossia.agent.control import Control
from ossia.agent.engine.base import Constraint, Engine, Generation, Progress, Prompt, Static, Task
from ossia.agent.errors import ContextFull, EngineFailed
from ossia.agent.events import Stats
from ossia.agent.kinds import is_answer
from ossia.agent.prompt import WORK, compose
from ossia.agent.request import ContextUse, PartName, Request, StepEvent, context_use
from ossia.agent.resample import can_resample, is_unreadable
from ossia.harmony.builtins import TRAINED_NAMES
from ossia.harmony.codec import Codec
from ossia.harmony.messages import FINAL, Completion, CompletionEnd, Header, Message, is_call
from ossia.harmony.parse import StreamParser
from ossia.harmony.render import drop_past_analysis
from ossia.tools.calls.arguments import NO_ARGUMENTS
from ossia.tools.calls.coerce import closed
from ossia.tools.spec import ToolSpec

_HEADER_TOKENS = 40
"""The longest header; with more, the model is thinking in it."""

Tap = Callable[[Sequence[int]], None]
Parts = tuple[tuple[PartName, int], ...]


class LocalResponder:
    """A responder for any engine that takes ids: llama.cpp in this process, or a server.

    `tap` sees the ids of each step as they come: first those that open the step (from `<|start|>` on), then every
    generated one, stop ids included. `guided`: sampling is held to valid headers, arguments and answers, if the engine
    can do that. `temperature` is the model's own.
    """

    def __init__(
        self, codec: Codec, engine: Engine, *, tap: Tap | None = None, guided: bool = True, temperature: float = 1.0
    ) -> None:
        self.codec = codec
        self.engine = engine
        self.temperature = temperature
        self.guided = guided and "constraint" in engine.capabilities
        self._tap = tap
        self._head: _Head | None = None
        self._last: _Rendered | None = None

    def measure(self, request: Request) -> ContextUse:
        """The tokens of the request, part by part. Cheap: rendered messages are cached."""
        rendered = self._rendered(request)
        head = self._head_of(request)
        tokens, start = [0] * len(request.history), 0
        for index, end in rendered.ends:
            if index >= len(head.messages):
                tokens[index - len(head.messages)] = end - start
            start = end
        used, context_tokens = len(rendered.prompt.ids), self.engine.context_tokens
        return context_use(request, static=head.parts, tokens=tokens, used=used, context_tokens=context_tokens)

    def respond(self, request: Request, *, control: Control) -> Generator[StepEvent, None, Completion]:
        """Generate once. The completion holds every message that came, the last one cut if nothing closed it.

        Raises `ContextFull` at the very beginning if the prompt leaves no room. When the engine fails in the middle,
        the `EngineFailed` carries what had come so far in `partial`.
        """
        rendered = self._rendered(request)
        prompt, opening = rendered.prompt, rendered.opening
        if len(prompt.ids) >= self.engine.context_tokens:
            raise ContextFull(len(prompt.ids), self.engine.context_tokens)
        tokens = self.codec.tokenizer.control
        stops = tokens.generation_stops | ({tokens.end} if request.open_with else frozenset())
        parser = self.codec.parser(tools=frozenset(spec.name for spec in request.tools), opening=opening)
        constraint = constraint_of(request) if self.guided else None
        task = Task(prompt, stops, request.max_tokens, request.sampling, constraint)
        generation = self.engine.generate(task, control=control)
        if self._tap:
            self._tap(opening)
        try:
            with closing(generation):
                broken_off = yield from self._read(generation, parser, request, control)
        except EngineFailed as error:
            yield from parser.flush(cut=True)
            error.partial = _completion(parser, "stopped", generation.stats.completion_tokens)
            raise
        if not broken_off and generation.stats.end == "context" and is_monotonous(self._tail_of(parser)):
            broken_off = "loop"
        stats = replace(generation.stats, end=broken_off) if broken_off else generation.stats
        yield from parser.flush(cut=stats.end != "stop")
        yield Stats(stats)
        return _completion(parser, stats.end, stats.completion_tokens)

    def prefill(
        self, request: Request, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Evaluate ahead of time what the next prompt must begin with, up to the header of the user's next message.

        `request` has the history as that prompt will have it (`Session.request_ahead`). Does nothing if it doesn't fit.
        """
        head = self._head_of(request).messages
        messages = (*head, *request.history)
        drop = drop_past_analysis((*messages, Message("user", ("",))))[:-1]
        rendered = self.codec.render(messages, purpose="completion", role="user", drop=lambda _: drop)
        ids = (*rendered.ids, self.codec.tokenizer.control.message)
        if len(ids) < self.engine.context_tokens:
            # No mark at the end: reading ahead makes no extra checkpoint, so the way back to older ones stays as short.
            prompt = Prompt(ids, *_marks(request, messages, head, rendered.ends))
            self.engine.prefill(prompt, control=control, on_progress=on_progress)

    def _read(
        self, generation: Generation, parser: StreamParser, request: Request, control: Control
    ) -> Generator[StepEvent, None, CompletionEnd | None]:
        """Parse what comes. Returns why it was broken off; None if the generation ended by itself.

        "answer_now": the user asked for the answer before it had begun. "thinking": the reasoning reached its limit;
        so does anything else but an answer or a call, e.g. an endless header. "unreadable": see `can_resample`.
        """
        may_resample = can_resample(request.sampling)
        opens, reasoned, header = self.codec.tokenizer.control.message, 0, 0
        for item in generation:
            if isinstance(item, int):
                if self._tap:
                    self._tap((item,))
                events = parser.push(item)
                if may_resample and len(events) > 1 and is_unreadable(events) and not _answered(parser):
                    return "unreadable"
                yield from events
                if parser.call_ended:  # no matter what closed it: nothing after a call belongs to this step
                    return None
                header = 0 if parser.header else header + 1
                reasoned += item != opens and not header and not _answers_or_calls(parser)
                counts = reasoned + (header if header > _HEADER_TOKENS else 0)
                if request.max_thinking is not None and counts > request.max_thinking and not _answering(parser):
                    return "thinking"
                if len(parser.tokens) % LOOK_EVERY == 0 and self._repeats_itself(parser, request):
                    return "loop"
            else:
                yield item
            if control.answer_now_asked and not _answering(parser):
                return "answer_now"
        return None

    def _repeats_itself(self, parser: StreamParser, request: Request) -> bool:
        """True if the open message repeats itself where it shouldn't. Code in an answer may, calls a little."""
        header, tokens = parser.header or Header("assistant"), parser.tokens
        may = header.recipient is not None or (request.response_format is not None and header.channel == FINAL)
        body = self._body_of(parser) if may else 0
        found = repeats(tokens, may=may, body=body)
        if not found and len(tokens) % (4 * LOOK_EVERY) == 0:  # it takes longer
            tail = self._tail_of(parser)
            found = repeats_as_text(tail, may=may, body=max(0, body - WINDOW_IDS) + len(tail) if may else 0)
        return found and (may or not in_code(parser.open_message.text if parser.open_message else ""))

    def _tail_of(self, parser: StreamParser) -> str:
        """The end of the open message's text."""
        size = min(self._body_of(parser), WINDOW_IDS)
        return self.codec.tokenizer.decode(parser.tokens[-size:]) if size else ""

    def _body_of(self, parser: StreamParser) -> int:
        """The number of ids in the text of the open message."""
        begin, tokens = self.codec.tokenizer.control.message, parser.tokens
        return next((count for count, token in enumerate(reversed(tokens)) if token == begin), len(tokens))

    def _rendered(self, request: Request) -> _Rendered:
        """The input of the engine. The last one is cached, since a step is measured before it is generated."""
        if self._last is None or self._last.request is not request:
            self._last = self._render(request)
        return self._last

    def _render(self, request: Request) -> _Rendered:
        head = self._head_of(request).messages
        messages = (*head, *request.history)
        rendered = self.codec.render(messages, purpose="completion", drop=drop_past_analysis)
        ids = list(rendered.ids)
        if request.open_with:
            control = self.codec.tokenizer.control
            ids += [control.channel, *self.codec.tokenizer.encode(request.open_with), control.message]
        marks, static = _marks(request, messages, head, rendered.ends)
        opening = ids[rendered.ends[-1][1] :]
        prompt = Prompt(tuple(ids), (*marks, len(ids)), static)
        if request.side_question:  # the header of the user's message stays: it is what has been read ahead
            begins = ids.index(self.codec.tokenizer.control.message, rendered.ends[-2][1]) + 1
            prompt = replace(prompt, marks=(*(mark for mark in marks if mark < begins), begins), side_question=begins)
        return _Rendered(request, prompt, tuple(opening), rendered.ends)

    def _head_of(self, request: Request) -> _Head:
        """The messages before the history: the same objects until something changes, for the codec's cache."""
        if self._head is None or not self._head.is_of(request):
            whole = replace(request, history=())
            plain = replace(whole, tools=())
            bare = replace(plain, instructions=None, response_format=None)
            own = replace(plain, instructions=(plain.instructions or "").removesuffix(plain.skills).rstrip() or None)
            forms = (bare, *([own] if plain.skills else ()), plain, whole)
            system, *least, more, all_of_it = (len(self.codec.render(compose(part)).ids) for part in forms)
            skills = more - least[0] if least else 0
            own_tokens, tools = more - skills - system, all_of_it - more
            parts: Parts = (("system", system), ("instructions", own_tokens), ("skills", skills), ("tools", tools))
            self._head = _Head(whole, compose(whole), parts)
        return self._head


def constraint_of(request: Request) -> Constraint:
    """The constraint of a request: calls of the tools on offer, and of those that the model was trained with.

    A call of a tool that isn't on offer gets an error as its result. If its name were ruled out, the model would call
    another tool instead.
    """
    offered = tuple(spec.name for spec in request.tools)
    return Constraint(
        recipients=request.must_call or (*offered, *(name for name in TRAINED_NAMES if name not in offered)),
        arguments={spec.name: _arguments(spec) for spec in request.tools if _is_json(spec)},
        answer=request.response_format.schema if request.response_format else None,
        open_with=request.open_with,
        must_call=bool(request.must_call),
    )


def _arguments(spec: ToolSpec) -> Mapping[str, object]:
    """The schema of its arguments. Those of tools that the model was trained with may have other names, too."""
    schema = spec.parameters or NO_ARGUMENTS
    return schema if spec.name in TRAINED_NAMES else closed(schema)


def _is_json(spec: ToolSpec) -> bool:
    """True if the model writes the tool's arguments as JSON. It writes a patch as the text it is."""
    return spec.input == "json" and (spec.parameters or NO_ARGUMENTS).get("type") != "string"


@dataclass(frozen=True, slots=True)
class _Head:
    """The system and the developer message of a request, and how many tokens their parts take."""

    request: Request
    messages: tuple[Message, ...]
    parts: Parts

    def is_of(self, request: Request) -> bool:
        """True if this request has the same head. Schemas are compared by identity: 1, 1.0 and True are equal."""
        kept = self.request
        return (
            (kept.effort, kept.instructions, kept.date) == (request.effort, request.instructions, request.date)
            and kept.response_format is request.response_format
            and len(kept.tools) == len(request.tools)
            and all(ours is theirs for ours, theirs in zip(kept.tools, request.tools, strict=True))
        )


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A request as ids. `opening`: those after the last message; `ends`: see `harmony.codec.Rendered`."""

    request: Request
    prompt: Prompt
    opening: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]


def _marks(
    request: Request, messages: Sequence[Message], head: Sequence[Message], ends: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], tuple[Static, ...]]:
    """The offsets worth a checkpoint, and the parts worth storing on disk: the system message, then the whole head."""
    marks = tuple(end for index, end in ends if index < len(head) or messages[index].role == "user")
    personal = request.instructions not in (None, WORK) or request.response_format is not None
    personal = personal or any(spec.provenance != "built-in" or spec.taints for spec in request.tools)
    static = [Static(end, personal and index > 0) for index, end in ends if index < len(head)]
    return marks, tuple(static)


def _completion(parser: StreamParser, end: CompletionEnd, tokens: int) -> Completion:
    """The completion up to its first call: a mended header can bring more after it, and each call needs a result."""
    completion = parser.completion(end=end)
    messages = completion.messages
    if end == "unreadable":  # a message made from that header isn't shown
        messages = tuple(message for message in messages if message.sampled is None or not message.sampled.headless)
    calls = [number for number, message in enumerate(messages, 1) if is_call(message)]
    return replace(completion, messages=messages[: calls[0]] if calls else messages, tokens=tokens)


def _answered(parser: StreamParser) -> bool:
    """True once a whole answer was shown."""
    return any(is_answer(one) and not (one.sampled and one.sampled.headless) for one in parser.messages)


def _answers_or_calls(parser: StreamParser) -> bool:
    """True if the open message is an answer or a call."""
    return parser.header is not None and (is_answer(parser.header) or is_call(parser.header))


def _answering(parser: StreamParser) -> bool:
    """True once the answer has begun. Then it needn't be asked for."""
    return any(is_answer(one) for one in (*parser.messages, parser.header) if one)
