"""From settings to a plan, and to what llama.cpp is told."""

from __future__ import annotations

from ossia.agent.engine.llama import LlamaSettings
from ossia.agent.models.memory import Memory
from ossia.cli.runtime.planning import native_settings, on_gpu, plan_for
from ossia.cli.settings.table import Settings
from tests.support.announced import announced

GB = 10**9


def test_llama_cpp_is_told_the_whole_plan() -> None:
    settings = Settings(context=8192, kv_type="q8_0", threads=3, repack="off")
    planned = plan_for(settings, announced(), Memory(28 * GB, (5 * GB, 3 * GB)), stays=False)
    assert native_settings(planned, threads=settings.threads) == LlamaSettings(
        8192,
        gpu_layers=25,
        cpu_moe=planned.offload.cpu_moe,
        split=planned.offload.split,
        kv_type="q8_0",
        threads=3,
        batch_tokens=512,
    )
    assert planned.offload.cpu_moe > 0
    assert sum(planned.offload.split) == 25


def test_what_is_on_the_gpu_in_words() -> None:
    settings = Settings(context=8192, gpu_layers=25, n_cpu_moe=4)
    planned = plan_for(settings, announced(), Memory(28 * GB, (24 * GB,)), stays=False)
    assert on_gpu(planned) == "25 layers on the GPU, the experts of the first 4 on the CPU"
    plain = plan_for(Settings(gpu_layers=3), announced(), Memory(28 * GB, (24 * GB,)), stays=False)
    assert on_gpu(plain) == "3 layers on the GPU"
