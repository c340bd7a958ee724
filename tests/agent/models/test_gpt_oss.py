"""What is refused before llama.cpp sees a file, and the vocabulary that a file holds."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ossia.agent.errors import ModelUnusable
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gguf_parts import StringArray
from ossia.agent.models.gpt_oss import Architecture, check_gpt_oss, read_vocabulary
from ossia.harmony.tokenizer import Tokenizer
from tests.oracle.gguf_fuzz import KNOWN, search
from tests.support.gguf_edit import ARRAY, F32, STRING, U32, GgufEdit, list_of, text, texts
from tests.support.toy_gguf import write_toy_gguf
from tests.support.vocabularies import gguf_tokens


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy network with gpt-oss's whole vocabulary."""
    return write_toy_gguf(tmp_path_factory.mktemp("real") / "real.gguf", vocabulary="real", layers=1, embd=32)


def _check(path: Path) -> Architecture:
    header = read_header(path)
    network = check_gpt_oss(header)
    read_vocabulary(header)
    return network


def _refused(path: Path) -> str:
    with pytest.raises(ModelUnusable) as failure:
        _check(path)
    said = str(failure.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    return said.removeprefix(f"{path}: ")


def test_the_measures_of_the_etude() -> None:
    assert _check(ETUDE_PATH) == Architecture(
        layers=4,
        embedding=256,
        heads=4,
        kv_heads=2,
        head_size=64,
        experts=8,
        experts_used=2,
        expert_size=192,
        window=128,
        context_tokens=4096,
        vocabulary_size=2726,
    )


@pytest.mark.parametrize("name", KNOWN)
def test_what_llama_cpp_stumbles_over(name: str, tmp_path: Path) -> None:
    edit = GgufEdit.of(ETUDE_PATH)
    KNOWN[name](edit)
    said = _refused(edit.write(tmp_path / "bad.gguf"))
    assert said.startswith("not a gpt-oss model that can be run: ")
    assert said.endswith("; get a whole gpt-oss model: ossia models pull gpt-oss-20b")


_NETWORK_KEYS = (
    *("context_length", "embedding_length", "block_count", "expert_feed_forward_length", "attention.head_count"),
    *("attention.layer_norm_rms_epsilon", "attention.sliding_window", "expert_count", "expert_used_count"),
    *("rope.freq_base", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length"),
)


@pytest.mark.parametrize("key", _NETWORK_KEYS)
def test_every_required_key(key: str, tmp_path: Path) -> None:
    edit = GgufEdit.of(ETUDE_PATH)
    del edit.entries[f"gpt-oss.{key}"]
    assert f"gpt-oss.{key} is missing" in _refused(edit.write(tmp_path / "bad.gguf"))
    edit.entries[f"gpt-oss.{key}"] = (ARRAY, struct.pack("<IQI", U32, 1, 1))
    assert f"gpt-oss.{key} must have the type" in _refused(edit.write(tmp_path / "bad.gguf"))


@pytest.mark.parametrize("key", ["model", "tokens", "token_type", "merges"])
def test_every_required_key_of_the_tokenizer(key: str, tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "bad.gguf", omit=[f"tokenizer.ggml.{key}"])
    assert f"tokenizer.ggml.{key} is missing" in _refused(path)


def test_every_tensor_is_required(tmp_path: Path) -> None:
    names = list(GgufEdit.of(ETUDE_PATH).tensors)
    for name in [*names[:3], *(name for name in names if name.startswith("blk.3."))]:
        edit = GgufEdit.of(ETUDE_PATH)
        del edit.tensors[name]
        assert f"it has no tensor {name}; get a whole" in _refused(edit.write(tmp_path / "bad.gguf"))


def test_a_tensor_of_another_shape(tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "bad.gguf", override={"blk.0.attn_sinks.weight": np.zeros(3)})
    assert "blk.0.attn_sinks.weight must be F32 [2], not F32 [3]" in _refused(path)


def test_a_tensor_of_another_type(tmp_path: Path) -> None:
    edit = GgufEdit.of(ETUDE_PATH)
    edit.tensors["output_norm.weight"].kind = 26  # I32: as long as F32
    assert "output_norm.weight must be F32 [256], not I32 [256]" in _refused(edit.write(tmp_path / "bad.gguf"))
    edit = GgufEdit.of(write_toy_gguf(tmp_path / "toy.gguf", quantized=False))
    edit.tensors["blk.0.attn_q.weight"].kind = 26
    assert "blk.0.attn_q.weight must be a matrix [64, 64], not I32" in _refused(edit.write(tmp_path / "bad.gguf"))


def test_a_tensor_too_many(tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "bad.gguf", override={"blk.0.attn_qkv.weight": np.zeros((64, 128))})
    assert "blk.0.attn_qkv.weight isn't a tensor of its network" in _refused(path)


def test_another_architecture(tmp_path: Path) -> None:
    path = write_toy_gguf(tmp_path / "llama.gguf", override={"general.architecture": "llama"})
    assert _refused(path) == (
        "its architecture is 'llama', ossia runs only gpt-oss; get a whole gpt-oss model: ossia models pull gpt-oss-20b"
    )


def test_a_vocabulary_without_harmony_s_control_tokens(tmp_path: Path) -> None:
    edit = GgufEdit.of(ETUDE_PATH)
    tokens = [b"<|other|>" if token == b"<|channel|>" else token for token in list_of(edit.entries[_TOKENS][1])]
    edit.entries[_TOKENS] = (ARRAY, texts(tokens))
    said = _refused(edit.write(tmp_path / "bad.gguf"))
    assert "the vocabulary has no <|channel|>: use a gpt-oss model" in said


def test_control_tokens_that_are_ordinary_text(tmp_path: Path) -> None:
    edit = GgufEdit.of(ETUDE_PATH)
    count = len(list_of(edit.entries[_TOKENS][1]))
    edit.entries["tokenizer.ggml.token_type"] = (ARRAY, struct.pack(f"<IQ{count}i", 5, count, *[1] * count))
    assert "the vocabulary has no <|start|>, <|end|>" in _refused(edit.write(tmp_path / "bad.gguf"))


_TOKENS = "tokenizer.ggml.tokens"


def _token(at: int, value: bytes) -> Callable[[GgufEdit], None]:
    def change(edit: GgufEdit) -> None:
        tokens = list_of(edit.entries[_TOKENS][1])
        tokens[at] = value
        edit.entries[_TOKENS] = (ARRAY, texts(tokens))

    return change


def _entry(key: str, kind: int, raw: bytes) -> Callable[[GgufEdit], None]:
    return lambda edit: edit.entries.__setitem__(key, (kind, raw))


_SMALL_FAULTS: dict[str, tuple[Callable[[GgufEdit], None], str]] = {
    "a token that is not UTF-8": (_token(300, b"\xff"), "a token of its vocabulary isn't UTF-8, or holds a zero byte"),
    "a token with a zero byte": (_token(300, b"a\0b"), "a token of its vocabulary isn't UTF-8, or holds a zero byte"),
    "an empty token": (_token(300, b""), "a token of its vocabulary is empty"),
    "a token in another alphabet": (_token(300, "中".encode()), "tokens must be in GPT-2's byte-level alphabet"),
    "a byte that is missing": (_token(65, b"zzzz"), "its vocabulary lacks 1 of the 256 single bytes"),
    "another tokenizer": (_entry("tokenizer.ggml.model", STRING, text("llama")), "must be 'gpt2', not 'llama'"),
    "another pattern": (_entry("tokenizer.ggml.pre", STRING, text("qwen2")), "must be 'gpt-4o', not 'qwen2'"),
    "too few types": (
        _entry("tokenizer.ggml.token_type", ARRAY, struct.pack("<IQi", 5, 1, 1)),
        "2726 tokens, but 1 token types",
    ),
    "an infinite rope": (
        _entry("gpt-oss.rope.freq_base", F32, struct.pack("<f", float("inf"))),
        "gpt-oss.rope.freq_base must be from 1 to 1e+12, not inf",
    ),
    "a rope that is no number": (
        _entry("gpt-oss.rope.scaling.attn_factor", F32, struct.pack("<f", float("nan"))),
        "gpt-oss.rope.scaling.attn_factor must be from 0.001 to 1000, not nan",
    ),
    "an odd head": (
        _entry("gpt-oss.attention.key_length", U32, struct.pack("<I", 63)),
        "an attention head must have an even number of values, not 63",
    ),
}


@pytest.mark.parametrize("name", _SMALL_FAULTS)
def test_a_fault_is_named(name: str, tmp_path: Path) -> None:
    change, message = _SMALL_FAULTS[name]
    edit = GgufEdit.of(ETUDE_PATH)
    change(edit)
    assert message in _refused(edit.write(tmp_path / "bad.gguf"))


def test_what_a_file_may_leave_out(tmp_path: Path) -> None:
    edit = GgufEdit.of(ETUDE_PATH)
    for key in ("gpt-oss.feed_forward_length", "tokenizer.ggml.pre", "general.name"):
        del edit.entries[key]
    assert _check(edit.write(tmp_path / "good.gguf")) == _check(ETUDE_PATH)


def test_a_value_length_that_is_left_out_is_not_the_key_length(tmp_path: Path) -> None:
    """llama.cpp takes embedding / heads then, and aborts the process at the first batch."""
    edit = GgufEdit.of(ETUDE_PATH)
    del edit.entries["gpt-oss.attention.value_length"]
    edit.entries["gpt-oss.attention.head_count"] = (U32, struct.pack("<I", 8))
    said = _refused(edit.write(tmp_path / "bad.gguf"))
    assert "attention.value_length must be 64 as attention.key_length, not 32" in said


def test_mutated_files_that_pass_do_not_kill_llama_cpp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 30 of the command's 300; a process of its own runs each of them.
    assert search(30, 11, tmp_path) == 0, capsys.readouterr().out


def test_the_vocabulary_of_the_etude() -> None:
    strings, types = gguf_tokens(ETUDE_PATH)
    vocabulary = read_vocabulary(read_header(ETUDE_PATH))
    assert vocabulary.size == len(strings) == 2726
    assert vocabulary.control == {name: at for at, name in enumerate(strings) if types[at] == 3}
    assert Tokenizer(vocabulary).decode(Tokenizer(vocabulary).encode("naïve 中 12")) == "naïve 中 12"


def test_the_real_vocabulary_is_tiktoken_s(real: Path, o200k_tokenizer: Tokenizer) -> None:
    header = read_header(real)
    check_gpt_oss(header)
    ours, theirs = read_vocabulary(header), o200k_tokenizer.vocabulary
    assert ours.size == 201_088
    assert list(ours.tokens[: len(theirs.tokens)]) == list(theirs.tokens[:201_088])
    assert {name: ours.control.get(name) for name in theirs.control if theirs.control[name] < 201_088} == {
        name: at for name, at in theirs.control.items() if at < 201_088
    }
    sample = "Zürich 日本語 <|start|>user 12345678 \t\n  def f(x): return x**2  # 🙂🏽"
    assert Tokenizer(ours).encode(sample) == o200k_tokenizer.encode(sample)


def test_the_real_header_needs_no_slow_way(real: Path) -> None:
    tokens = read_header(real).metadata[_TOKENS].value
    assert isinstance(tokens, StringArray)
    assert (len(tokens), tokens[0], tokens[200_006]) == (201_088, b"!", b"<|start|>")
    assert max(map(len, tokens)) >= 256, "a length of two bytes is among them"
    assert tokens.texts() == [raw.decode() for raw in tokens]
