"""One generation, token by token, on whatever decodes ids in this process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from ossia.agent.control import Control
from ossia.agent.engine.base import ConstraintDropped, Forced, Progress, Prompt, StepStats, Task
from ossia.agent.engine.cache import Logits, PrefixCache
from ossia.agent.engine.guiding import Guide, OneOf
from ossia.agent.engine.sampling import Sampler
from ossia.harmony.messages import CompletionEnd

_LEAST_GAP = 32
"""A mark gets no checkpoint if the next one follows within this many tokens: to stop there costs a small batch of its
own (on a processor as much as one or two tokens), and going back to it would save only these few tokens."""


class Decoder(Protocol):
    """Runs the network."""

    @property
    def batch_tokens(self) -> int:
        """The most ids of one step."""

    @property
    def step_tokens(self) -> int:
        """The ids of a prompt in one step: no more than `batch_tokens`, and the same for every prompt."""

    def decode(self, start: int, ids: Sequence[int], *, logits: bool = True) -> bool:
        """Run the network over `ids`, the first of them at position `start`. False: it was aborted.

        `logits`: whether the logits after the last id will be asked for. With 201,088 ids in the vocabulary they take
        half as long as a token. Raises `EngineFailed`.
        """

    def logits(self) -> Logits:
        """The logits after the last id, if they were wanted: (vocabulary size,) float32, valid until the next step."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The decoder of the conversation, and the contents of its memory."""

    decoder: Decoder
    cache: PrefixCache

    def advance(self, ids: Sequence[int], *, logits: bool = True) -> bool:
        """Decode `ids` after those that the cache holds. False: aborted; none or some of them were taken."""
        try:
            complete = self.decoder.decode(len(self.cache), ids, logits=logits)
        except BaseException:  # whatever broke it off, even an interrupt: the memory knows what it holds
            self.cache.resync(ids)
            raise
        if complete:
            self.cache.extend(ids)
        else:
            self.cache.resync(ids)
        return complete


def checkpoints_of(prompt: Prompt) -> tuple[int, ...]:
    """The marks to stop at for a checkpoint: `(61, 77)` for the marks 61, 75 and 77.

    The first and the last mark are always among them, and so are the ends of static parts: what is stored on disk ends
    there.
    """
    marks = sorted({mark for mark in prompt.marks if 0 < mark <= len(prompt.ids)})
    near = {mark for mark, following in pairwise(marks[1:]) if following - mark < _LEAST_GAP}
    near -= {part.length for part in prompt.static}
    return tuple(mark for mark in marks if mark not in near)


@dataclass(slots=True, eq=False)
class Prefill:
    """Brings a prompt into the memory: an iterator of `Progress`, the first one before any work.

    Afterwards `logits` are those for the id after the prompt, unless it was `aborted` or they aren't wanted (`ahead`).
    `ahead`: nobody waits for it, and what follows isn't known yet. Its steps have the same size as in any prefill:
    with others the same prompt would be rounded differently, and a cache of it would lead to other answers.
    """

    prompt: Prompt
    lane: Lane
    ahead: bool = False
    reused: int = 0
    evaluated: int = 0
    lost: int = 0
    aborted: bool = False
    seconds: float = 0.0
    logits: Logits | None = None

    def __iter__(self) -> Iterator[Progress]:
        total = len(self.prompt.ids)
        began = time.monotonic()
        self.reused = done = self.lane.cache.rewind(self.prompt.ids, logits=not self.ahead)
        self.lost = self.lane.cache.lost
        self.logits = self.lane.cache.logits
        self.seconds += time.monotonic() - began
        checkpoints = checkpoints_of(self.prompt)
        if done == self.prompt.side_question:  # read ahead without a checkpoint: the way back can't rely on the window
            self.lane.cache.checkpoint()
        while done < total:
            end = min([mark for mark in checkpoints if mark > done] + [total, done + self.lane.decoder.step_tokens])
            yield Progress(done, total, self.reused)
            began = time.monotonic()
            self.aborted = not self.lane.advance(self.prompt.ids[done:end], logits=end == total and not self.ahead)
            if not self.aborted:
                self.evaluated += end - done
                done = end
                self._arrive(done, at_checkpoint=done in checkpoints)
            self.seconds += time.monotonic() - began
            if self.aborted:
                return
        yield Progress(done, total, self.reused)

    def _arrive(self, done: int, *, at_checkpoint: bool) -> None:
        # Only the last step has logits. Those that were here before belong to where the prefill began.
        at_end = done == len(self.prompt.ids) and not self.ahead
        self.logits = self.lane.decoder.logits() if at_end else None
        if at_checkpoint:
            self.lane.cache.checkpoint(self.logits, stays=any(part.length == done for part in self.prompt.static))


