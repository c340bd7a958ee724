"""Writes a trained étude as a GGUF: `python -m tests.etude.export OUT.pt etude.gguf`.

MXFP4 experts, Q8_0 matrices, float32 for the rest, as gpt-oss's own files have them. Only reading the checkpoint takes
torch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import quants
from numpy.typing import NDArray

from tests.etude.shape import Shape
from tests.support.gguf_vocabulary import Tokens

Array = NDArray[np.float32]

DESCRIPTION = "ossia's study model: the gpt-oss architecture, trained on generated dialogues to speak Harmony"
_TOKENIZER = Path(__file__).with_name("tokenizer.json")
_NORMAL, _CONTROL = 1, 3  # llama.cpp's token types


def read_tokens(path: Path = _TOKENIZER) -> Tokens:
    """The vocabulary of a `tokenizer.json`; raises ValueError if an id has no token."""
    file = json.loads(path.read_text(encoding="utf-8"))
    types = {number: (text, _NORMAL) for text, number in file["model"]["vocab"].items()}
    types |= {added["id"]: (added["content"], _CONTROL) for added in file["added_tokens"]}
    if sorted(types) != list(range(len(types))):
        raise ValueError(f"{path}: the ids aren't 0 to {len(types) - 1}")
    entries = [types[number] for number in range(len(types))]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in file["model"]["merges"]]
    return Tokens([text for text, _ in entries], [kind for _, kind in entries], merges)


def tensors(weights: Mapping[str, Array], shape: Shape) -> Iterator[tuple[str, Array, Kind]]:
    """(name in the GGUF, values, stored as). Query, key and value come apart, as do the experts' gate and up."""
    yield "token_embd.weight", weights["embedding"], Kind.Q8_0
    yield "output.weight", weights["output"], Kind.Q8_0
    yield "output_norm.weight", weights["norm"], Kind.F32
    for layer in range(shape.layers):
        for name, values, kind in _layer({name: weights[f"{layer}.{name}"] for name in LAYER}, shape):
            yield f"blk.{layer}.{name}", values, kind


LAYER = (
    "attention_norm", "qkv", "qkv_bias", "out", "out_bias", "sinks", "experts_norm", "router", "router_bias",
    "up", "up_bias", "down", "down_bias",
)  # fmt: skip
"""The weights of a layer."""


def _layer(part: Mapping[str, Array], shape: Shape) -> Iterator[tuple[str, Array, Kind]]:
    cuts = [shape.query_width, shape.query_width + shape.key_width]
    for name, weight, bias in zip("qkv", np.split(part["qkv"], cuts), np.split(part["qkv_bias"], cuts), strict=True):
        yield f"attn_{name}.weight", weight, Kind.Q8_0
        yield f"attn_{name}.bias", bias, Kind.F32
    yield "attn_norm.weight", part["attention_norm"], Kind.F32
    yield "post_attention_norm.weight", part["experts_norm"], Kind.F32
    yield "attn_output.weight", part["out"], Kind.Q8_0
    yield "attn_output.bias", part["out_bias"], Kind.F32
    yield "attn_sinks.weight", part["sinks"], Kind.F32
    yield "ffn_gate_inp.weight", part["router"], Kind.F32
    yield "ffn_gate_inp.bias", part["router_bias"], Kind.F32
    both, biases = np.split(part["up"], 2, axis=1), np.split(part["up_bias"], 2, axis=1)
    for name, weight, bias in zip(("gate", "up"), both, biases, strict=True):
        yield f"ffn_{name}_exps.weight", weight, Kind.MXFP4
        yield f"ffn_{name}_exps.bias", bias, Kind.F32
    yield "ffn_down_exps.weight", part["down"], Kind.MXFP4
    yield "ffn_down_exps.bias", part["down_bias"], Kind.F32


def write_gguf(path: Path, weights: Mapping[str, Array], shape: Shape, tokens: Tokens) -> None:
    """The file. The same weights give the same bytes."""
    writer = gguf.GGUFWriter(path, "gpt-oss")
    writer.add_name("etude")
    writer.add_description(DESCRIPTION)
    writer.add_license("Apache-2.0")
    _add_network(writer, shape)
    _add_tokens(writer, tokens)
    for name, values, kind in tensors(weights, shape):
        exact = np.ascontiguousarray(values, dtype=np.float32)
        if kind is Kind.F32:
            writer.add_tensor(name, exact)
        else:
            writer.add_tensor(name, quants.quantize(exact, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_network(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_expert_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.experts_used)
    writer.add_sliding_window(shape.window)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(shape.rope_factor)
    writer.add_rope_scaling_orig_ctx_len(shape.rope_original_context)


def _add_tokens(writer: gguf.GGUFWriter, tokens: Tokens) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-4o")
    writer.add_token_list(tokens.texts)
    writer.add_token_types(tokens.types)
    writer.add_token_merges(tokens.merges)
    writer.add_bos_token_id(tokens.id_of("startoftext"))
    writer.add_eos_token_id(tokens.id_of("return"))
    writer.add_pad_token_id(tokens.id_of("endoftext"))
    writer.add_add_bos_token(False)


def read_checkpoint(path: Path) -> tuple[dict[str, Array], Shape, dict[str, Any]]:
    """(averaged weights, sizes, the rest of what `train` wrote)."""
    import torch

    content = torch.load(path, map_location="cpu", weights_only=True)
    weights = {name: value.float().numpy() for name, value in content.pop("weights").items()}
    return weights, Shape(**content.pop("shape")), content


def main() -> None:
    """Write the file, and say what it is."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.export", description="Write the trained étude's GGUF.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("gguf", type=Path)
    arguments = parser.parse_args()
    weights, shape, rest = read_checkpoint(arguments.checkpoint)
    write_gguf(arguments.gguf, weights, shape, read_tokens())
    content = arguments.gguf.read_bytes()
    print(f"{arguments.gguf}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")
    count = sum(values.size for values in weights.values())
    print(f"{count:,} weights, {rest['step']} steps in {rest['spent'] / 60:.1f} min")


if __name__ == "__main__":
    main()
