"""Experts that stay with the processor, and a KV cache of 8 bits: tried on the processor, which takes both."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ossia.agent.engine.base import Prompt
from ossia.agent.models.model import open_model
from ossia.agent.models.needs import kv_bytes
from ossia.agent.models.plan import Offload
from tests.support.engines import ETUDE, generate, load_engine

_SOURCE = random.Random(3)
PROMPT = Prompt(tuple(_SOURCE.randrange(2400) for _ in range(300)))


def test_experts_on_the_processor_answer_the_same() -> None:
    answers = []
    for layers in (0, 2, 4):
        engine = load_engine(ETUDE, cpu_moe=layers)
        answers.append(generate(engine, PROMPT, 40))
        engine.close()
    assert answers[0] == answers[1] == answers[2]


def test_llama_cpp_overrides_what_the_plan_counts() -> None:
    script = textwrap.dedent(
        """
        import re, sys
        from pathlib import Path
        import llama_cpp as lib
        from ossia.agent.engine import _native
        lines = []
        keep = lib.llama_log_callback(lambda level, text, data: lines.append(text.decode()))
        lib.llama_log_set(keep, None)
        lib.llama_backend_init()
        model = _native._load_model(Path(sys.argv[1]), _native.LlamaSettings(256, cpu_moe=2), None)
        print(*re.findall(r"tensor (\\S+) .* overridden to CPU", "".join(lines)))
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(ETUDE)], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    model = open_model(ETUDE)
    layers = model.architecture.layers
    put = Offload(layers + 1, 2, gpu_bytes=(1,))
    kept = {name for name, tensor in model.tensors.items() if not put.holds(tensor, layers)}
    assert set(done.stdout.split()) == kept - {"token_embd.weight"}
    assert len(kept) == 2 * 6 + 1


def test_a_cache_of_8_bits() -> None:
    plain, small = load_engine(ETUDE), load_engine(ETUDE, kv_type="q8_0")
    sizes = []
    for engine in (plain, small):
        generate(engine, PROMPT, 5)
        sizes.append(engine.memory.state_bytes)
        engine.close()
    network = open_model(ETUDE).architecture
    assert sizes[1] / sizes[0] == pytest.approx(kv_bytes(network, 512, "q8_0") / kv_bytes(network, 512), rel=0.05)
    assert plain.native.fingerprint != small.native.fingerprint, "neither can go on with the other's cache"


def test_flash_attention_is_where_the_device_computes_it_with_sinks(tmp_path: Path) -> None:
    load_engine(ETUDE, log_path=tmp_path / "log").close()
    assert "Flash Attention enabled" in (tmp_path / "log").read_text()
