"""The sizes of the étude's network, and which of its weights are experts: what training and export both need, without
torch.
"""

from __future__ import annotations

from dataclasses import dataclass

SLAB = 128  # tokens: the sliding window, and what lengths are padded to in training


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a network; a GGUF has them as `gpt-oss.*`. `Shape(2726, hidden=192)` is the étude's."""

    vocabulary: int
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 64
    experts: int = 8
    experts_used: int = 2
    hidden: int = 128  # of an expert
    window: int = SLAB
    context: int = 4096
    rope_base: float = 150000.0
    rope_factor: float = 32.0
    rope_original_context: int = 4096
    epsilon: float = 1e-5

    @property
    def query_width(self) -> int:
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        return self.kv_heads * self.head_width


def is_expert(name: str) -> bool:
    """Whether a weight is stored as MXFP4: `"0.up"`, `"0.down"`."""
    return name.endswith((".up", ".down"))
