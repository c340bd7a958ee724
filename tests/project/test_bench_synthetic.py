"""The synthetic models: gpt-oss's shapes, weights that behave, files that are whole or not there."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from ossia.agent.engine.base import Prompt
from ossia.agent.models.catalog import download_of
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gpt_oss import Architecture
from ossia.agent.models.model import open_model
from tests.bench.synthetic import SIZES, SyntheticError, Tensor, draw, write_header, write_synthetic
from tests.support.engines import generate, load_engine, prefill
from tests.support.experts import chosen_experts

pytestmark = pytest.mark.own_job


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_synthetic(tmp_path_factory.mktemp("models") / "tiny.gguf", "tiny")


def _ids(count: int, seed: int) -> tuple[int, ...]:
    source = random.Random(seed)
    return tuple(source.randrange(199_998) for _ in range(count))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_tiny_is_what_its_name_says(tiny: Path) -> None:
    assert open_model(tiny).architecture == SIZES["tiny"]
    assert 35e6 < tiny.stat().st_size < 37e6
    assert list(tiny.parent.iterdir()) == [tiny]


def test_its_metadata_is_that_of_the_converted_gpt_oss(tiny: Path) -> None:
    metadata = read_header(tiny).metadata
    assert len(metadata) == 35
    shown = {
        key.removeprefix("gpt-oss."): entry.value
        for key, entry in metadata.items()
        if "rope" in key or "window" in key or key.endswith(("_epsilon", "used_count", "eos_token_id"))
    }
    assert shown == {  # openai/gpt-oss-20b, config.json
        "rope.freq_base": 150_000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 32.0,
        "rope.scaling.original_context_length": 4096,
        "attention.sliding_window": 128,
        "attention.layer_norm_rms_epsilon": pytest.approx(1e-5),
        "expert_used_count": 4,
        "tokenizer.ggml.eos_token_id": 200_002,
    }


def test_the_same_seed_gives_the_same_bytes(tiny: Path, tmp_path: Path) -> None:
    assert _sha256(write_synthetic(tmp_path / "again.gguf", "tiny")) == _sha256(tiny)


def test_each_seed_and_each_tensor_has_bytes_of_its_own() -> None:
    one, other = Tensor("one", (64, 64), "Q8_0", 0.1), Tensor("other", (64, 64), "Q8_0", 0.1)
    drawn = [
        b"".join(piece.tobytes() for piece in draw(tensor, seed)) for tensor, seed in ((one, 0), (one, 1), (other, 0))
    ]
    assert len(set(drawn)) == 3


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "MXFP4"])
@pytest.mark.parametrize("std", [0.7, 0.0186, 0.013])
def test_weights_have_the_spread_that_is_asked_for(kind: str, std: float) -> None:
    tensor = Tensor("any", (3, 1000, 320), kind, std)  # type: ignore[arg-type]
    drawn = np.concatenate(list(draw(tensor, seed=1)))
    assert drawn.nbytes == tensor.nbytes
    values = quants.dequantize(drawn, GGMLQuantizationType[kind]) if kind != "F32" else drawn.view(np.float32)
    assert values.size == 960_000
    assert float(values.std()) == pytest.approx(std, rel=0.02)
    assert abs(float(values.mean())) < std / 100


def test_logits_are_of_sensible_size_and_greedy_text_goes_on(tiny: Path) -> None:
    engine = load_engine(tiny)
    prompt = Prompt(_ids(60, seed=1))
    logits, _ = prefill(engine, prompt)
    assert np.isfinite(logits).all()
    assert 1 < float(logits.std()) < 5
    assert len(set(generate(engine, prompt, 40))) > 20
    engine.close()


def test_every_layer_spreads_its_tokens_over_the_experts(tiny: Path) -> None:
    chosen = chosen_experts(tiny, _ids(300, seed=2), layers=8)
    assert chosen.shape == (8, 300, 4)
    for layer in chosen:
        share = np.bincount(layer.ravel(), minlength=32) / layer.size
        evenness = -float((share * np.log(np.maximum(share, 1e-9))).sum()) / np.log(32)  # 1: all get the same
        assert evenness > 0.8


def test_the_20b_has_the_shapes_of_gpt_oss_20b(tmp_path: Path) -> None:
    config = {  # of openai/gpt-oss-20b
        "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
        "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4, "intermediate_size": 2880,
        "sliding_window": 128, "max_position_embeddings": 131072, "vocab_size": 201088,
    }  # fmt: skip
    assert SIZES["20b"] == Architecture(*config.values())


@pytest.mark.skipif(sys.platform == "win32", reason="takes the space of a file's holes")
def test_the_20b_is_a_model_that_ossia_takes(tmp_path: Path) -> None:
    path = tmp_path / "20b.gguf"
    whole_bytes = write_header(path, "20b")
    os.truncate(path, whole_bytes)  # a hole where the weights would be

    model = open_model(path)

    assert (model.architecture, len(model.tensors)) == (SIZES["20b"], 459)
    real = download_of("gpt-oss-20b")
    assert real is not None and whole_bytes == pytest.approx(real.download_bytes, rel=0.002)


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_synthetic(tmp_path / "tiny.gguf", "tiny", on_progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_without_the_room_nothing_is_begun(tmp_path: Path) -> None:
    with pytest.raises(SyntheticError, match=r"20b takes 12\.1 GB, 1\.5 GB are free"):
        write_synthetic(tmp_path / "20b.gguf", "20b", free_bytes=1_500_000_000)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SyntheticError, match="expected a file to write, this is a folder"):
        write_synthetic(tmp_path, "tiny")
    assert list(tmp_path.iterdir()) == [] and not list(tmp_path.parent.glob("*.part"))


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    target = tmp_path / "missing" / "tiny.gguf"
    command = [sys.executable, "-m", "tests.bench.synthetic", "--size", "tiny", str(target)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {target}: can't be written (No such file or directory)\n"
