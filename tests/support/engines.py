"""Engines on small models, and a second way to run the same models: llama.cpp's calls in a row, nothing kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Sampling, Task
from ossia.agent.engine.generation import Prefill
from ossia.agent.engine.llama import LlamaEngine, LlamaSettings
from ossia.agent.guide import GuideCompiler
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gpt_oss import read_vocabulary
from ossia.harmony.tokenizer import Tokenizer

ETUDE = Path(__file__).parents[2] / "agent/models/etude.gguf"
GREEDY = Sampling(temperature=0)
Logits = NDArray[np.float32]


def load_engine(
    path: Path,
    *,
    context_tokens: int = 2048,
    batch_tokens: int = 512,
    step_tokens: int | None = 512,
    repack: bool = False,
    cpu_moe: int = 0,
    kv_type: Literal["f16", "q8_0"] = "f16",
    checkpoint_bytes: int = 64 << 20,
    log_path: Path | None = None,
    on_progress: Callable[[float], bool] | None = None,
    guided: bool = False,
    insists: bool = False,
) -> LlamaEngine:
    """An engine on one thread: as many tests can run at once as there are processors.

    `guided`: it can be; `insists`: its guide lets go of no header.
    """
    return load_lanes(
        path,
        1,
        context_tokens=context_tokens,
        batch_tokens=batch_tokens,
        step_tokens=step_tokens,
        repack=repack,
        cpu_moe=cpu_moe,
        kv_type=kv_type,
        checkpoint_bytes=checkpoint_bytes,
        log_path=log_path,
        on_progress=on_progress,
        guided=guided,
        insists=insists,
    )[0]


def load_lanes(
    path: Path,
    lanes: int,
    *,
    context_tokens: int = 2048,
    guided: bool = False,
    insists: bool = False,
    log_path: Path | None = None,
    on_progress: Callable[[float], bool] | None = None,
    **settings: Any,
) -> tuple[LlamaEngine, ...]:
    """The same with several lanes; `settings` as there."""
    vocabulary = read_vocabulary(read_header(path))
    return LlamaEngine.load(
        path,
        vocabulary=vocabulary,
        name=path.stem,
        settings=LlamaSettings(context_tokens, threads=1, lanes=lanes, **settings),
        log_path=log_path,
        on_progress=on_progress,
        guides=GuideCompiler(Tokenizer(vocabulary), insists=insists) if guided else None,
    )


def generate(engine: LlamaEngine, prompt: Prompt, max_tokens: int) -> list[int]:
    """That many greedy ids."""
    generation = engine.generate(Task(prompt, max_tokens=max_tokens, sampling=GREEDY), control=Control())
    return [item for item in generation if isinstance(item, int)]


def prefill(engine: LlamaEngine, prompt: Prompt) -> tuple[Logits, int]:
    """The logits after the prompt, and how many of its ids were reused."""
    work = Prefill(prompt, engine.lane)
    for _ in work:
        pass
    assert work.logits is not None
    return work.logits.copy(), work.reused


def fresh_logits(path: Path, ids: Sequence[int], **settings: Any) -> Logits:
    """The logits after `ids` from an engine that never saw anything else."""
    engine = load_engine(path, **settings)
    try:
        return prefill(engine, Prompt(tuple(ids)))[0]
    finally:
        engine.close()


def plain_greedy(path: Path, ids: Sequence[int], count: int) -> list[int]:
    """The oracle: `count` greedy ids from a context of its own, with a full-size cache and no bookkeeping."""
    params = lib.llama_model_default_params()
    params.use_extra_bufts = False  # see agent/models/needs.py about AMX
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    options = lib.llama_context_default_params()
    options.n_ctx, options.n_threads, options.n_threads_batch, options.swa_full = 2048, 1, 1, True
    context = lib.llama_init_from_model(model, options)
    size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    out: list[int] = []
    step = list(ids)
    for _ in range(count):
        array = (ctypes.c_int32 * len(step))(*step)  # kept in a variable: the batch only points to it
        assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(step))) == 0
        logits = lib.llama_get_logits_ith(context, -1)
        step = [int(np.argmax(np.ctypeslib.as_array(logits, (size,))))]
        out += step
    lib.llama_free(context)
    lib.llama_model_free(model)
    return out
