"""The plan to load a model: the length of the context, the GPUs' share, or that the model is too large.

An expert is read for one token in eight (gpt-oss-20b) or thirty-two (120b), attention for each: so where not everything
fits, the experts of the first layers stay with the processor before a whole layer does. In llama.cpp these are
`--n-gpu-layers` and `--n-cpu-moe`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final, Literal

from ossia.agent.errors import OutOfMemory, SettingRefused
from ossia.agent.models.gguf_parts import TensorInfo
from ossia.agent.models.memory import Memory, size_text
from ossia.agent.models.model import ModelFile
from ossia.agent.models.needs import (
    CONTEXTS,
    Q8_BLOCK,
    KvType,
    Needs,
    Repack,
    buffer_bytes,
    layer_kv_bytes,
    needs_of,
    reason_against,
    repacked_bytes,
)

_REPACK_SPARE_BYTES: Final = 2_000_000_000  # must stay free for everything else if a second copy is made unasked
_GPU_SPARE_BYTES: Final = 256 << 20  # a driver's own use, and fragmentation
_EXPERTS: Final = re.compile(r"^blk\.(\d+)\.ffn_(?:up|down|gate|gate_up)_(?:ch|)exps")
"""llama.cpp's own pattern (LLM_FFN_EXPS_REGEX of its common.h): weights and biases of the experts."""


@dataclass(frozen=True, slots=True)
class Offload:
    """The share of the GPUs: `Offload(layers=25, cpu_moe=9, split=(), gpu_bytes=(11_023_000_000,), …)`.

    `layers` counts from the last one back, and begins with the output layer: `network.layers + 1` is all. `cpu_moe`:
    the experts of the first `cpu_moe` layers stay in RAM. `split`: how many of `layers` each GPU has, where there are
    several. `gpu_bytes`: what each GPU has to hold, buffers included. `weights` and `kv`: the bytes of these that take
    no RAM.
    """

    layers: int = 0
    cpu_moe: int = 0
    split: tuple[int, ...] = ()
    gpu_bytes: tuple[int, ...] = ()
    weights: int = 0
    kv: int = 0

    def holds(self, tensor: TensorInfo, layers: int) -> bool:
        """True if the tensor, of a network of so many layers, is on a GPU."""
        layer = layer_of(tensor, layers)
        if layer is None or not self.gpu_bytes or layer < layers + 1 - self.layers:
            return False
        return not (is_expert(tensor) and layer < self.cpu_moe)


