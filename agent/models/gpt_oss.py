"""The check that a GGUF holds a gpt-oss network that llama.cpp loads without ending the process, and its facts.

llama.cpp answers most faults of a file with an error, but some with `abort()` (a missing expert count, a token that
comes twice) and some with a silently different network (a missing bias, a missing rope setting). All of these are
refused here. `python -m tests.oracle.gguf_fuzz` looks for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ossia.agent.errors import ModelUnusable
from ossia.agent.models.gguf_parts import GgufHeader, StringArray, TensorInfo
from ossia.harmony.errors import VocabularyError
from ossia.harmony.tokenizer import Vocabulary, vocabulary_from_byte_level
from ossia.harmony.tokens import ControlTokens

ARCHITECTURE: Final = "gpt-oss"
_MAX_TOKENS: Final = 1 << 18  # gpt-oss has 201,088
_NEXT_STEP: Final = "get a whole gpt-oss model: ossia models pull gpt-oss-20b"

# Required; (low, high). A high is llama.cpp's if it has one, else it is far above any model.
_INTEGERS: Final = {
    "context_length": (1, 1 << 24),
    "embedding_length": (32, 1 << 16),
    "block_count": (1, 512),
    "attention.head_count": (1, 1 << 12),
    "attention.sliding_window": (1, 1 << 24),
    "expert_count": (1, 1024),
    "expert_used_count": (1, 1024),
    "expert_feed_forward_length": (32, 1 << 20),
    "rope.scaling.original_context_length": (1, 1 << 24),
}
_FLOATS: Final = {
    "attention.layer_norm_rms_epsilon": (1e-12, 0.1),
    "rope.freq_base": (1.0, 1e12),
    "rope.scaling.factor": (1.0, 1e6),
}
_OPTIONAL_FLOATS: Final = {
    "rope.freq_base_swa": (1.0, 1e12),
    "rope.scaling.attn_factor": (1e-3, 1e3),
    "rope.scaling.alpha": (0.0, 1e6),
    "rope.scale_linear": (1.0, 1e6),
}
# Keys that llama.cpp would read but gpt-oss doesn't have: they must be absent, or change nothing.
_NEUTRAL: Final[Mapping[str, object]] = {
    "attention.causal": True,
    "pooling_type": 0,
    "nextn_predict_layers": 0,
    "expert_group_count": 0,
    "expert_group_used_count": 0,
    "attention.sliding_window_pattern": 2,
}
_ABSENT: Final = ("embedding_length_out", "classifier.output_labels")

# The types that llama.cpp can multiply with on every backend: not Q8_1 and Q8_K (for activations), nor the integers.
_MATRIX_KINDS: Final = frozenset(
    (
        *("F32", "F16", "BF16", "MXFP4", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"),
        *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_XXS"),
        *("IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0"),
    )
)
_VECTOR_KINDS: Final = frozenset(("F32",))

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4  # llama.cpp's token types


@dataclass(frozen=True, slots=True)
class Architecture:
    """The network's dimensions. Even layers see the last `window` tokens, odd ones see all. For gpt-oss-20b:

    `Architecture(layers=24, embedding=2880, heads=64, kv_heads=8, head_size=64, experts=32, experts_used=4,
    expert_size=2880, window=128, context_tokens=131072, vocabulary_size=201088)`
    """

    layers: int
    embedding: int
    heads: int
    kv_heads: int
    head_size: int
    experts: int
    experts_used: int
    expert_size: int
    window: int
    context_tokens: int
    vocabulary_size: int


def check_gpt_oss(header: GgufHeader, tensors: Mapping[str, TensorInfo] | None = None) -> Architecture:
    """The network's dimensions, after a check that llama.cpp gets all it needs and nothing that it can't handle.

    `tensors` are those of all files of a split model; None: the header's own. Raises `ModelUnusable`, which names the
    first fault.
    """
    keys = _Keys(header)
    found = keys.text("general.architecture")
    if found != ARCHITECTURE:
        own = " (Ollama's own form of it, which llama.cpp can't read)" if found == "gptoss" else ""
        raise ModelUnusable(
            f"{header.path}: its architecture is {found!r}{own}, ossia runs only {ARCHITECTURE}; {_NEXT_STEP}"
        )
    network = _network(keys)
    _check_rope(keys, network)
    _check_neutral(keys)
    _check_vocabulary(keys, header)
    _check_tensors(keys, network, header.tensors if tensors is None else tensors)
    return network


def read_vocabulary(header: GgufHeader) -> Vocabulary:
    """The vocabulary in a checked header. It can write every text, and it has Harmony's control tokens.

    Raises `ModelUnusable` if not. gpt-oss's 201,088 tokens take about 0.1 s.
    """
    keys = _Keys(header)
    try:
        vocabulary = vocabulary_from_byte_level(keys.tokens(), token_types=keys.types().tolist())
        ControlTokens.of(vocabulary.control)
    except VocabularyError as error:
        raise ModelUnusable(f"{header.path}: {error}") from error
    missing = 256 - list(map(len, vocabulary.tokens)).count(1)  # no token comes twice
    if missing:
        raise keys.fault(f"its vocabulary lacks {missing} of the 256 single bytes")
    return vocabulary


class _Keys:
    """Typed access to the metadata: raises `ModelUnusable` for a value that is missing, mistyped or out of range."""

    def __init__(self, header: GgufHeader) -> None:
        self._header = header

    def fault(self, what: str) -> ModelUnusable:
        return ModelUnusable(f"{self._header.path}: not a gpt-oss model that can be run: {what}; {_NEXT_STEP}")

    def get(self, key: str, *kinds: str) -> object | None:
        entry = self._header.metadata.get(key)
        if entry is not None and entry.kind not in kinds:
            raise self.fault(f"{key} must have the type {' or '.join(kinds)}, not {entry.kind}")
        return None if entry is None else entry.value

    def need(self, key: str, *kinds: str) -> object:
        value = self.get(key, *kinds)
        if value is None:
            raise self.fault(f"{key} is missing")
        return value

    def text(self, key: str) -> str:
        return str(self.need(key, "str"))

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.need(key, "u32") if default is None or self.has(key) else default
        if not isinstance(value, int) or not low <= value <= high:
            raise self.fault(f"{key} must be from {low} to {high}, not {value!r}")
        return value

    def number(self, key: str, low: float, high: float) -> None:
        value = self.need(key, "f32")
        if not isinstance(value, float) or not low <= value <= high:  # also false for NaN
            raise self.fault(f"{key} must be from {low:g} to {high:g}, not {value!r}")

    def texts(self, key: str) -> StringArray:
        value = self.need(key, "str[]")
        assert isinstance(value, StringArray)
        return value

    def tokens(self) -> list[str]:
        try:
            return self.texts("tokenizer.ggml.tokens").texts()
        except ValueError as error:
            raise self.fault("a token of its vocabulary isn't UTF-8, or holds a zero byte") from error

    def types(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        value = self.need("tokenizer.ggml.token_type", "i32[]")
        assert isinstance(value, np.ndarray)
        return value

    def has(self, key: str) -> bool:
        return key in self._header.metadata


def _network(keys: _Keys) -> Architecture:
    value = {name: keys.integer(f"{ARCHITECTURE}.{name}", low, high) for name, (low, high) in _INTEGERS.items()}
    heads, embedding = value["attention.head_count"], value["embedding_length"]
    kv_heads = keys.integer(f"{ARCHITECTURE}.attention.head_count_kv", 1, heads, default=heads)
    head_size = keys.integer(f"{ARCHITECTURE}.attention.key_length", 2, 1024, default=embedding // heads)
    if heads % kv_heads:
        raise keys.fault(f"{heads} attention heads can't share {kv_heads} KV heads")
    if head_size % 2:
        raise keys.fault(f"an attention head must have an even number of values, not {head_size}")
    if value["expert_used_count"] > value["expert_count"]:
        raise keys.fault(f"it uses {value['expert_used_count']} of {value['expert_count']} experts")
    return Architecture(
        layers=value["block_count"],
        embedding=embedding,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        experts=value["expert_count"],
        experts_used=value["expert_used_count"],
        expert_size=value["expert_feed_forward_length"],
        window=value["attention.sliding_window"],
        context_tokens=value["context_length"],
        vocabulary_size=len(keys.texts("tokenizer.ggml.tokens")),
    )


def _check_rope(keys: _Keys, network: Architecture) -> None:
    for name, (low, high) in _FLOATS.items():
        keys.number(f"{ARCHITECTURE}.{name}", low, high)
    for name, (low, high) in _OPTIONAL_FLOATS.items():
        if keys.has(f"{ARCHITECTURE}.{name}"):
            keys.number(f"{ARCHITECTURE}.{name}", low, high)
    scaling = keys.text(f"{ARCHITECTURE}.rope.scaling.type")
    if scaling != "yarn":
        raise keys.fault(f"rope.scaling.type must be 'yarn', not {scaling!r}")
    left_out = {"attention.value_length": network.embedding // network.heads}  # llama.cpp's default isn't key_length
    sizes = ("attention.value_length", "rope.dimension_count")
    for name in (*sizes, "attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
        default = left_out.get(name, network.head_size)
        size = keys.integer(f"{ARCHITECTURE}.{name}", 1, 1 << 16, default=default)
        if size != network.head_size:
            raise keys.fault(f"{name} must be {network.head_size} as attention.key_length, not {size}")


def _check_neutral(keys: _Keys) -> None:
    for name, neutral in _NEUTRAL.items():
        kind = "bool" if isinstance(neutral, bool) else "u32"
        value = keys.get(f"{ARCHITECTURE}.{name}", kind)
        if value is not None and value != neutral:
            raise keys.fault(f"{name} must be {neutral!r}, not {value!r}")
    for name in _ABSENT:
        if keys.has(f"{ARCHITECTURE}.{name}"):
            raise keys.fault(f"{name} must not be set")


def _check_vocabulary(keys: _Keys, header: GgufHeader) -> None:
    model = keys.text("tokenizer.ggml.model")
    if model != "gpt2":
        raise keys.fault(f"tokenizer.ggml.model must be 'gpt2', not {model!r}")
    split = keys.get("tokenizer.ggml.pre", "str")
    if split not in (None, "gpt-4o"):
        raise keys.fault(f"tokenizer.ggml.pre must be 'gpt-4o', not {split!r}")
    count = len(keys.texts("tokenizer.ggml.tokens"))
    if count > _MAX_TOKENS:
        raise keys.fault(f"its vocabulary has {count} tokens, more than {_MAX_TOKENS}")
    tokens, types = keys.tokens(), keys.types()
    keys.texts("tokenizer.ggml.merges")
    if len(types) != len(tokens):
        raise keys.fault(f"{len(tokens)} tokens, but {len(types)} token types")
    # llama.cpp reads each text up to its first zero byte, and ends the process if two are the same.
    seen = set(tokens)
    if len(seen) != len(tokens):
        raise keys.fault(f"{len(tokens) - len(seen)} of its {len(tokens)} tokens come twice")
    if "" in seen:
        raise keys.fault("a token of its vocabulary is empty")
    control = np.flatnonzero((types == _CONTROL) | (types == _USER_DEFINED)).tolist()
    try:
        ControlTokens.of({tokens[at]: at for at in control})
    except VocabularyError as error:
        raise ModelUnusable(f"{header.path}: {error} (ossia models pull gpt-oss-20b)") from error


def _check_tensors(keys: _Keys, network: Architecture, tensors: Mapping[str, TensorInfo]) -> None:
    expected = dict(_expected_tensors(network))
    for name, (shape, kinds) in expected.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise keys.fault(f"it has no tensor {name}")
        if _trimmed(tensor.shape) != _trimmed(shape) or tensor.kind not in kinds:
            wanted = f"{'F32' if kinds is _VECTOR_KINDS else 'a matrix'} {list(shape)}"
            raise keys.fault(f"{name} must be {wanted}, not {tensor.kind} {list(tensor.shape)}")
    for name in tensors:
        if name not in expected:
            raise keys.fault(f"{name} isn't a tensor of its network")


def _expected_tensors(network: Architecture) -> Iterator[tuple[str, tuple[tuple[int, ...], frozenset[str]]]]:
    """Every tensor of the network: name → shape (innermost first) and the types it may have."""
    width, experts, inner = network.embedding, network.experts, network.expert_size
    q, kv = network.heads * network.head_size, network.kv_heads * network.head_size
    matrices = {
        "attn_q": (width, q), "attn_k": (width, kv), "attn_v": (width, kv), "attn_output": (q, width),
        "ffn_gate_inp": (width, experts), "ffn_gate_exps": (width, inner, experts),
        "ffn_up_exps": (width, inner, experts), "ffn_down_exps": (inner, width, experts),
    }  # fmt: skip
    vectors = {"attn_norm": (width,), "post_attention_norm": (width,), "attn_sinks": (network.heads,)}
    for name in ("token_embd", "output"):
        yield f"{name}.weight", ((width, network.vocabulary_size), _MATRIX_KINDS)
    yield "output_norm.weight", ((width,), _VECTOR_KINDS)
    for layer in range(network.layers):
        for name, shape in matrices.items():
            yield f"blk.{layer}.{name}.weight", (shape, _MATRIX_KINDS)
            yield f"blk.{layer}.{name}.bias", (shape[1:], _VECTOR_KINDS)
        for name, vector in vectors.items():
            yield f"blk.{layer}.{name}.weight", (vector, _VECTOR_KINDS)


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without trailing ones, which a file may write or leave out: [64, 1] is [64]."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape
