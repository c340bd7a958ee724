"""llama.cpp in this process as an `Engine`: prompts in, ids out, and the KV cache stored for later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ossia.agent.control import Control
from ossia.agent.engine._native import LlamaSettings, Native, build, gpu_memory, processor_features
from ossia.agent.engine._sequence import SequenceMemory
from ossia.agent.engine.base import Progress, Prompt, Task
from ossia.agent.engine.cache import PrefixCache
from ossia.agent.engine.generation import Lane, LocalGeneration, Prefill
from ossia.agent.engine.guiding import Guides
from ossia.agent.engine.parked import Parked, ParkedCache
from ossia.agent.engine.prompts import StoredPrompts
from ossia.agent.engine.sampling import Sampler
from ossia.agent.engine.scheduler import LaneDecoder, Scheduler
from ossia.agent.engine.statics import Shelf
from ossia.agent.engine.stored import About, load, save, take
from ossia.agent.errors import ContextFull, ModelUnusable
from ossia.agent.models.needs import BATCH_TOKENS
from ossia.agent.models.plan import Plan
from ossia.harmony.tokenizer import Vocabulary

__all__ = ["LlamaEngine", "LlamaSettings", "build", "gpu_memory", "llama_settings", "processor_features"]


def llama_settings(planned: Plan, *, threads: int | None) -> LlamaSettings:
    """The plan as llama.cpp's settings. `threads` None: as many as there are physical cores."""
    return LlamaSettings(
        context_tokens=planned.context_tokens,
        gpu_layers=planned.gpu_layers,
        cpu_moe=planned.offload.cpu_moe,
        split=planned.offload.split,
        kv_type=planned.kv_type,
        threads=threads,
        batch_tokens=BATCH_TOKENS,
        repack=planned.repack,
        lanes=planned.lanes,
    )


