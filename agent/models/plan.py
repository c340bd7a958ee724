"""What fits into memory: how long the context can be, how many layers the GPU takes, or that the model is too large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from agent.errors import OutOfMemory, SettingRefused
from agent.models.gguf_parts import TensorInfo
from agent.models.gpt_oss import Architecture
from agent.models.memory import Memory, size_text
from agent.models.model import ModelFile
from agent.models.repack import Repack, reason_against, repacked_bytes

CONTEXTS: Final = (32_768, 16_384, 8_192)
"""The contexts that are tried, in tokens, when none is asked for."""
BATCH_TOKENS: Final = 512
"""The engine's batch size: the window's KV cells and the buffers grow with it."""

_CELLS_STEP: Final = 256  # llama.cpp rounds a context and a window's cache up to this
_KV_BYTES: Final = 2  # f16
_FIXED_BYTES: Final = 16 << 20
_OWN_BYTES: Final = 50_000_000  # resident with `ossia run` and the étude, beside weights, cache and buffers
_OWN_ID_BYTES: Final = 770  # more for each id of a vocabulary; both were measured with Python 3.11 on Linux
_GPU_SPARE_BYTES: Final = 256 << 20  # a driver's own use, and fragmentation
_REPACK_SPARE_BYTES: Final = 2_000_000_000  # must stay free for everything else if a second copy is made unasked


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run takes, in bytes: weights, KV cache, compute and output buffers; `repacked`: the weights' second copy.

    `own` is the rest of this process: Python, its libraries, the vocabulary.
    """

    weights: int
    kv: int
    buffers: int
    own: int
    repacked: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.buffers + self.own + self.repacked


@dataclass(frozen=True, slots=True)
class Plan:
    """How to load a model: `Plan(context_tokens=32768, gpu_layers=25, use_mmap=True, needs=Needs(…), warnings=())`.

    `gpu_layers` counts from the last layer back, including the output layer (`layers + 1` is all). `repack`: make the
    second copy, of `needs.repacked` bytes. `warnings` are lines for the user.
    """

    context_tokens: int
    gpu_layers: int
    use_mmap: bool
    needs: Needs
    warnings: tuple[str, ...] = ()

    @property
    def repack(self) -> bool:
        return self.needs.repacked > 0


def plan(
    model: ModelFile,
    *,
    memory: Memory,
    context: int | Literal["max"] | None = None,
    gpu_layers: int | None = None,
    use_mmap: bool = True,
    repack: Repack = "off",
    processor: frozenset[str] = frozenset(),
) -> Plan:
    """How to load `model` into `memory`. `context` None: the largest of 32k, 16k, 8k that fits; "max": the model's own.

    `gpu_layers` None: all that fit. A context longer than the model's own is cut to it, with a warning. `repack`
    "auto": a second copy is made if it fits with 2 GB to spare and there is no GPU; which weights are repacked depends
    on `processor`. Nothing is loaded here. Raises `OutOfMemory` if KV cache and buffers don't fit, if the weights
    don't and `use_mmap` is off, or if a copy that was asked for doesn't. With mmap, weights larger than free memory are
    only a warning (they are read from disk again and again). Raises `SettingRefused` for a copy that this build can't
    make.
    """
    if repack == "on" and (reason := reason_against(processor)):
        raise SettingRefused(f"--repack on: {reason}: leave it out")
    own = model.architecture.context_tokens
    warnings = []
    if context is None:
        copy = repacked_bytes(model.tensors.values(), processor) if repack == "on" and not memory.gpu_free else 0
        tokens = _largest_that_fits(model, memory, beside=copy)
    elif context == "max" or context > own:
        tokens = own
        if context != "max":
            warnings.append(f"{model.name} has a context of {own} tokens at most: --context {context} is cut to that")
    else:
        tokens = context
    needs = needs_of(model, tokens)
    layers = _gpu_layers(model, needs, memory) if gpu_layers is None else min(gpu_layers, model.architecture.layers + 1)
    share = 1.0  # of the weights, those that aren't put on a GPU (the token embedding never is)
    if memory.gpu_free and not memory.shared:
        share -= sum(_layer_bytes(model)[:layers]) / model.weight_bytes
    if memory.ram_free is not None:
        warnings += _check_ram(model, tokens, needs, share, memory.ram_free, use_mmap=use_mmap)
    if repack == "on" or (repack == "auto" and not memory.gpu_free):
        in_ram = [tensor for tensor in model.tensors.values() if _place(model, tensor) >= layers]
        needs = _with_copy(model, needs, repacked_bytes(in_ram, processor), share, memory, repack)
    return Plan(tokens, layers, use_mmap, needs, tuple(warnings))


def needs_of(model: ModelFile, context_tokens: int) -> Needs:
    """What `model` needs with a context of that many tokens. gpt-oss-20b, 32768: 12.1 GB, 0.8 GB, 0.2 GB, 0.2 GB."""
    return Needs(
        model.weight_bytes,
        kv_bytes(model.architecture, context_tokens),
        buffer_bytes(model.architecture, context_tokens),
        _OWN_BYTES + _OWN_ID_BYTES * model.architecture.vocabulary_size,
    )


