"""A server that takes ids as an `Engine`: prompts go out as ids, ids come in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, StepStats, Task
from ossia.agent.engine.remote.server import Came, Ended, Figures, IdServer
from ossia.agent.errors import EngineFailed
from ossia.harmony.messages import CompletionEnd
from ossia.harmony.tokenizer import Vocabulary


@dataclass(eq=False)
class RemoteEngine:
    """Runs a model on a server. See `agent.engine.base.Engine`; the vocabulary must have been proved (`detect`).

    `context_tokens`: the server's, or fewer. It compiles no constraint (each server says why) and keeps no caches: the
    server has its own. `figures_s`: how many seconds a complete answer waits for the server's figures.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"prefill"})
    server: IdServer
    vocabulary: Vocabulary
    _: KW_ONLY
    name: str
    context_tokens: int
    figures_s: float = 3.0

    def generate(self, task: Task, *, control: Control) -> RemoteGeneration:
        if task.constraint is not None:
            raise ValueError("this engine compiles no constraint: see capabilities")
        most, at_limit = task.limit(self.context_tokens)
        return RemoteGeneration(self, task, most, at_limit, control)

    def prefill(
        self, prompt: Prompt, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Let the server read the prompt into its cache. It reads on for a batch after a stop.

        A fault ends this silently, without another try: nobody waits, and the next step will report it.
        """
        with suppress(EngineFailed), closing(self.server.read(prompt.ids, control)) as answer:
            for item in answer:
                if isinstance(item, Progress):
                    on_progress(item)

    def close(self) -> None:
        self.server.client.close()


@dataclass(slots=True, eq=False)
class RemoteGeneration:
    """The ids of one completion as they come from the server. See `agent.engine.base.Generation`."""

    _engine: RemoteEngine
    _task: Task
    _most: int
    _at_limit: CompletionEnd
    _control: Control
    _ids: list[int] = field(default_factory=list)
    _figures: Figures = field(default_factory=Figures)
    _read: Progress | None = None
    _began: float = field(default_factory=time.monotonic)
    _first: float | None = None
    _last: float = 0.0
    _end: CompletionEnd | None = None
    _own: Control = field(default_factory=Control)  # ends the exchange: with the turn, or when the figures are late
    _late: threading.Timer = field(init=False)
    _items: Generator[int | Progress, None, None] = field(init=False)

    def __post_init__(self) -> None:
        self._late = threading.Timer(self._engine.figures_s, self._own.stop)
        self._late.daemon = True
        self._items = self._run()

    def __iter__(self) -> Iterator[int | Progress]:
        return self

    def __next__(self) -> int | Progress:
        return next(self._items)

    @property
    def stats(self) -> StepStats:
        """The server's own figures; where it gives none, the times are ours, and all of the prompt counts as read."""
        figures, total, now = self._figures, len(self._task.prompt.ids), self._last or time.monotonic()
        progress = self._read
        reused = min(figures.reused, total) if figures.reused is not None else progress.reused if progress else 0
        read = progress.done - reused if progress else total - reused if self._first is not None else 0
        first = self._first if self._first is not None else now
        return StepStats(
            prompt_tokens=total,
            reused_tokens=reused,
            completion_tokens=len(self._ids),
            prefill_s=first - self._began if figures.prefill_s is None else figures.prefill_s,
            decode_s=now - first if figures.decode_s is None else figures.decode_s,
            end=self._end or "stop",
            evaluated_tokens=max(read, 0) if figures.evaluated is None else min(figures.evaluated, total),
            cache_reported=figures.reused is not None or progress is not None,
        )

    def close(self) -> None:
        self._items.close()
        self._end = self._end or "stop"
        self._last = self._last or time.monotonic()

    def _run(self) -> Generator[int | Progress, None, None]:
        forget = self._control.on_stop(self._own.stop)
        try:
            if self._control.stopped:
                self._end = "stopped"
                return
            yield Progress(0, len(self._task.prompt.ids))
            with closing(self._engine.server.complete(self._task, self._most, self._own)) as answer:
                yield from self._follow(answer)
        finally:
            forget()
            self._late.cancel()
            self._last = time.monotonic()

    def _follow(self, answer: Iterator[Progress | Came | Ended]) -> Generator[int | Progress, None, None]:
        """Give out what comes, up to the first stop id or the limit.

        A stop id is held back until the server has sent its figures and its slot: who gets it may close this.
        """
        held: int | None = None
        try:
            for item in answer:
                if isinstance(item, Progress):
                    self._read = item
                    yield item
                elif isinstance(item, Ended):
                    held = self._ended(item) if self._end is None else held
                    break
                elif item.ids and self._end is not None:
                    break  # at `<|end|>` a server goes on by itself
                else:
                    for token in self._taken(item):
                        if self._end == "stop":
                            held = token
                        else:
                            yield token
                if self._end is None and self._control.stopped:
                    break
        except EngineFailed:
            if self._end is None:
                raise  # otherwise the answer is whole, and only figures are lost
        if held is not None:
            yield held
        elif self._end is None:
            if not self._control.stopped:
                raise EngineFailed(f"{self._name} broke off in mid-answer: it ended without saying why; see its log")
            self._end = "stopped"

    def _taken(self, came: Came) -> Iterator[int]:
        """The ids of it up to the end of the answer, or a stop."""
        self._figures = came.figures if came.figures != Figures() else self._figures
        for token in came.ids:
            if self._end is not None or self._control.stopped:
                return
            self._take(token)
            yield token

    def _take(self, token: int) -> None:
        if token >= self._engine.vocabulary.size:
            raise EngineFailed(f"{self._name}: the id {token} isn't in the vocabulary: it serves another model")
        self._first = self._first or time.monotonic()
        self._ids.append(token)
        if token in self._task.stops:
            self._end = "stop"
        elif len(self._ids) >= self._most:
            self._end = self._at_limit
        if self._end is not None:
            self._late.start()

    def _ended(self, ended: Ended) -> int | None:
        """Note why the server ended; the stop id that it kept to itself."""
        if ended.why != "stop":
            self._end = "context" if ended.why == "context" else self._at_limit
            return None
        token = withheld((*self._task.prompt.ids, *self._ids), self._engine.vocabulary, ended.stop_id)
        self._take(token)
        self._end = "stop"
        return token

    @property
    def _name(self) -> str:
        return self._engine.server.client.address.name


def withheld(ids: Sequence[int], vocabulary: Vocabulary, stop_id: int | None) -> int:
    """The id of `<|call|>` or `<|return|>` that must have ended `ids`: a prompt and what was generated after it.

    `stop_id` is what the server's stop reason names; without it, a message with a recipient ended as a call:

        withheld(ids_of("…<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}"), …, None)    # <|call|>
    """
    control = vocabulary.control
    if stop_id in (control["<|call|>"], control["<|return|>"], control["<|end|>"], control["<|endoftext|>"]):
        return stop_id
    return control["<|call|>"] if _is_addressed(ids, vocabulary) else control["<|return|>"]


def _is_addressed(ids: Sequence[int], vocabulary: Vocabulary) -> bool:
    """True if the last message's header names a recipient (`<|channel|>` may stand on either side of it)."""
    start, message = vocabulary.control["<|start|>"], vocabulary.control["<|message|>"]
    begins = next((at for at in range(len(ids) - 1, -1, -1) if ids[at] == start), 0)
    ends = next((at for at in range(begins, len(ids)) if ids[at] == message), len(ids))
    tokens = vocabulary.tokens
    header = b"".join(tokens[one] if one < len(tokens) else b"" for one in ids[begins:ends])
    return b" to=" in header
