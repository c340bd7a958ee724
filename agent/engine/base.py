"""The engine's contract: ids in, ids out. An engine knows no text, no roles and no tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from ossia.agent.control import Control
from ossia.agent.errors import ContextFull
from ossia.harmony.messages import Channel, CompletionEnd
from ossia.harmony.tokenizer import Vocabulary


@dataclass(frozen=True, slots=True)
class Static:
    """The first `length` ids of a prompt. Other conversations begin with them too: worth storing on disk.

    `personal`: it holds the user's own texts (instructions, AGENTS.md, their functions and servers, a schema).
    """

    length: int
    personal: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ids of a prompt and the offsets in it worth a checkpoint, ascending.

    `marks`: the ends of the static parts, the end of each user message, the end of the prompt. `static`: first the
    system message alone, then the system and the developer message together; the end of each is a mark.
    `Prompt((200006, …), marks=(61, 75, 77), static=(Static(61),))`.
    `side_question`: the ids from this offset on are a question beside the conversation, which goes on there: once the
    generation is over, the engine is back at that place. The last mark is there. None: no such question.
    """

    ids: tuple[int, ...]
    marks: tuple[int, ...] = ()
    static: tuple[Static, ...] = ()
    side_question: int | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings for drawing the next id. The defaults are gpt-oss's recommendation.

    `temperature` None is the model's own, 0 is greedy (the others are ignored). `top_k` 0, `top_p` 1.0 and `min_p` 0.0
    are off. `seed` None: a random one. `attempt` 1 gives another series of draws from it, for a step drawn again.
    """

    temperature: float | None = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    attempt: int = 0

    def of(self, temperature: float) -> Sampling:
        """The same, for a model whose own temperature is this."""
        return replace(self, temperature=temperature) if self.temperature is None else self


@dataclass(frozen=True, slots=True)
class Constraint:
    """The form of a generation, as data: each engine compiles it, or says that it can't (`capabilities`).

    `recipients` are the names that a header may carry. `arguments` has the JSON Schemas for the arguments of some of
    them (the body of the others is free), `answer` is the JSON Schema of the `final` message. `open_with`: the prompt
    ends inside a message on that channel; None: it ends after the role in a header. `must_call`: after its reasoning,
    the generation is a call of one of `recipients`.

        Constraint(("python", "functions.f"), {"functions.f": {"type": "object", …}})
    """

    recipients: tuple[str, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    answer: object | None = None
    open_with: Channel | None = None
    must_call: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A completion to be generated: up to one of `stops`, or `max_tokens` (None: up to the end of the context).

    `Task(Prompt((200006, …)), stops=frozenset({200002, 200012}), sampling=Sampling(seed=1))`
    """

    prompt: Prompt
    stops: frozenset[int] = frozenset()
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    constraint: Constraint | None = None

    def limit(self, context_tokens: int) -> tuple[int, CompletionEnd]:
        """The most tokens that a context has room for, and the end that reaching them is: `(4096, "tokens")`.

        Raises ContextFull when there is no room for one.
        """
        room = context_tokens - len(self.prompt.ids)
        if room <= 0:
            raise ContextFull(len(self.prompt.ids), context_tokens)
        if self.max_tokens is not None and self.max_tokens < room:
            return self.max_tokens, "tokens"
        return room, "context"


class Forced(int):
    """An id that was the only possible one, so it wasn't sampled. An int like any other."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConstraintDropped:
    """The guide dropped its constraint: from here on the model writes freely.

    `what` continues unconstrained, to its end: a "header", since the model wants to write another one; "arguments" or
    an "answer", since their grammar grew too large. `reason` is for people.
    """

    what: Literal["header", "arguments", "answer"]
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a prefill: `done` of `total` prompt tokens, of which `reused` came from the cache.

    Phase "summary": older turns are being summarised to make room, and `done` of at most `total` tokens are written.
    The first event of that phase (0 done) comes before the summary's own prefill.
    """

    done: int
    total: int
    reused: int = 0
    phase: Literal["prefill", "summary"] = "prefill"


@dataclass(frozen=True, slots=True)
class StepStats:
    """One generation in numbers. `prefill_s` and `decode_s` are seconds of monotonic time; `end` says why it ended.

    Of the prompt's tokens, `reused_tokens` were in the KV cache already, `evaluated_tokens` were read now. Of these,
    `lost_tokens` were in the cache too, but a sliding window had moved past them, or the logits after the last one were
    gone. `forced_tokens` of the completion's were the only possible ones (see `Forced`). Not `cache_reported`: a server
    didn't say what it had in its cache, and all of the prompt counts as read.

    end: "stop": a stop id came (the last id yielded); "tokens": max_tokens reached; "context": no room left; "stopped":
    by `Control`. The responder, which alone reads the ids, sets the others: "answer_now"; "thinking": the reasoning
    reached its limit; "loop": the text repeated itself; "unreadable": a senseless header or call, to be drawn again.
    """

    prompt_tokens: int
    reused_tokens: int
    completion_tokens: int
    prefill_s: float
    decode_s: float
    end: CompletionEnd
    evaluated_tokens: int = 0
    lost_tokens: int = 0
    forced_tokens: int = 0
    cache_reported: bool = True

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed. None when too little was decoded to tell."""
        return self.completion_tokens / self.decode_s if self.decode_s > 0 and self.completion_tokens else None


class Generation(Iterator[int | Progress | ConstraintDropped], Protocol):
    """An iterator of ids (plain ints, or `Forced`), prefill `Progress`, and `ConstraintDropped`.

    The stop id is yielded too. `close()` ends it after any item, on the thread that iterates; the engine is then ready
    for the next prompt. `stats` is complete once the iterator is exhausted or closed (if closed early, end is "stop").
    """

    @property
    def stats(self) -> StepStats: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Runs a model. Owned by one thread; only `Control` may be touched from others.

    `generate` raises `ContextFull` when the prompt leaves no room for a single token, `EngineFailed` when the model
    can't go on. A `Generation` must be closed or exhausted before the next call.
    """

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def name(self) -> str:
        """The user's name for this model: `gpt-oss-20b`, `etude`, a file's stem."""

    @property
    def context_tokens(self) -> int: ...

    @property
    def capabilities(self) -> frozenset[str]:
        """`"constraint"`: it compiles a `Constraint`; `"prefill"`: `prefill` saves time, and a question can be
        asked beside the conversation (`Prompt.side_question`); `"save"`: it stores caches."""

    def generate(self, task: Task, *, control: Control) -> Generation: ...

    def prefill(
        self, prompt: Prompt, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Read an expected prompt in advance, in idle time. `on_progress` is called after each batch.

        Batches are short: a stop ends it within 50 ms, and only the batch under way is lost.
        """

    def close(self) -> None: ...
