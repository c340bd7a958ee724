"""llama.cpp's raw calls, on llama-cpp-python's low-level API: a model and its context. Only here is it imported.

Its `Llama` class isn't used: it tokenises text again, samples slowly, and trusts a sliding-window cache it shouldn't.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ossia.agent.control import Control
from ossia.agent.engine._bare import bare
from ossia.agent.engine._batch import Batch, Part
from ossia.agent.engine._sequence import Gate, SequenceMemory
from ossia.agent.engine.cache import Logits
from ossia.agent.engine.devices import Build, backend_names, experts_with_processor, gpu_names, memory_of_gpus
from ossia.agent.engine.log import Log
from ossia.agent.engine.threads import Waiting, default_threads, step_tokens, waiting_for
from ossia.agent.errors import EngineFailed, ModelUnusable, OutOfMemory, SettingRefused
from ossia.agent.models.memory import GpuMemory

with bare("llama_cpp") as VERSION:
    import llama_cpp.llama_cpp as lib
    from llama_cpp._ggml import libggml

_MOST_THREADS = 512  # GGML_MAX_N_THREADS; OpenMP ends the process when it can't start a thread
_DONE, _ABORTED = 0, 2  # what llama_decode returns
_SWA_FULL = False
"""True, llama.cpp's default, would keep the whole context in the sliding-window layers too: with gpt-oss-20b, twice the
memory. `agent.engine.cache` keeps checkpoints instead."""
_KV_TYPES = {"f16": lib.GGML_TYPE_F16, "q8_0": lib.GGML_TYPE_Q8_0}

_C: Any = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
_ABORTS = ctypes.cast(ctypes.cast(_C.strlen, ctypes.c_void_p), lib.ggml_abort_callback)  # once: ctypes keeps each cast
_FLAG_BYTES = 2
_MEMORY_FAULT = re.compile(r"alloc|out of memory|enough memory|mlock", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """The settings to run a model with. `LlamaSettings(context_tokens=8192, gpu_layers=0)`

    `gpu_layers` -1: all of them; it matters only where llama.cpp was built for a GPU. `cpu_moe`: the experts of the
    first so many layers stay with the processor. `split`: how many of the layers each GPU has; empty: as llama.cpp
    shares them. `threads` None: as many as there are physical cores. At most `batch_tokens` go through the network at
    once. Of a prompt, `step_tokens` do; None: as many as suit the threads (`agent.engine.threads.step_tokens`), or a
    whole batch on a GPU. `repack`: make a second copy of the weights for the processor, in the order in which it reads
    them (`agent.models.needs` says how large it is, and where it can't be made). `lanes`: so many conversations at
    once, each with a context of its own (`agent.engine.scheduler`).
    """

    context_tokens: int
    gpu_layers: int = -1
    cpu_moe: int = 0
    split: tuple[int, ...] = ()
    kv_type: Literal["f16", "q8_0"] = "f16"
    threads: int | None = None
    batch_tokens: int = 512
    step_tokens: int | None = None
    repack: bool = False
    checkpoint_bytes: int = 64 << 20
    lanes: int = 1


class Native:
    """A loaded model with its context, for one thread at a time: the raw calls, and the memory of each sequence."""

    def __init__(
        self, path: Path, settings: LlamaSettings, log_path: Path | None, on_progress: Callable[[float], bool] | None
    ) -> None:
        self._model: Any = None
        self._context: Any = None
        self._waiting: Waiting | None = None
        _LOG.open(log_path)
        _take_log()
        lib.llama_backend_init()
        self._model = _load_model(path, settings, on_progress)
        try:
            self._context = _new_context(self._model, path, settings)
        except BaseException:
            self.close()
            raise
        self.gate = Gate()
        self.batch_tokens = int(lib.llama_n_batch(self._context))
        self.step_tokens = min(settings.step_tokens or self._usual_step(settings), self.batch_tokens)
        self.window = int(lib.llama_model_n_swa(self._model))
        self.vocabulary_size = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model)))
        self.fingerprint = _fingerprint(path, settings, self)
        self._threads = self._threads_in_use = int(lib.llama_n_threads(self._context))
        self.lanes = settings.lanes
        self.may_use_fewer_threads = False
        self._waiting = waiting_for(self._threads)
        self._batch = Batch(lib, self.batch_tokens, settings.lanes)
        self._row_type, self._rows = ctypes.c_float * self.vocabulary_size, dict[int, Logits]()
        self._abort_flag = ctypes.create_string_buffer(_FLAG_BYTES)
        _LOG.owner = self

    @property
    def is_open(self) -> bool:
        return self._context is not None

    def close(self) -> None:
        _take_log()
        if self._waiting is not None:
            self._waiting.close()
        if self._context is not None:
            lib.llama_free(self._context)
        if self._model is not None:
            lib.llama_model_free(self._model)
        self._context = self._model = None
        if _LOG.owner is self:
            _LOG.open(None)

    def sequence(self, number: int) -> SequenceMemory:
        """The memory of this sequence; `settings.lanes` of them are there."""
        return SequenceMemory(lib, self._context, number, self.gate)

    def open(self, control: Control) -> Callable[[], None]:
        """From now on a stop aborts even a decode step under way. Returns a function to end this."""
        return control.on_stop(self.new_abort_flag())

    def new_abort_flag(self) -> Callable[[], None]:
        """Make a new flag that aborts a decode step once it is raised. Returns a function to raise it from any thread.

        Each generation has its own flag, so that a late stop can't hit the next one. llama.cpp asks after each of the
        network's operations. A function in Python would need the interpreter's lock each time, which another thread may
        hold for milliseconds; so it asks `strlen`, of a text that is empty until the flag is raised.
        """
        flag = ctypes.create_string_buffer(_FLAG_BYTES)
        lib.llama_set_abort_callback(self._context, _ABORTS, ctypes.cast(flag, ctypes.c_void_p))
        self._abort_flag = flag  # llama.cpp holds its address only

        def abort() -> None:
            flag[0] = b"\x01"

        return abort

    def _usual_step(self, settings: LlamaSettings) -> int:
        on_gpu = lib.llama_supports_gpu_offload() and settings.gpu_layers
        return self.batch_tokens if on_gpu else step_tokens(int(lib.llama_n_threads(self._context)))

    def decode(self, start: int, ids: Sequence[int], *, logits: bool = True) -> bool:
        return self._run(self._batch.filled(start, ids, logits=logits))

    def step(self, parts: Sequence[Part]) -> list[Logits] | None:
        """Decode parts of several sequences at once. Returns the logits of each, valid until the next step.

        Those of a part that wants none are empty. None: it was aborted. Call it inside `gate`.
        """
        batch, rows = self._batch.filled_with(parts)
        if not self._run(batch):
            return None
        nothing: Logits = np.empty(0, np.float32)
        return [self._logits(row) if part.logits else nothing for part, row in zip(parts, rows, strict=True)]

    def _run(self, batch: Any) -> bool:
        _LOG.errors.clear()
        if self._waiting is not None:
            self._waiting.before_step()
            count = self._waiting.fitting if self.may_use_fewer_threads else self._threads
            if count != self._threads_in_use:
                self._threads_in_use = count
                lib.llama_set_n_threads(self._context, count, count)
        status = int(lib.llama_decode(self._context, batch))
        if self._waiting is not None:
            self._waiting.after_step()
        if status in (_DONE, _ABORTED):
            return status == _DONE
        raise EngineFailed(f"llama.cpp failed to decode (status {status}: {_LOG.reason})")

    def logits(self) -> Logits:
        return self._logits(-1)  # the last row, and the only one

    def _logits(self, row: int) -> Logits:
        address = ctypes.addressof(lib.llama_get_logits_ith(self._context, row).contents)
        found = self._rows.get(address)
        if found is None:  # the addresses hardly ever change, and making the array takes longer than the rest
            found = self._rows[address] = np.ctypeslib.as_array(self._row_type.from_address(address))
        return found


def _load_model(path: Path, settings: LlamaSettings, on_progress: Callable[[float], bool] | None) -> Any:
    given_up = False

    def report(share: float, _data: object) -> bool:
        nonlocal given_up
        given_up = given_up or (on_progress is not None and not on_progress(share))
        return not given_up

    params = lib.llama_model_default_params()
    params.n_gpu_layers = settings.gpu_layers
    overrides = _overrides(settings)  # alive until the weights are loaded
    params.tensor_buft_overrides = ctypes.cast(overrides, ctypes.c_void_p) if overrides is not None else None
    if settings.split:
        params.tensor_split = (ctypes.c_float * int(lib.llama_max_devices()))(*settings.split)
    params.use_extra_bufts = settings.repack
    params.load_mode = lib.LLAMA_LOAD_MODE_MMAP
    callback = lib.llama_progress_callback(report)
    params.progress_callback = callback
    _LOG.errors.clear()
    model = lib.llama_model_load_from_file(os.fsencode(path), params)
    if model:
        return model
    if given_up:
        raise EngineFailed("loading the model was given up")
    raise _load_error(path, "the weights")


def _overrides(settings: LlamaSettings) -> Any:
    try:
        return experts_with_processor(libggml, settings.cpu_moe) if settings.cpu_moe else None
    except AttributeError as error:
        raise SettingRefused("--n-cpu-moe: this build of llama.cpp doesn't offer it: leave it out") from error


def _new_context(model: Any, path: Path, settings: LlamaSettings) -> Any:
    params = lib.llama_context_default_params()
    params.n_ctx = settings.context_tokens * settings.lanes
    params.n_seq_max, params.kv_unified = settings.lanes, settings.lanes > 1  # any lane can fill its whole context
    params.n_batch = params.n_ubatch = settings.batch_tokens
    params.n_threads = params.n_threads_batch = min(settings.threads or default_threads(), _MOST_THREADS)
    params.n_outputs_max = settings.lanes  # a row of logits for each; room for those of a whole batch is 393 MiB more
    params.swa_full = _SWA_FULL
    params.type_k = params.type_v = _KV_TYPES[settings.kv_type]
    # Flash attention where the device of each layer computes it with gpt-oss's attention sinks: llama.cpp tries that.
    # A V cache of q8_0 needs it, and gets it untried.
    params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_AUTO
    _LOG.errors.clear()
    context = lib.llama_init_from_model(model, params)
    if context:
        return context
    raise _load_error(path, f"a context of {settings.context_tokens} tokens")


def _fingerprint(path: Path, settings: LlamaSettings, native: Native) -> str:
    """The fingerprint of a KV cache's origin, in 32 digits: the weights' file, the llama.cpp, the way it computes.

    With another order of the weights, other processor instructions or another device, numbers are rounded differently,
    and the ids drawn from them wouldn't be the same again.
    """
    found = path.stat()
    placement = (settings.gpu_layers, settings.cpu_moe, settings.split, gpu_names(libggml))
    facts = {
        "llama.cpp": VERSION,
        "file": (path.name, found.st_size, found.st_mtime_ns),
        "kv": (_KV_TYPES[settings.kv_type], _KV_TYPES[settings.kv_type], _SWA_FULL),
        "flash attention": lib.LLAMA_FLASH_ATTN_TYPE_AUTO,
        "batch": (native.batch_tokens, native.step_tokens),
        "repacked": settings.repack,
        "devices": placement if lib.llama_supports_gpu_offload() else (),
        "processor": sorted(processor_features()),
    } | ({"lanes": settings.lanes} if settings.lanes > 1 else {})
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _load_error(path: Path, what: str) -> ModelUnusable | OutOfMemory:
    reason = _LOG.reason
    if any(_MEMORY_FAULT.search(error) for error in _LOG.errors):
        less = "a smaller --context" + (", a larger --n-cpu-moe" if lib.llama_supports_gpu_offload() else "")
        return OutOfMemory(f"{path}: not enough memory for {what} ({reason}): use {less} or close programs")
    return ModelUnusable(f"{path}: llama.cpp can't use this file ({reason}): download it again, or use another one")


def gpu_memory() -> GpuMemory:
    """The free memory of each GPU that layers can be put on; empty where llama.cpp was built without any."""
    return memory_of_gpus(libggml) if lib.llama_supports_gpu_offload() else GpuMemory()


def processor_features() -> frozenset[str]:
    """The processor features that this build of llama.cpp uses: `{"AVX2", "AVX512", "FMA", "REPACK", …}`."""
    said = lib.llama_print_system_info().decode("ascii", "replace")
    return frozenset(re.findall(r"(\w+) = [1-9]", said))


def build() -> Build:
    """The targets of this llama.cpp, and the GPUs that it sees now."""
    names, memory, features = gpu_names(libggml), memory_of_gpus(libggml), tuple(sorted(processor_features()))
    return Build(VERSION, backend_names(libggml), names, memory.free, features, memory.shared)


_LOG = Log()
_LOG_CALLBACK = lib.llama_log_callback(_LOG.write)  # kept: llama.cpp holds only its address


def _take_log() -> None:
    """Have llama.cpp's log from now on: a program that imports llama_cpp itself would print it."""
    lib.llama_log_set(_LOG_CALLBACK, None)


_take_log()
