"""What of the étude's recipe needs no torch: its vocabulary and weights, written as the file that ossia loads."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import quants

from ossia.agent.engine.base import Prompt
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gpt_oss import Architecture, check_gpt_oss, read_vocabulary
from tests.etude.export import Array, read_tokens, tensors, write_gguf
from tests.etude.shape import Shape
from tests.support.engines import generate, load_engine

pytestmark = pytest.mark.own_job

TOKENS = read_tokens()
SMALL = Shape(len(TOKENS.texts), width=64, layers=2, heads=4, kv_heads=2, head_width=32, experts=4, hidden=32)


def random_weights(shape: Shape, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    rows = shape.query_width + 2 * shape.key_width
    experts, hidden, width = shape.experts, shape.hidden, shape.width
    sizes: dict[str, tuple[int, ...]] = {
        "embedding": (shape.vocabulary, width),
        "output": (shape.vocabulary, width),
        "norm": (width,),
    }
    for layer in range(shape.layers):
        part: dict[str, tuple[int, ...]] = {
            "attention_norm": (width,), "qkv": (rows, width), "qkv_bias": (rows,),
            "out": (width, shape.query_width), "out_bias": (width,), "sinks": (shape.heads,),
            "experts_norm": (width,), "router": (experts, width), "router_bias": (experts,),
            "up": (experts, 2 * hidden, width), "up_bias": (experts, 2 * hidden),
            "down": (experts, width, hidden), "down_bias": (experts, width),
        }  # fmt: skip
        sizes |= {f"{layer}.{name}": size for name, size in part.items()}
    return {name: random.normal(0, 0.2, size).astype(np.float32) for name, size in sizes.items()}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("etude") / "small.gguf"
    write_gguf(path, random_weights(SMALL), SMALL, TOKENS)
    return path


def test_the_file_is_one_that_ossia_runs(small: Path) -> None:
    header = read_header(small)

    assert check_gpt_oss(header) == Architecture(
        layers=2, embedding=64, heads=4, kv_heads=2, head_size=32, experts=4, experts_used=2, expert_size=32,
        window=128, context_tokens=4096, vocabulary_size=len(TOKENS.texts),
    )  # fmt: skip
    assert read_vocabulary(header).control["<|call|>"] == TOKENS.id_of("call")
    texts = {name: header.metadata[f"general.{name}"].value for name in ("name", "license")}
    assert texts == {"name": "etude", "license": "Apache-2.0"}
    engine = load_engine(small)
    assert len(generate(engine, Prompt(tuple(range(300))), 5)) == 5
    engine.close()


def test_every_weight_stands_where_llama_cpp_looks_for_it(small: Path) -> None:
    weights = random_weights(SMALL)
    found = gguf.GGUFReader(small).tensors
    read = {tensor.name: quants.dequantize(tensor.data, tensor.tensor_type) for tensor in found}

    def stored(name: str, value: Array, tolerance: float) -> bool:
        return read[name].shape == value.shape and bool(np.allclose(read[name], value, atol=tolerance))

    near, rough = 0.01, 0.25  # Q8_0: 1/127 of a block's largest; MXFP4: up to a third of it
    assert stored("token_embd.weight", weights["embedding"], near)
    assert stored("blk.1.attn_q.weight", weights["1.qkv"][:128], near)
    assert stored("blk.1.attn_k.weight", weights["1.qkv"][128:192], near)
    assert stored("blk.1.attn_v.bias", weights["1.qkv_bias"][192:], 0)
    assert stored("blk.0.ffn_gate_exps.weight", weights["0.up"][:, :32], rough)
    assert stored("blk.0.ffn_up_exps.bias", weights["0.up_bias"][:, 32:], 0)
    assert not stored("blk.0.ffn_up_exps.weight", weights["0.up"][:, :32], rough)
    assert stored("blk.0.ffn_down_exps.weight", weights["0.down"], rough)
    assert stored("blk.0.post_attention_norm.weight", weights["0.experts_norm"], 0)
    assert stored("blk.0.attn_sinks.weight", weights["0.sinks"], 0)
    assert len(read) == len(list(tensors(weights, SMALL))) == 3 + 2 * 19


def test_the_same_weights_give_the_same_bytes(small: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "again.gguf", random_weights(SMALL), SMALL, TOKENS)

    assert (tmp_path / "again.gguf").read_bytes() == small.read_bytes()


def test_a_file_of_the_full_size_stays_below_6_megabytes(tmp_path: Path) -> None:
    shape = Shape(len(TOKENS.texts))
    write_gguf(tmp_path / "full.gguf", random_weights(shape), shape, TOKENS)

    assert (tmp_path / "full.gguf").stat().st_size < 6_000_000


def test_a_vocabulary_with_a_gap_is_refused(tmp_path: Path) -> None:
    file: dict[str, object] = {"model": {"vocab": {"a": 0, "b": 2}, "merges": [["a", "b"]]}, "added_tokens": []}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(file))
    with pytest.raises(ValueError, match="the ids aren't 0 to 1"):
        read_tokens(path)

    file["added_tokens"] = [{"id": 1, "content": "<|end|>"}]
    path.write_text(json.dumps(file))
    tokens = read_tokens(path)
    assert (tokens.texts, tokens.types, tokens.merges) == (["a", "<|end|>", "b"], [1, 3, 1], ["a b"])