class LlamaEngine:
    """Runs a GGUF through llama.cpp. See `agent.engine.base.Engine`; made by `load`.

    `prompts`: where the static parts of prompts are stored for later processes; None: nowhere.
    """

    def __init__(
        self,
        native: Native,
        decoder: Native | LaneDecoder,
        memory: SequenceMemory,
        shelf: Shelf | None,
        parked: Parked,
        vocabulary: Vocabulary,
        name: str,
        settings: LlamaSettings,
        guides: Guides | None = None,
    ) -> None:
        self.native, self.decoder, self.memory = native, decoder, memory
        self._guides = guides
        self.vocabulary = vocabulary
        self.name = name
        self.context_tokens = settings.context_tokens
        self.capabilities = frozenset({"prefill", "save"} | ({"constraint"} if guides else set()))
        most = settings.checkpoint_bytes
        self.lane = Lane(decoder, PrefixCache(memory, window=native.window, max_bytes=most, shelf=shelf))
        self._shelf, self._parked = shelf, parked
        self._open: LocalGeneration | None = None
        self.prompts: StoredPrompts | None = None
        self._static: Prompt | None = None  # the part of the last prompt that may be stored on disk

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        vocabulary: Vocabulary,
        name: str,
        settings: LlamaSettings,
        log_path: Path | None = None,
        on_progress: Callable[[float], bool] | None = None,
        guides: Guides | None = None,
    ) -> tuple[LlamaEngine, ...]:
        """The model at `path`, ready to run: an engine for each of `settings.lanes`.

        They share the weights; each has a thread of its own. The model is freed when the last one is closed.

        Check the file's header first (`agent.models`), which has the `vocabulary`: llama.cpp ends the process on some
        broken ones. Its log is appended to `log_path` (None: dropped); a process has one log, that of the engine loaded
        last. `on_progress` gets the loaded share of the weights, 0.0 to 1.0; if it returns False, loading is given up.
        `guides` compiles constraints. Raises `ModelUnusable`, `OutOfMemory`, or `EngineFailed` when given up.
        """
        native = Native(path, settings, log_path, on_progress)
        if native.vocabulary_size != vocabulary.size:
            native.close()
            raise ModelUnusable(
                f"{path}: llama.cpp sees {native.vocabulary_size} tokens, not {vocabulary.size}: download it again"
            )
        memories = [native.sequence(number) for number in range(settings.lanes)]
        decoders: Sequence[Native | LaneDecoder] = [native]
        shelves: Sequence[Shelf | None] = [None]
        if settings.lanes > 1:
            decoders, shelves = Scheduler(native).lanes, Shelf.row(memories)
        parked = Parked()
        return tuple(
            cls(native, decoder, memory, shelf, parked, vocabulary, name, settings, guides)
            for decoder, memory, shelf in zip(decoders, memories, shelves, strict=True)
        )

    def generate(self, task: Task, *, control: Control) -> LocalGeneration:
        prompt, sampling, guide = task.prompt, task.sampling, None
        self._require_ready(prompt)
        if task.constraint is not None:
            if self._guides is None:
                raise ValueError("this engine compiles no constraint: see capabilities")
            guide = self._guides(task.constraint)
        sampler = Sampler(sampling, self.vocabulary.size, salt=len(prompt.ids))
        # With another number of threads llama.cpp rounds differently over a long context. So if the same answer must
        # come again (with a seed, or greedily), the number stays the same, whatever else runs.
        self.decoder.may_use_fewer_threads = sampling.seed is None and sampling.temperature != 0
        end = self._abort_on_stop(control)

        def over() -> None:
            end()
            if prompt.side_question is not None:
                self.lane.cache.cut_back(prompt.side_question)

        try:
            prefill = self._prefill(prompt, control)
            self._open = LocalGeneration(prefill, sampler, task, self.context_tokens, control, over, guide)
        except BaseException:
            end()
            raise
        return self._open

    def prefill(
        self, prompt: Prompt, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Read the prompt into the KV cache, until `control` stops it.

        Its static parts are stored for later processes as soon as they are read.
        """
        self._require_ready(prompt)
        done = self._abort_on_stop(control)
        try:
            prefill = self._prefill(prompt, control, ahead=True)
            if self.lane.cache.holds(prompt.ids):
                return
            for progress in prefill:
                on_progress(progress)
                if control.stopped:
                    break
                self._save_static(progress.done, beside=True)
        finally:
            done()

    def save_cache(self, folder: Path, *, max_bytes: int) -> int:
        """Store the KV cache in `folder` (`agent.engine.stored`); returns the bytes, 0 when nothing was stored.

        A closed engine leaves the folder as it is.
        """
        if not self.decoder.is_open:
            return 0
        return save(folder, self.lane.cache, self.memory, self._about(personal=True), max_bytes=max_bytes)

    def change_conversation(self, before: str | None, after: str | None) -> int:
        """Park what the cache holds, the conversation `before`; go on with `after`, if that is parked.

        Returns the ids that are held then. Of another conversation only the static parts of its prompt are.
        """
        cache = self.lane.cache
        if not self.decoder.is_open:
            return 0
        if before is not None and len(cache) and (state := self.memory.pack(self._parked.max_bytes)):
            self._parked.put(before, ParkedCache(cache.ids, cache.checkpoints, state))
        parked = self._parked.take(after) if after is not None else None
        if parked is None:
            cache.keep_static()
            return 0
        cache.clear()
        if not self.memory.unpack(parked.state):
            cache.clear()
            return 0
        return cache.adopt(parked.ids, parked.checkpoints)

    def save_prompts(self) -> int:
        """Store the static parts of the prompt that was read last, unless they are stored; returns the bytes.

        The cache is cut back to them, so that nothing after them reaches the disk. Call it at the end of a process.
        """
        parts = self._static.static if self._static and self.decoder.is_open else ()
        return sum(self._save_static(part.length, beside=False) for part in reversed(parts))

    def _save_static(self, length: int, *, beside: bool) -> int:
        """Store the static part of this length, if there is one, it isn't stored, and the cache can go back to it."""
        prompt, prompts = self._static, self.prompts
        part = next((part for part in prompt.static if part.length == length), None) if prompt else None
        if prompt is None or prompts is None or part is None or (part.personal and not prompts.personal):
            return 0
        ids = prompt.ids[:length]
        if self.lane.cache.shared(ids) < length or not prompts.wants(ids, self.native.fingerprint):
            return 0
        if not self.lane.cache.cut_back(length):
            return 0
        snapshot = take(self.lane.cache, self.memory, self._about(part.personal), max_bytes=prompts.max_bytes // 2)
        if snapshot is None:
            return 0
        if beside:
            prompts.add_beside(snapshot)
            return 0
        return prompts.add(snapshot)

    def _about(self, personal: bool) -> About:
        return About(self.native.fingerprint, self.name, personal)

    def load_cache(self, folder: Path) -> int:
        """Load the KV cache that `folder` holds; returns its tokens, 0 when nothing in it can be used."""
        fingerprint, room = self.native.fingerprint, self.context_tokens
        return load(folder, self.lane.cache, self.memory, fingerprint=fingerprint, room=room)

    def close(self) -> None:
        """Free everything. Ends a generation that is still open; nothing can be generated afterwards."""
        if self._open is not None:
            self._open.close()
        if self.prompts is not None:
            self.prompts.close()
        if self.decoder.is_open:
            self.lane.cache.clear()  # the other lanes go on without its cells
        self.decoder.close()

    def _require_ready(self, prompt: Prompt) -> None:
        if self._open is not None:
            raise RuntimeError("the generation before must be closed or exhausted first")
        if not self.decoder.is_open:
            raise RuntimeError("the engine is closed")
        if not prompt.ids:
            raise ValueError("a prompt must have at least one id")
        if len(prompt.ids) >= self.context_tokens:
            raise ContextFull(len(prompt.ids), self.context_tokens)

    def _prefill(self, prompt: Prompt, control: Control, *, ahead: bool = False) -> Prefill:
        self._static = None
        if self._shelf is not None:
            self._shelf.borrow(prompt, self.lane.cache, control)
        if prompt.static and self.prompts:
            end = prompt.static[-1].length
            self._load_static(self.prompts, prompt.ids, end)
            if self.prompts.writes:  # looked at now: what is read while private is never stored
                self._static = Prompt(prompt.ids[:end], static=prompt.static)
        return Prefill(prompt, self.lane, ahead=ahead)

    def _load_static(self, prompts: StoredPrompts, ids: Sequence[int], end: int) -> None:
        """Load what is stored of the prompt's beginning, up to `end`, if it is more than the cache holds."""
        shared = self.lane.cache.shared(ids)
        if shared >= end:
            return
        folder = prompts.longest(ids, self.native.fingerprint, beyond=shared)
        if folder is not None:
            prompts.used(folder) if self.load_cache(folder) else prompts.useless(folder)

    def _abort_on_stop(self, control: Control) -> Callable[[], None]:
        """From now on a stop aborts even a decode step under way. Returns a function to end this."""
        close = self.decoder.open(control)

        def end() -> None:
            close()
            if self._shelf is not None:
                self._shelf.done()
            self._open = None

        return end