@dataclass(slots=True, eq=False)
class LocalGeneration:
    """The ids of one completion, after the progress of its prefill. See `agent.engine.base.Generation`.

    Asking for the answer (`Control.answer_now`) doesn't end it: only the reader of the messages knows whether the
    answer has begun; if not, it closes the generation. `on_close` is called once, when that is exhausted, closed or
    broken. `guide` says what may come; ids that must come aren't sampled, and go through the network together with the
    one before them.
    """

    _prefill: Prefill
    _sampler: Sampler
    _task: Task
    _context_tokens: int
    _control: Control
    _on_close: Callable[[], None]
    _guide: Guide | None = None
    _undecoded: list[int] = field(default_factory=list)  # ids that were given out and haven't gone through the network
    _following: deque[int] = field(default_factory=deque)  # ids that must come next
    _dropped: ConstraintDropped | None = None
    _count: int = 0
    _forced: int = 0
    _decode_s: float = 0.0
    _end: CompletionEnd | None = None
    _closed: bool = False
    _limit: tuple[int, CompletionEnd] = field(init=False)
    _items: Generator[int | Progress | ConstraintDropped, None, None] = field(init=False)

    def __post_init__(self) -> None:
        self._limit = self._task.limit(self._context_tokens)
        self._items = self._run()

    def __iter__(self) -> Iterator[int | Progress | ConstraintDropped]:
        return self

    def __next__(self) -> int | Progress | ConstraintDropped:
        try:
            return next(self._items)
        except BaseException:  # at its end (StopIteration), or after a failure
            self._close()
            raise

    @property
    def stats(self) -> StepStats:
        return StepStats(
            prompt_tokens=len(self._prefill.prompt.ids),
            reused_tokens=self._prefill.reused,
            completion_tokens=self._count,
            prefill_s=self._prefill.seconds,
            decode_s=self._decode_s,
            end=self._end or "stop",
            evaluated_tokens=self._prefill.evaluated,
            lost_tokens=self._prefill.lost,
            forced_tokens=self._forced,
        )

    def close(self) -> None:
        self._items.close()
        self._close()

    def _close(self) -> None:
        self._end = self._end or "stop"
        if not self._closed:
            self._closed = True
            self._on_close()

    def _run(self) -> Generator[int | Progress | ConstraintDropped, None, None]:
        for progress in self._prefill:
            yield progress
            if self._control.stopped:
                break
        token: int | None = None
        while (end := self._reason_to_end(token)) is None:
            began = time.monotonic()
            token = self._next()
            self._decode_s += time.monotonic() - began
            if token is None:
                end = "stopped"
                break
            self._count += 1
            if self._dropped is not None:
                dropped, self._dropped = self._dropped, None
                yield dropped
            yield token
        self._end = end

    def _reason_to_end(self, last: int | None) -> CompletionEnd | None:
        if last in self._task.stops:
            return "stop"
        if self._control.stopped:
            return "stopped"
        most, end = self._limit
        return end if self._count >= most else None

    def _next(self) -> int | None:
        """The next id. None: aborted."""
        if self._following:
            self._undecoded.append(self._following.popleft())
            self._forced += 1
            return Forced(self._undecoded[-1])
        logits = self._logits()
        if logits is None:
            return None
        token = self._sampler.pick(logits) if self._guide is None else self._guided(self._guide, logits)
        self._undecoded.append(token)
        return token

    def _logits(self) -> Logits | None:
        """The logits after the last id that was given out. None: aborted."""
        if not self._undecoded:
            return self._prefill.logits
        lane, ids = self._prefill.lane, self._undecoded
        self._undecoded = []
        most = lane.decoder.batch_tokens
        for start in range(0, len(ids), most):
            if not lane.advance(ids[start : start + most], logits=start + most >= len(ids)):
                return None
        return lane.decoder.logits()

    def _guided(self, guide: Guide, logits: Logits) -> int:
        allowed = guide.next()
        if isinstance(allowed, OneOf) and self._sampler.wants_others(logits, allowed.ids):
            self._dropped = guide.unlikely()
            allowed = guide.next()
        token = self._sampler.pick(logits, allowed)
        self._following.extend(guide.take(token))
        self._dropped = self._dropped or guide.dropped()
        if isinstance(allowed, OneOf) and len(allowed.ids) == 1:
            self._forced += 1
            return Forced(token)
        return token
