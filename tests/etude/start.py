"""Weights to go on from: those of a GGUF, under the vocabulary that training has now, with no torch.

    weights, shape = started(Path("agent/models/etude.gguf"), vocabulary_of(read_tokens()))

Tokens are told by their text: one that both vocabularies have keeps its rows, whatever its id. A new one is read as the
last of the tokens that spelled it, and said as their mean: with 234 new ones the shipped model had 97.2 % of tokens
right before it learnt on (loss 0.28; read as the mean, too: 97.0 %, 0.35; said as the last, too: 97.2 %, 0.44).
Experts may be given more hidden units, which say nothing at first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
from gguf import quants

from ossia.agent.models.gguf import read_header
from ossia.agent.models.gpt_oss import check_gpt_oss, read_vocabulary
from ossia.harmony.tokenizer import Vocabulary, vocabulary_from_byte_level
from tests.etude.export import LAYER, Array
from tests.etude.shape import Shape
from tests.support.gguf_vocabulary import Tokens


def started(
    path: Path, vocabulary: Vocabulary, hidden: int | None = None, seed: int = 0
) -> tuple[dict[str, Array], Shape]:
    """A model's weights by the names that training has, and its sizes with this vocabulary.

    `hidden`: of an expert; None: as many as the model has.
    """
    weights, shape, old = read_model(path)
    numbers = {text: number for number, text in enumerate(_texts(old))}
    spelled = [_spelled(text, numbers) for text in _texts(vocabulary)]
    weights["embedding"] = weights["embedding"][[parts[-1] for parts in spelled]]
    weights["output"] = np.stack([weights["output"][parts].mean(0) for parts in spelled])
    shape = replace(shape, vocabulary=vocabulary.size)
    return _widened(weights, shape, shape.hidden if hidden is None else hidden, seed)


def vocabulary_of(tokens: Tokens) -> Vocabulary:
    """The same as bytes."""
    return vocabulary_from_byte_level(tokens.texts, token_types=tokens.types)


def read_model(path: Path) -> tuple[dict[str, Array], Shape, Vocabulary]:
    """What `export.write_gguf` has written: weights as they were rounded, so that written again they give its bytes."""
    header = read_header(path)
    sizes, vocabulary = check_gpt_oss(header), read_vocabulary(header)
    found = ((name, entry.value) for name, entry in header.metadata.items())
    facts = {name.removeprefix("gpt-oss."): value for name, value in found if isinstance(value, int | float)}
    shape = Shape(
        vocabulary.size, sizes.embedding, sizes.layers, sizes.heads, sizes.kv_heads, sizes.head_size, sizes.experts,
        sizes.experts_used, sizes.expert_size, sizes.window, sizes.context_tokens,
        rope_base=float(facts["rope.freq_base"]),
        rope_factor=float(facts["rope.scaling.factor"]),
        rope_original_context=int(facts["rope.scaling.original_context_length"]),
        epsilon=float(facts["attention.layer_norm_rms_epsilon"]),
    )  # fmt: skip
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    read = {name: quants.dequantize(tensor.data, tensor.tensor_type) for name, tensor in stored.items()}
    weights = {"embedding": read["token_embd.weight"], "output": read["output.weight"]}
    weights["norm"] = read["output_norm.weight"]
    for layer in range(shape.layers):
        start = f"blk.{layer}."
        part = {name.removeprefix(start): value for name, value in read.items() if name.startswith(start)}
        weights |= {f"{layer}.{name}": _joined(part, name) for name in LAYER}
    return {name: np.array(value, dtype=np.float32) for name, value in weights.items()}, shape, vocabulary


_PARTS: Mapping[str, tuple[tuple[str, ...], int]] = {
    "qkv": (("attn_q.weight", "attn_k.weight", "attn_v.weight"), 0),
    "qkv_bias": (("attn_q.bias", "attn_k.bias", "attn_v.bias"), 0),
    "attention_norm": (("attn_norm.weight",), 0),
    "experts_norm": (("post_attention_norm.weight",), 0),
    "out": (("attn_output.weight",), 0),
    "out_bias": (("attn_output.bias",), 0),
    "sinks": (("attn_sinks.weight",), 0),
    "router": (("ffn_gate_inp.weight",), 0),
    "router_bias": (("ffn_gate_inp.bias",), 0),
    "up": (("ffn_gate_exps.weight", "ffn_up_exps.weight"), 1),
    "up_bias": (("ffn_gate_exps.bias", "ffn_up_exps.bias"), 1),
    "down": (("ffn_down_exps.weight",), 0),
    "down_bias": (("ffn_down_exps.bias",), 0),
}
"""What a layer's weights are called in the file, and along which axis they are joined: `export` takes them apart."""


def _joined(part: Mapping[str, Array], name: str) -> Array:
    names, axis = _PARTS[name]
    return np.concatenate([part[name] for name in names], axis)


def _texts(vocabulary: Vocabulary) -> list[bytes]:
    """Of each id; a control token's is its name."""
    texts = list(vocabulary.tokens)
    for name, number in vocabulary.control.items():
        texts[number] = name.encode()
    return texts


def _spelled(text: bytes, numbers: Mapping[bytes, int]) -> list[int]:
    """The token itself, or the longest ones that make it up, from its beginning on."""
    found: list[int] = []
    while text:
        end = next(end for end in range(len(text), 0, -1) if text[:end] in numbers)
        found.append(numbers[text[:end]])
        text = text[end:]
    return found


def _widened(weights: dict[str, Array], shape: Shape, hidden: int, seed: int) -> tuple[dict[str, Array], Shape]:
    """Experts with more hidden units: these read as fresh ones do, and nothing is said by them yet."""
    if hidden == shape.hidden:
        return weights, shape
    random, more = np.random.default_rng(seed), hidden - shape.hidden
    wider = dict(weights)
    for layer in range(shape.layers):
        up, bias, down = (weights[f"{layer}.{name}"] for name in ("up", "up_bias", "down"))
        fresh = random.normal(0, shape.width**-0.5, (shape.experts, 2, more, shape.width)).astype(np.float32)
        halves = up.reshape(shape.experts, 2, shape.hidden, shape.width)
        wider[f"{layer}.up"] = np.concatenate([halves, fresh], 2).reshape(shape.experts, 2 * hidden, shape.width)
        halves = np.pad(bias.reshape(shape.experts, 2, shape.hidden), ((0, 0), (0, 0), (0, more)))
        wider[f"{layer}.up_bias"] = halves.reshape(shape.experts, 2 * hidden)
        wider[f"{layer}.down"] = np.pad(down, ((0, 0), (0, 0), (0, more)))
    return wider, replace(shape, hidden=hidden)