def offload(
    model: ModelFile,
    memory: Memory,
    *,
    context_tokens: int,
    kv_type: KvType = "f16",
    lanes: int = 1,
    layers: int | None = None,
    cpu_moe: int | None = None,
) -> Offload:
    """Fill the GPUs of `memory`: everything if it fits, else fewer experts, else fewer layers.

    `layers` and `cpu_moe` are what the user asked for; None: as many, and as few, as fit. What was asked for is done
    even if it doesn't fit. A GPU that shares the processor's memory can't use more of it than it reports either.
    """
    network = model.architecture
    parts = _Parts.of(model, context_tokens, kv_type, lanes)
    whole = network.layers + 1
    if not memory.gpu_free:
        return Offload(min(layers or 0, whole), min(cpu_moe or 0, network.layers))
    for count in [min(layers, whole)] if layers is not None else range(whole, 0, -1):
        first = max(0, whole - count)  # the first layer that is on a GPU
        if cpu_moe is not None:
            choices: Sequence[int] = [min(cpu_moe, network.layers)]
        elif layers is None and count < whole:  # all experts were left out already, and it didn't fit
            choices = [network.layers]
        else:
            choices = [0, *range(first + 1, network.layers + 1)]
        for kept in choices:
            split = parts.split(count, kept, memory.gpu_free)
            if split is not None:
                return parts.placed(count, kept, split, memory)
    if layers:
        kept = min(network.layers if cpu_moe is None else cpu_moe, network.layers)
        count = min(layers, whole)
        return parts.placed(count, kept, _shares(count, memory.gpu_free), memory)
    return Offload(0, min(cpu_moe or 0, network.layers))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The bytes of each layer's parts, from the first layer to the output layer, which has only `rest`."""

    rest: tuple[int, ...]
    experts: tuple[int, ...]
    kv: tuple[int, ...]
    buffers: int
    largest_expert: int

    @classmethod
    def of(cls, model: ModelFile, context_tokens: int, kv_type: KvType, lanes: int) -> _Parts:
        network = model.architecture
        rest, experts, largest = [0] * (network.layers + 1), [0] * (network.layers + 1), 0
        for tensor in model.tensors.values():
            layer = layer_of(tensor, network.layers)
            if layer is None:
                continue
            if is_expert(tensor):
                experts[layer] += tensor.bytes
                largest = max(largest, tensor.bytes)
            else:
                rest[layer] += tensor.bytes
        kv = [layer_kv_bytes(network, layer, context_tokens, kv_type, lanes) for layer in range(network.layers)]
        return cls(tuple(rest), tuple(experts), (*kv, 0), buffer_bytes(network, context_tokens, lanes), largest)

    def size(self, layer: int, kept: int) -> int:
        """The bytes of a layer on its GPU, if the experts of the first `kept` layers stay with the processor."""
        return self.rest[layer] + self.kv[layer] + (0 if layer < kept else self.experts[layer])

    def each(self, kept: int) -> int:
        """The bytes that every GPU in use takes besides.

        For a long prompt llama.cpp copies the processor's experts to the GPU, a tensor at a time.
        """
        return self.buffers + (self.largest_expert if kept else 0)

    def split(self, count: int, kept: int, free: Sequence[int]) -> tuple[int, ...] | None:
        """The number of the last `count` layers on each GPU so that all fit; () with one GPU. None: they don't fit.

        By free memory, as llama.cpp shares them; if that doesn't work out, one GPU is filled after the other.
        """
        room = [each - self.each(kept) - _GPU_SPARE_BYTES for each in free]
        sizes = [self.size(layer, kept) for layer in range(len(self.rest) - count, len(self.rest))]
        for shares in (_shares(count, free), _filled(sizes, room)):
            loads = _loads(sizes, shares or (count,))
            if all(load <= most for load, most in zip(loads, room, strict=True) if load):
                return shares
        return None

    def placed(self, count: int, kept: int, split: tuple[int, ...], memory: Memory) -> Offload:
        layers = range(len(self.rest) - count, len(self.rest))
        loads = _loads([self.size(layer, kept) for layer in layers], split or (count,))
        used = tuple(load + self.each(kept) if load else 0 for load in loads)
        kv = sum(self.kv[layer] for layer in layers)
        if memory.shared:
            return Offload(count, kept, split, used)
        return Offload(count, kept, split, used, sum(loads) - kv, kv)


def layer_of(tensor: TensorInfo, layers: int) -> int | None:
    """The tensor's layer: 0 to `layers - 1`, `layers` for the output; None: the embedding, which no GPU gets."""
    if tensor.name.startswith("blk."):
        return int(tensor.name.split(".")[1])
    return layers if tensor.name.startswith("output") else None


def is_expert(tensor: TensorInfo) -> bool:
    """True for a tensor that stays with the processor for `--n-cpu-moe`."""
    return _EXPERTS.search(tensor.name) is not None


