"""llama.cpp as `ossia` runs it, for the benches' own processes: loading, and what passes between its calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ossia.agent.engine.base import Progress, StepStats, Task

if TYPE_CHECKING:
    from ossia.agent.control import Control
    from ossia.agent.engine.llama import LlamaEngine
    from ossia.harmony.tokenizer import Vocabulary


def load_as_ossia(path: Path, *, threads: int | None = None) -> LlamaEngine:
    """The model at `path` with the settings that `ossia` finds for it: its context, its layers."""
    from ossia.agent.engine.llama import LlamaEngine, gpu_memory, llama_settings
    from ossia.agent.models.memory import read_memory
    from ossia.agent.models.model import open_model
    from ossia.agent.models.plan import plan

    model = open_model(path)
    planned = plan(model, memory=read_memory(gpu_memory()))
    settings = llama_settings(planned, threads=threads)
    return LlamaEngine.load(path, vocabulary=model.vocabulary(), name=model.name, settings=settings)[0]


def watch_repacking() -> list[bool]:
    """For each model that this process loads from now on: was llama.cpp free to repack its weights?"""
    import llama_cpp.llama_cpp as lib

    native, seen = lib.llama_model_load_from_file, []

    def load(path: bytes, params: Any) -> Any:
        seen.append(bool(params.use_extra_bufts))
        return native(path, params)

    lib.llama_model_load_from_file = load
    return seen


# -- between the calls -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Stamps:
    """When each call of llama_decode began and ended, in seconds of `time.perf_counter`; None of them is a prefill's.

    Only calls that brought one id are kept. What a call of ours costs before it is inside the library (2 µs, ctypes)
    counts as llama.cpp's; on a GPU, what is waited for when the logits are fetched counts as ours.
    """

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """CPU time that the thread which decodes has used from one call to the next: a wait for a processor isn't in it."""
    main_s: list[float] = field(default_factory=list)
    """CPU time of the main thread at each beginning, where another one decodes: the terminal's."""

    @property
    def gaps(self) -> list[float]:
        """The seconds from the end of each call to the beginning of the next: all that isn't llama.cpp's."""
        return [begin - end for end, begin in zip(self.ends, self.begins[1:], strict=False)]

    @property
    def inside(self) -> list[float]:
        """The seconds of each call."""
        return [end - begin for begin, end in zip(self.begins, self.ends, strict=True)]

    def figures(self, tokens: int) -> dict[str, float | None]:
        """Milliseconds a token of the last answer, of so many tokens, and tokens a second.

        `whole_ms` is from one call to the next, of which `decode_ms` inside it and `gap_ms` not: means, so that what
        comes only now and then is in them. `gap_cpu_ms`: CPU time of the same gaps. `main_ms`: that of the terminal's
        thread, all of it; None where it decodes itself.
        Raises RuntimeError when there weren't so many calls (the first token of an answer is the prefill's), or fewer
        than two.
        """
        if tokens < 3:
            raise RuntimeError(f"expected at least 3 tokens, two decode steps: asked for {tokens}")
        if len(self.begins) < tokens - 1:
            raise RuntimeError(f"expected {tokens - 1} decode steps of one id, saw {len(self.begins)}")
        last = Stamps(*(stamps[1 - tokens :] for stamps in (self.begins, self.ends, self.cpu_s, self.main_s)))
        steps = len(last.gaps)
        whole = (last.begins[-1] - last.begins[0]) / steps
        return {
            "whole_ms": 1e3 * whole,
            "decode_ms": 1e3 * sum(last.inside[:-1]) / steps,
            "gap_ms": 1e3 * sum(last.gaps) / steps,
            "gap_median_ms": 1e3 * median(last.gaps),
            "gap_cpu_ms": 1e3 * sum(last.cpu_s[1:]) / steps,
            "tokens_per_s": 1 / whole,
            "main_ms": 1e3 * (last.main_s[-1] - last.main_s[0]) / steps if last.main_s else None,
        }


def watch_decoding() -> Stamps:
    """Stamp every later decode step of this process. Before anything of `agent.engine.llama` is imported."""
    import llama_cpp.llama_cpp as lib

    stamps = Stamps()
    lib.llama_decode = _stamped(lib.llama_decode, stamps)
    return stamps


def watching_costs_ms() -> float:
    """What the stamps themselves add to a gap, in milliseconds; what they take beside that counts as llama.cpp's."""
    stamps = Stamps()
    decode = _stamped(lambda context, batch: 0, stamps)
    batch = _OneId()
    for _ in range(10_000):
        decode(None, batch)
    return 1e3 * median(stamps.gaps)


class _OneId:
    n_tokens = 1


def _stamped(native: Callable[[Any, Any], int], stamps: Stamps) -> Callable[[Any, Any], int]:
    clock, begins, ends, cpu_s = time.perf_counter, stamps.begins, stamps.ends, stamps.cpu_s
    main = threading.main_thread()
    cpu, cpu_at_end = time.thread_time, time.thread_time()
    has_clocks = hasattr(time, "pthread_getcpuclockid")  # macOS and Windows have none
    main_clock = time.pthread_getcpuclockid(main.ident or 0) if has_clocks else None

    def decode(context: Any, batch: Any) -> int:
        nonlocal cpu_at_end
        if batch.n_tokens != 1:
            return native(context, batch)
        begins.append(clock())
        cpu_s.append(cpu() - cpu_at_end)
        status = native(context, batch)
        cpu_at_end = cpu()
        if main_clock is not None and threading.current_thread() is not main:
            stamps.main_s.append(time.clock_gettime(main_clock))
        ends.append(clock())
        return status

    return decode


# -- an answer out of noise --------------------------------------------------------------------------------------------


def answer_with_markdown(tokens: int) -> None:
    """From now on every engine of this process says the same: at least so many tokens of Markdown in `final`.

    Random weights would never open a message, and the noise of one is nothing that a screen is made for. The engine
    draws and decodes as ever, and never ends by itself; only the ids that it hands on are those of the text.
    """
    from ossia.agent.engine.llama import LlamaEngine

    generate = LlamaEngine.generate

    def scripted(engine: LlamaEngine, task: Task, *, control: Control) -> Any:
        endless = replace(task, stops=frozenset())
        return _Scripted(generate(engine, endless, control=control), _ids(engine.vocabulary, tokens))

    setattr(LlamaEngine, "generate", scripted)  # noqa: B010  (mypy refuses the plain way)


def _ids(vocabulary: Vocabulary, tokens: int) -> list[int]:
    from ossia.harmony.tokenizer import Tokenizer
    from tests.support.documents import document

    tokenizer = Tokenizer(vocabulary)
    text = tokenizer.encode(document(2 * tokens))  # it counts them generously
    return [tokenizer.control.channel, *tokenizer.encode("final"), tokenizer.control.message, *text]


class _Scripted:
    """See `agent.engine.base.Generation`."""

    def __init__(self, inner: Any, ids: Sequence[int]) -> None:
        self._inner = inner
        self._items = self._run(iter(ids))

    def __iter__(self) -> Iterator[int | Progress]:
        return self._items

    def __next__(self) -> int | Progress:
        return next(self._items)

    @property
    def stats(self) -> StepStats:
        stats = self._inner.stats
        assert isinstance(stats, StepStats)
        return stats

    def close(self) -> None:
        self._inner.close()

    def _run(self, ids: Iterator[int]) -> Iterator[int | Progress]:
        for item in self._inner:
            yield next(ids) if isinstance(item, int) else item
