"""The parts of a model for the GPUs.

An expert is read for one token in eight (gpt-oss-20b) or thirty-two (120b), attention for each: so where not everything
fits, the experts of the first layers stay with the processor before a whole layer does. In llama.cpp these are
`--n-gpu-layers` and `--n-cpu-moe`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from ossia.agent.models.gguf_parts import TensorInfo
from ossia.agent.models.memory import Memory
from ossia.agent.models.model import ModelFile
from ossia.agent.models.needs import KvType, buffer_bytes, layer_kv_bytes

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
    layers: int | None = None,
    cpu_moe: int | None = None,
) -> Offload:
    """Fill the GPUs of `memory`: everything if it fits, else fewer experts, else fewer layers.

    `layers` and `cpu_moe` are what the user asked for; None: as many, and as few, as fit. What was asked for is done
    even if it doesn't fit. A GPU that shares the processor's memory can't use more of it than it reports either.
    """
    network = model.architecture
    parts = _Parts.of(model, context_tokens, kv_type)
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
    def of(cls, model: ModelFile, context_tokens: int, kv_type: KvType) -> _Parts:
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
        kv = [layer_kv_bytes(network, layer, context_tokens, kv_type) for layer in range(network.layers)]
        return cls(tuple(rest), tuple(experts), (*kv, 0), buffer_bytes(network, context_tokens), largest)

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
