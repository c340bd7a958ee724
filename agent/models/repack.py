"""Weights copied into the order in which a processor reads them: which ones llama.cpp copies, and the copy's size.

llama.cpp calls this repacking. The copy is in memory in addition to the file, which stays mapped. Making it reads the
whole file: it took 38 s for gpt-oss-20b's 10.2 GB of experts on two cores, whose prefill is then a third faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from ossia.agent.models.gguf_parts import TensorInfo

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
    """The size of the second copy of these tensors, in bytes; 0 if none of them is repacked.

    `processor`: what llama.cpp uses of it (`agent.engine.llama.processor_features`). A tensor that is only looked up
    (`token_embd`) isn't repacked.
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
