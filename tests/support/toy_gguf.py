"""Writes small gpt-oss GGUFs with random weights: the real architecture, no trained behaviour.

    write_toy_gguf(tmp_path / "toy.gguf")                               # 256 byte tokens, "th", 9 control tokens
    write_toy_gguf(tmp_path / "real.gguf", vocabulary="real")           # gpt-oss's 201,088 entries (about 2 s, 65 MB)
    write_toy_gguf(tmp_path / "bad.gguf", omit=("gpt-oss.expert_count",))
    write_toy_gguf(tmp_path / "llama.gguf", override={"general.architecture": "llama"})

As a command it writes one for a look: `python -m tests.support.toy_gguf toy.gguf [real]`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, quants
from numpy.typing import NDArray

from tests.support.gguf_vocabulary import real_tokens, small_tokens, tokenizer_keys

_Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Shape:
    layers: int
    embd: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    experts: int
    vocabulary: int


def write_toy_gguf(
    path: Path,
    *,
    vocabulary: Literal["small", "real"] = "small",
    layers: int = 2,
    embd: int = 64,
    heads: int = 2,
    window: int = 128,
    experts: int = 4,
    context: int = 4096,
    seed: int = 0,
    quantized: bool = True,
    omit: Collection[str] = (),
    override: Mapping[str, object] | None = None,
) -> Path:
    """Write a random gpt-oss GGUF to `path`, which is returned. The same arguments give the same bytes.

    `embd` is a multiple of 32; heads have 32 dimensions and share one KV head by twos; `context` is what the header
    says. `quantized`: MXFP4 experts as in the real file; without it all is F32 (llama.cpp then rounds no activations,
    so two ways to one position agree much better). `omit` names keys or tensors to leave out, `override` gives keys
    another value (a new key may be added; a tensor of another shape is an array).
    """
    override = dict(override or {})
    tokens = real_tokens() if vocabulary == "real" else small_tokens()
    shape = _Shape(layers, embd, heads, max(1, heads // 2), 32, 64, experts, len(tokens.texts))
    arch = str(override.pop("general.architecture", "gpt-oss"))
    writer = gguf.GGUFWriter(path, arch)
    keys = _network_keys(arch, shape, window, context) | tokenizer_keys(tokens)
    keys["tokenizer.ggml.add_bos_token"] = False
    tensors = _tensors(shape, np.random.default_rng(seed))
    tensors |= {name: value for name, value in override.items() if isinstance(value, np.ndarray)}
    keys |= {name: value for name, value in override.items() if not isinstance(value, np.ndarray)}
    for name, value in keys.items():
        if name not in omit:
            add_key(writer, name, value)
    for name, array in tensors.items():
        if name not in omit:
            _add_tensor(writer, name, array, quantized)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _network_keys(arch: str, shape: _Shape, window: int, context: int) -> dict[str, object]:
    # Without expert_count or expert_used_count llama.cpp aborts the process; without most others it refuses the file.
    values = {
        "context_length": context,
        "embedding_length": shape.embd,
        "block_count": shape.layers,
        "feed_forward_length": shape.ff,
        "expert_feed_forward_length": shape.ff,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_dim,
        "attention.value_length": shape.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.sliding_window": window,
        "expert_count": shape.experts,
        "expert_used_count": min(2, shape.experts),
        "rope.freq_base": 150000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 32.0,
        "rope.scaling.original_context_length": 4096,
    }
    return {"general.name": "toy"} | {f"{arch}.{name}": value for name, value in values.items()}


def add_key(writer: gguf.GGUFWriter, name: str, value: object) -> None:
    """Set a key; its type follows from the value: a whole number is a u32 (i64 if it is negative or larger)."""
    if isinstance(value, list):
        sub_type = GGUFValueType.INT32 if value and isinstance(value[0], int) else None
        writer.add_key_value(name, value, GGUFValueType.ARRAY, sub_type)
    elif isinstance(value, bool) or not isinstance(value, int):
        writer.add_key_value(name, value, GGUFValueType.get_type(value))
    else:
        writer.add_key_value(name, value, GGUFValueType.UINT32 if 0 <= value < 2**32 else GGUFValueType.INT64)


def _add_tensor(writer: gguf.GGUFWriter, name: str, array: Any, quantized: bool) -> None:
    array = np.ascontiguousarray(array, np.float32)
    if quantized and name.endswith("_exps.weight"):
        kind = GGMLQuantizationType.MXFP4
        writer.add_tensor(name, quants.quantize(array, kind), raw_dtype=kind)
    elif quantized and name in ("token_embd.weight", "output.weight"):
        writer.add_tensor(name, array.astype(np.float16))
    else:
        writer.add_tensor(name, array)


def _tensors(shape: _Shape, random: np.random.Generator) -> dict[str, _Array]:
    def normal(*size: int, std: float = 0.1) -> _Array:
        return random.standard_normal(size, np.float32) * np.float32(std)

    def matrix(out: int, inp: int, gain: float, *stack: int) -> _Array:
        return normal(*stack, out, inp, std=gain / inp**0.5)

    d, ff, n = shape.embd, shape.ff, shape.experts
    q_rows, kv_rows = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    tensors = {
        "token_embd.weight": normal(shape.vocabulary, d, std=1.0),
        "output.weight": matrix(shape.vocabulary, d, 3.0),
        "output_norm.weight": 1 + normal(d),
    }
    for layer in range(shape.layers):
        # Gains chosen so that attention is sharp and has as much to say as the residual stream: what lies in the KV
        # cache, near or far, moves the logits by more than their rounding.
        block = {
            "attn_norm.weight": 1 + normal(d),
            "post_attention_norm.weight": 1 + normal(d),
            "attn_q.weight": matrix(q_rows, d, 1.2),
            "attn_q.bias": normal(q_rows),
            "attn_k.weight": matrix(kv_rows, d, 1.2),
            "attn_k.bias": normal(kv_rows),
            "attn_v.weight": matrix(kv_rows, d, 2.0),
            "attn_v.bias": normal(kv_rows),
            "attn_output.weight": matrix(d, q_rows, 2.0),
            "attn_output.bias": normal(d),
            "attn_sinks.weight": normal(shape.heads, std=0.5),
            "ffn_gate_inp.weight": matrix(n, d, 2.0),
            "ffn_gate_inp.bias": normal(n),
            "ffn_gate_exps.weight": matrix(ff, d, 1.0, n),
            "ffn_gate_exps.bias": normal(n, ff),
            "ffn_up_exps.weight": matrix(ff, d, 1.0, n),
            "ffn_up_exps.bias": normal(n, ff),
            "ffn_down_exps.weight": matrix(d, ff, 1.0, n),
            "ffn_down_exps.bias": normal(n, d),
        }
        tensors |= {f"blk.{layer}.{name}": array for name, array in block.items()}
    return tensors


if __name__ == "__main__":
    write_toy_gguf(Path(sys.argv[1]), vocabulary="real" if "real" in sys.argv[2:] else "small")