def fits(model: ModelFile, memory: Memory) -> bool:
    """Do weights, buffers and the shortest context fit into memory, so that the disk isn't read over and over?"""
    shortest = min(CONTEXTS[-1], model.architecture.context_tokens)
    return memory.all_free is None or needs_of(model, shortest).total <= memory.all_free


def kv_bytes(network: Architecture, context_tokens: int) -> int:
    """The KV cache in bytes, as llama.cpp lays it out: odd layers keep the whole context, even ones their window."""
    full_cells = _rounded(context_tokens)
    window_cells = _rounded(min(full_cells, network.window + BATCH_TOKENS))
    cells = network.layers // 2 * full_cells + (network.layers + 1) // 2 * window_cells
    return cells * 2 * network.kv_heads * network.head_size * _KV_BYTES


def buffer_bytes(network: Architecture, context_tokens: int) -> int:
    """An upper bound for the compute and output buffers: a batch's values in the experts, its mask over the context.

    llama.cpp 0.3.36 took 98, 126 and 222 MiB for gpt-oss-20b's shapes at 4k, 32k and 128k (the same for 120b); this
    function returns 122, 150 and 246.
    """
    experts, mask = 16 * network.experts_used * network.expert_size, 2 * _rounded(context_tokens)
    batch = BATCH_TOKENS * (experts + mask + 8 * network.embedding)
    return batch + 4 * network.vocabulary_size + _FIXED_BYTES


def _largest_that_fits(model: ModelFile, memory: Memory, *, beside: int) -> int:
    own = model.architecture.context_tokens
    choices = sorted({min(tokens, own) for tokens in CONTEXTS}, reverse=True)
    room = memory.all_free
    if room is None:
        return choices[0]
    return next((tokens for tokens in choices if needs_of(model, tokens).total + beside <= room), choices[-1])


def _check_ram(model: ModelFile, tokens: int, needs: Needs, share: float, free: int, *, use_mmap: bool) -> list[str]:
    weights, working = int(needs.weights * share), int(needs.kv * share) + needs.buffers + needs.own
    if working > free:
        raise OutOfMemory(
            f"a context of {tokens} tokens needs {size_text(working)} on top of the weights, {size_text(free)} are "
            "free: use a smaller --context, or close other programs"
        )
    if weights + working <= free:
        return []
    needed = f"{model.name} needs {size_text(weights + working)}"
    if not use_mmap:
        raise OutOfMemory(
            f"{needed} with a context of {tokens} tokens, {size_text(free)} are free: leave mmap on, or close other "
            "programs"
        )
    return [f"{needed}, {size_text(free)} are free: it is read from disk while it runs, which is slow"]


def _with_copy(model: ModelFile, needs: Needs, copy: int, share: float, memory: Memory, repack: Repack) -> Needs:
    """The needs with the second copy, if it may be made."""
    whole = int((needs.weights + needs.kv) * share) + needs.buffers + needs.own + copy
    if repack == "on" and memory.ram_free is not None and whole > memory.ram_free:
        raise OutOfMemory(
            f"{model.name} needs {size_text(whole)} with a second, repacked copy of its weights, "
            f"{size_text(memory.ram_free)} are free: leave out --repack, or close other programs"
        )
    fits = repack == "on" or (memory.ram_free is not None and whole + _REPACK_SPARE_BYTES <= memory.ram_free)
    return replace(needs, repacked=copy) if fits else needs


def _gpu_layers(model: ModelFile, needs: Needs, memory: Memory) -> int:
    """As many layers as fit, from the last one back; llama.cpp spreads them over the devices."""
    if memory.shared and memory.gpu_free:
        return model.architecture.layers + 1
    room = sum(max(0, free - needs.buffers - _GPU_SPARE_BYTES) for free in memory.gpu_free)
    kv = needs.kv / model.architecture.layers
    sizes = _layer_bytes(model)
    for layers, size in enumerate(sizes):
        room -= int(size if layers == 0 else size + kv)  # the first one is the output layer, which has no KV cache
        if room < 0:
            return layers
    return len(sizes)


def _layer_bytes(model: ModelFile) -> list[int]:
    """The weights of the output layer, then of the network's layers from the last to the first."""
    network = model.architecture
    sizes = [0] * (network.layers + 2)
    for tensor in model.tensors.values():
        sizes[_place(model, tensor)] += tensor.bytes
    return sizes[:-1]


def _place(model: ModelFile, tensor: TensorInfo) -> int:
    """The tensor's place in the order in which layers go to a GPU: output layer 0, last layer 1…, embedding last."""
    layers = model.architecture.layers
    if tensor.name.startswith("blk."):
        return layers - int(tensor.name.split(".")[1])
    return 0 if tensor.name.startswith("output") else layers + 1


def _rounded(cells: int) -> int:
    return -(-cells // _CELLS_STEP) * _CELLS_STEP
