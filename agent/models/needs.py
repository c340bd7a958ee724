"""The memory a model takes: its weights, the KV cache, llama.cpp's buffers, and this process itself.

`python -m tests.oracle.plan` compares these numbers with what llama.cpp reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ossia.agent.models.gguf_parts import TensorInfo
from ossia.agent.models.gpt_oss import Architecture
from ossia.agent.models.memory import Memory
from ossia.agent.models.model import ModelFile

KvType = Literal["f16", "q8_0"]
"""The form of the KV cache. q8_0 takes half the memory of f16, and rounds more coarsely."""

CONTEXTS: Final = (32_768, 16_384, 8_192)
"""The contexts that are tried, in tokens, when none is asked for."""
BATCH_TOKENS: Final = 512
"""The engine's batch size: the window's KV cells and the buffers grow with it."""
Q8_BLOCK: Final = 32
"""Values in a block of q8_0: a head must hold whole blocks."""

_CELLS_STEP: Final = 256  # llama.cpp rounds a context and a window's cache up to this
_BLOCK_BYTES: Final = {"f16": 64, "q8_0": 34}  # of 32 values
_FIXED_BYTES: Final = 1 << 17
_OWN_BYTES: Final = 50_000_000  # resident with `ossia run` and the étude, beside weights, cache and buffers
_OWN_ID_BYTES: Final = 770  # more for each id of a vocabulary; both were measured with Python 3.11 on Linux


@dataclass(frozen=True, slots=True)
class Needs:
    """A run's memory in bytes: weights, KV cache, compute and output buffers; `repacked`: the weights' second copy.

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


def needs_of(model: ModelFile, context_tokens: int, kv_type: KvType = "f16", lanes: int = 1) -> Needs:
    """The needs of `model` with a context of so many tokens in each lane.

    gpt-oss-20b, 32768: 12.1 GB, 0.8 GB, 0.1 GB, 0.2 GB; in 4 lanes: 12.1 GB, 3.2 GB, 0.2 GB, 0.2 GB.
    """
    return Needs(
        model.weight_bytes,
        kv_bytes(model.architecture, context_tokens, kv_type, lanes),
        buffer_bytes(model.architecture, context_tokens, lanes),
        _OWN_BYTES + _OWN_ID_BYTES * model.architecture.vocabulary_size,
    )


def fits(model: ModelFile, memory: Memory) -> bool:
    """Do weights, buffers and the shortest context fit into memory, so that the disk isn't read over and over?"""
    shortest = min(CONTEXTS[-1], model.architecture.context_tokens)
    return memory.all_free is None or needs_of(model, shortest).total <= memory.all_free


def kv_bytes(network: Architecture, context_tokens: int, kv_type: KvType = "f16", lanes: int = 1) -> int:
    """The KV cache in bytes, as llama.cpp lays it out: odd layers keep the whole context, even ones their window."""
    return sum(layer_kv_bytes(network, layer, context_tokens, kv_type, lanes) for layer in range(network.layers))


def layer_kv_bytes(network: Architecture, layer: int, context_tokens: int, kv_type: KvType, lanes: int = 1) -> int:
    """The part of the KV cache that one layer has for all lanes; `layer` counts from 0."""
    full, window = _cells(network, context_tokens, lanes)
    values = 2 * network.kv_heads * network.head_size  # keys and values
    return (full if layer % 2 else window) * values * _BLOCK_BYTES[kv_type] // Q8_BLOCK


def buffer_bytes(network: Architecture, context_tokens: int, lanes: int = 1) -> int:
    """The compute and output buffers: a batch's values in experts and attention, its masks, and each lane's logits.

    With flash attention, which llama.cpp takes wherever the device can. llama.cpp 0.3.36 took 98, 126 and 222 MiB for
    gpt-oss-20b's shapes at 4k, 32k and 128k (the same for 120b); this function returns as much.
    """
    inner, heads = network.experts_used * network.expert_size, network.heads * network.head_size
    widest = max(3 * inner, 2 * inner + network.experts_used * network.embedding)
    values = 4 * (widest + 3 * network.embedding + heads)
    cells, logits = _cells(network, context_tokens, lanes), 4 * network.vocabulary_size * lanes
    return min(BATCH_TOKENS, cells[0]) * (values + 2 * sum(cells)) + logits + _FIXED_BYTES


def _cells(network: Architecture, context_tokens: int, lanes: int) -> tuple[int, int]:
    """The number of tokens in the cache of an odd layer, and of an even one, which all lanes share (`kv_unified`)."""
    full = _rounded(context_tokens * lanes)
    return full, _rounded(min(full, network.window * lanes + BATCH_TOKENS))


def _rounded(cells: int) -> int:
    return -(-cells // _CELLS_STEP) * _CELLS_STEP


# -- the second copy ---------------------------------------------------------------------------------------------------

Repack = Literal["auto", "on", "off"]

# `ggml_repack_get_optimal_repack_type` of llama.cpp 0.3.36's ggml-cpu/repack.cpp: (a feature of the processor, the
# number that the rows must be a multiple of, the kinds of tensors).
_REPACKED: Final = (
    ("AVX2", 8, frozenset(("Q4_0", "Q4_K", "IQ4_NL", "MXFP4"))),
    ("AVX512", 8, frozenset(("Q2_K",))),
    ("DOTPROD", 8, frozenset(("Q4_K", "Q5_K", "Q6_K"))),
    ("DOTPROD", 4, frozenset(("Q4_0", "IQ4_NL", "MXFP4", "Q8_0"))),
)
_AMX: Final = "AMX_INT8"


def repacked_bytes(tensors: Iterable[TensorInfo], processor: frozenset[str]) -> int:
    """The size of the second copy of these tensors, in the order in which a processor reads them; 0: none is copied.

    llama.cpp calls this repacking. Making the copy reads the whole file: it took 38 s for gpt-oss-20b's 10.2 GB of
    experts on two cores, whose prefill is then a third faster. `processor`: what llama.cpp uses of it
    (`agent.engine.llama.processor_features`). A tensor that is only looked up (`token_embd`) isn't repacked.
    """
    if reason_against(processor):
        return 0
    return sum(tensor.bytes for tensor in tensors if _is_repacked(tensor, processor))


def reason_against(processor: frozenset[str]) -> str | None:
    """The reason that this build of llama.cpp can't repack anything; None: it can.

    On a processor with AMX, llama.cpp compiled by GCC 12 ends the process (an illegal instruction) as soon as it
    multiplies with Q8_0 weights: that compiler assumes that `_tile_loadconfig` reads 8 bytes of the 64, so the rest is
    never set. (llama-bench, built by it, ends the same way unless it gets `--repack 0`.) Without the "extra" buffers
    llama.cpp uses its AVX-512 code. These buffers also rearrange MXFP4 experts; that alone (`tensor_buft_overrides`)
    took a quarter off a 0.8 GB model's prefill, and nothing off a token.
    """
    if _AMX in processor:
        return "llama.cpp was built for a processor with AMX, where repacking can crash it"
    return None if "REPACK" in processor else "llama.cpp was built without repacking"


def _is_repacked(tensor: TensorInfo, processor: frozenset[str]) -> bool:
    if len(tensor.shape) < 2 or tensor.name == "token_embd.weight":
        return False
    return any(
        feature in processor and tensor.kind in kinds and tensor.shape[1] % rows == 0
        for feature, rows, kinds in _REPACKED
    )