def _shares(count: int, free: Sequence[int]) -> tuple[int, ...]:
    """Layers for each GPU by its free memory, as llama.cpp gives them out; () with one GPU."""
    if len(free) == 1:
        return ()
    if not any(free):  # a device without a figure reports 0
        free = [1] * len(free)
    ends = [-(-count * below // sum(free)) for below in accumulate(free, initial=0)]  # layers below each share's end
    return tuple(end - begin for begin, end in pairwise(ends))


def _filled(sizes: Sequence[int], room: Sequence[int]) -> tuple[int, ...]:
    """Layers for each GPU, one filled after the other; the last one gets what is left, whether it fits or not."""
    if len(room) == 1:
        return ()
    shares, at = [], 0
    for most in room[:-1]:
        begin = at
        while at < len(sizes) and sum(sizes[begin : at + 1]) <= most:
            at += 1
        shares.append(at - begin)
    return (*shares, len(sizes) - at)


def _loads(sizes: Sequence[int], shares: Sequence[int]) -> list[int]:
    return [sum(sizes[begin:end]) for begin, end in pairwise(accumulate(shares, initial=0))]


@dataclass(frozen=True, slots=True)
class Plan:
    """The loading plan: `Plan(context_tokens=32768, offload=Offload(layers=25, …), needs=Needs(…))`.

    Each of the `lanes` has a context of `context_tokens`. `repack`: make the second copy, of `needs.repacked` bytes.
    `warnings` are lines for the user.
    """

    context_tokens: int
    offload: Offload
    needs: Needs
    kv_type: KvType = "f16"
    warnings: tuple[str, ...] = ()
    lanes: int = 1

    @property
    def gpu_layers(self) -> int:
        return self.offload.layers

    @property
    def repack(self) -> bool:
        return self.needs.repacked > 0

    @property
    def ram_bytes(self) -> int:
        """The bytes in the processor's memory."""
        return self.needs.total - self.offload.weights - self.offload.kv


def on_gpu(planned: Plan) -> str:
    """`"25 layers on the GPU"`, `"25 layers on the GPU, the experts of the first 9 on the CPU"`."""
    experts = planned.offload.cpu_moe
    rest = f", the experts of the first {experts} on the CPU" if experts and planned.gpu_layers else ""
    return f"{planned.gpu_layers} layers on the GPU{rest}"


def memory_lines(planned: Plan) -> tuple[str, str]:
    """`("memory 13.3 GB, weights not repacked", "weights 12.1 GB, KV cache 0.8 GB, the rest 0.4 GB")`."""
    needs = planned.needs
    parts = [("weights", needs.weights), ("repacked", needs.repacked), ("KV cache", needs.kv)]
    parts.append(("the rest", needs.buffers + needs.own))
    head = f"memory {size_text(needs.total)}{_for_lanes(planned)}, weights {'' if planned.repack else 'not '}repacked"
    return head, ", ".join(f"{name} {size_text(size)}" for name, size in parts if size)


def _for_lanes(planned: Plan) -> str:
    return f" for {planned.lanes} lanes" if planned.lanes > 1 else ""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The user's options for loading; None: the plan decides.

    `context` "max": the model's own. `gpu_layers`: so many, from the last one back; `cpu_moe`: so many, from the first
    on, whose experts stay with the processor. `repack` "auto": a second copy of the weights is made if it fits with
    2 GB to spare and there is no GPU. `lanes`: so many contexts, for conversations that are answered at once.
    """

    context: int | Literal["max"] | None = None
    gpu_layers: int | None = None
    cpu_moe: int | None = None
    kv_type: KvType = "f16"
    repack: Repack = "off"
    lanes: int = 1


def plan(
    model: ModelFile, *, memory: Memory, options: LoadOptions | None = None, processor: frozenset[str] = frozenset()
) -> Plan:
    """Plan to load `model` into `memory`. By default a lane's context is the largest of 32k, 16k, 8k that fits.

    A context longer than the model's own is cut to it, with a warning. Which weights can be repacked depends on
    `processor`. Nothing is loaded here. Raises `OutOfMemory` if KV cache and buffers, or a copy that was asked for,
    don't fit; weights larger than free memory are only a warning (they are read from disk again and again). Raises
    `SettingRefused` for a copy that this build can't make, or a KV cache that this model can't have.
    """
    options = options or LoadOptions()
    _check_options(model, options, processor)
    tokens, warnings = _context(model, memory, options, processor)
    needs = needs_of(model, tokens, options.kv_type, options.lanes)
    put = offload(
        model,
        memory,
        context_tokens=tokens,
        kv_type=options.kv_type,
        lanes=options.lanes,
        layers=options.gpu_layers,
        cpu_moe=options.cpu_moe,
    )
    planned = Plan(tokens, put, needs, options.kv_type, lanes=options.lanes)
    if memory.ram_free is not None:
        warnings += _check_ram(model, planned, memory.ram_free)
    if options.repack == "on" or (options.repack == "auto" and not memory.gpu_free):
        planned = replace(planned, needs=_with_copy(model, planned, memory, options.repack, processor))
    return replace(planned, warnings=tuple(warnings))


def _check_options(model: ModelFile, options: LoadOptions, processor: frozenset[str]) -> None:
    if options.repack == "on" and (reason := reason_against(processor)):
        raise SettingRefused(f"--repack on: {reason}: leave it out")
    head = model.architecture.head_size
    if options.kv_type == "q8_0" and head % Q8_BLOCK:
        raise SettingRefused(
            f"--kv-type q8_0: needs attention heads of a multiple of {Q8_BLOCK} values, {model.name} has {head}: "
            "leave it out"
        )


def _context(
    model: ModelFile, memory: Memory, options: LoadOptions, processor: frozenset[str]
) -> tuple[int, list[str]]:
    own, asked = model.architecture.context_tokens, options.context
    if asked is None:
        copied = options.repack == "on" and not memory.gpu_free
        copy = repacked_bytes(model.tensors.values(), processor) if copied else 0
        return _largest_that_fits(model, memory, options, beside=copy), []
    if asked == "max":
        return own, []
    if asked > own:
        return own, [f"{model.name} has a context of {own} tokens at most: --context {asked} is cut to that"]
    return asked, []


def _largest_that_fits(model: ModelFile, memory: Memory, options: LoadOptions, *, beside: int) -> int:
    own = model.architecture.context_tokens
    choices = sorted({min(tokens, own) for tokens in CONTEXTS}, reverse=True)
    room = memory.all_free
    if room is None:
        return choices[0]

    def fits(tokens: int) -> bool:
        return needs_of(model, tokens, options.kv_type, options.lanes).total + beside <= room

    return next(filter(fits, choices), choices[-1])


def _check_ram(model: ModelFile, planned: Plan, free: int) -> list[str]:
    needs, put, tokens = planned.needs, planned.offload, planned.context_tokens
    working = needs.kv - put.kv + needs.buffers + needs.own
    if working > free:
        what, less = f"a context of {tokens} tokens", "--context"
        if planned.lanes > 1:
            what, less = f"--parallel {planned.lanes}, each with {what},", "--parallel or --context"
        raise OutOfMemory(
            f"{what} needs {size_text(working)} on top of the weights, {size_text(free)} are free: "
            f"use a smaller {less}, or close other programs"
        )
    if planned.ram_bytes <= free:
        return []
    needed = f"{model.name} needs {size_text(planned.ram_bytes)}{_for_lanes(planned)}, {size_text(free)} are free"
    return [f"{needed}: it is read from disk while it runs, which is slow"]


def _with_copy(model: ModelFile, planned: Plan, memory: Memory, repack: Repack, processor: frozenset[str]) -> Needs:
    """The needs with the second copy of what the processor multiplies with, if it may be made."""
    layers = model.architecture.layers
    in_ram = (tensor for tensor in model.tensors.values() if not planned.offload.holds(tensor, layers))
    copy = repacked_bytes(in_ram, processor)
    whole = planned.ram_bytes + copy
    if repack == "on" and memory.ram_free is not None and whole > memory.ram_free:
        raise OutOfMemory(
            f"{model.name} needs {size_text(whole)} with a second, repacked copy of its weights, "
            f"{size_text(memory.ram_free)} are free: leave out --repack, or close other programs"
        )
    may = repack == "on" or (memory.ram_free is not None and whole + _REPACK_SPARE_BYTES <= memory.ram_free)
    return replace(planned.needs, repacked=copy) if may else planned.needs
