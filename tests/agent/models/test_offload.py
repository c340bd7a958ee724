"""What goes to the GPU: twenty-six machines, and what is asked for."""

from __future__ import annotations

from typing import Final

import pytest

from ossia.agent.errors import SettingRefused
from ossia.agent.models.memory import Memory
from ossia.agent.models.model import ModelFile
from ossia.agent.models.needs import fits, kv_bytes
from ossia.agent.models.plan import LoadOptions, Plan, plan
from tests.support.announced import LARGE, REAL, announced

MB, GB = 10**6, 10**9
_MODELS: Final[dict[str, ModelFile]] = {"20b": announced(), "120b": announced(LARGE, "gpt-oss-120b")}

# What is free in RAM and on each GPU → context, layers on the GPU, layers whose experts aren't, layers for each GPU.
_MACHINES: Final[dict[str, tuple[str, Memory, tuple[int, int, int, tuple[int, ...]]]]] = {
    "a laptop": ("20b", Memory(14 * GB), (32_768, 0, 0, ())),
    "a laptop with other programs": ("20b", Memory(9 * GB), (8192, 0, 0, ())),
    "a desktop": ("20b", Memory(60 * GB), (32_768, 0, 0, ())),
    "a server": ("120b", Memory(120 * GB), (32_768, 0, 0, ())),
    "1 GB": ("20b", Memory(28 * GB, (1 * GB,)), (32_768, 0, 0, ())),
    "2 GB": ("20b", Memory(28 * GB, (2 * GB,)), (32_768, 13, 24, ())),
    "4 GB": ("20b", Memory(14 * GB, (3800 * MB,)), (32_768, 25, 22, ())),
    "6 GB": ("20b", Memory(14 * GB, (5700 * MB,)), (32_768, 25, 17, ())),
    "8 GB": ("20b", Memory(28 * GB, (7900 * MB,)), (32_768, 25, 12, ())),
    "12 GB": ("20b", Memory(28 * GB, (11_900 * MB,)), (32_768, 25, 3, ())),
    "16 GB": ("20b", Memory(28 * GB, (16_400 * MB,)), (32_768, 25, 0, ())),
    "24 GB, and little RAM": ("20b", Memory(6 * GB, (24_700 * MB,)), (32_768, 25, 0, ())),
    "24 GB, the large model": ("120b", Memory(90 * GB, (24_700 * MB,)), (32_768, 37, 24, ())),
    "8 GB, the large model": ("120b", Memory(64 * GB, (7900 * MB,)), (32_768, 37, 34, ())),
    "2 of 24 GB, the large model": ("120b", Memory(60 * GB, (24 * GB, 24 * GB)), (32_768, 37, 12, (24, 13))),
    "6 and 8 GB": ("20b", Memory(28 * GB, (5700 * MB, 7900 * MB)), (32_768, 25, 0, (10, 15))),
    "12 and 2 GB": ("20b", Memory(28 * GB, (11_900 * MB, 1500 * MB)), (32_768, 25, 1, (24, 1))),
    "4 of 24 GB": ("120b", Memory(60 * GB, (24 * GB,) * 4), (32_768, 37, 0, (10, 9, 9, 9))),
    "2 without figures": ("20b", Memory(28 * GB, (0, 0)), (32_768, 0, 0, ())),
    "80 GB": ("120b", Memory(200 * GB, (84 * GB,)), (32_768, 37, 0, ())),
    "2 that share": ("20b", Memory(28 * GB, (24 * GB, 8 * GB), shared=True), (32_768, 25, 0, (19, 6))),
    "shared, and too small": ("120b", Memory(48 * GB, (36 * GB,), shared=True), (8192, 37, 17, ())),
    "shared, 16 GB": ("20b", Memory(13 * GB, (11_500 * MB,), shared=True), (16_384, 25, 3, ())),
    "shared, 8 GB for the GPU": ("20b", Memory(28 * GB, (8 * GB,), shared=True), (32_768, 25, 12, ())),
    "shared, 0.5 GB for the GPU": ("20b", Memory(28 * GB, (500 * MB,), shared=True), (32_768, 0, 0, ())),
    "shared, without a figure": ("20b", Memory(28 * GB, (0,), shared=True), (32_768, 0, 0, ())),
}


def _chosen(planned: Plan) -> tuple[int, int, int, tuple[int, ...]]:
    return planned.context_tokens, planned.offload.layers, planned.offload.cpu_moe, planned.offload.split


@pytest.mark.parametrize("machine", _MACHINES)
def test_a_machine(machine: str) -> None:
    which, memory, expected = _MACHINES[machine]
    planned = plan(_MODELS[which], memory=memory)
    assert _chosen(planned) == expected
    assert all(used <= free for used, free in zip(planned.offload.gpu_bytes, memory.gpu_free, strict=False))
    parts = planned.needs.weights + planned.needs.kv
    assert planned.ram_bytes == parts - planned.offload.weights - planned.offload.kv + (
        planned.needs.buffers + planned.needs.own
    )


def test_memory_that_is_shared_counts_once() -> None:
    integrated = Memory(48 * GB, (36 * GB,), shared=True)
    assert not fits(_MODELS["120b"], integrated)
    planned = plan(_MODELS["120b"], memory=integrated)
    assert planned.ram_bytes == planned.needs.total > 63 * GB
    assert planned.warnings == (
        "gpt-oss-120b needs 64.0 GB, 48.0 GB are free: it is read from disk while it runs, which is slow",
    )
    assert fits(_MODELS["120b"], Memory(48 * GB, (36 * GB,))), "with memory of its own it is another thing"


def test_one_expert_layer_more_would_not_fit() -> None:
    memory = Memory(28 * GB, (7900 * MB,))
    [used] = plan(announced(), memory=memory).offload.gpu_bytes
    [more] = plan(announced(), memory=memory, options=LoadOptions(gpu_layers=25, cpu_moe=11)).offload.gpu_bytes
    assert used <= 7900 * MB < more + 256 * 2**20
    assert plan(announced(), memory=memory, options=LoadOptions(cpu_moe=11)).gpu_layers < 25


def test_what_is_asked_for_is_done() -> None:
    small = Memory(28 * GB, (4 * GB,))

    def chosen(**options: int) -> tuple[int, int]:
        put = plan(announced(), memory=small, options=LoadOptions(**options)).offload  # type: ignore[arg-type]
        return put.layers, put.cpu_moe

    assert chosen(gpu_layers=25) == (25, 21)
    assert chosen(gpu_layers=7) == (7, 0)
    assert chosen(gpu_layers=10) == (10, 19), "the first layer on the GPU is the 15th"
    assert chosen(cpu_moe=0) == (7, 0), "whole layers, as before"
    assert chosen(cpu_moe=24) == (25, 24)
    assert chosen(cpu_moe=999) == (25, 24)
    assert chosen(gpu_layers=25, cpu_moe=0) == (25, 0), "it doesn't fit, and was asked for"
    assert chosen(gpu_layers=0, cpu_moe=3) == (0, 3)
    nowhere = plan(announced(), memory=Memory(28 * GB), options=LoadOptions(cpu_moe=2, gpu_layers=3)).offload
    assert (nowhere.layers, nowhere.cpu_moe, nowhere.weights, nowhere.gpu_bytes) == (3, 2, 0, ())


def test_layers_that_do_not_fit_are_shared_by_free_memory() -> None:
    put = plan(
        announced(), memory=Memory(28 * GB, (1 * GB, 3 * GB)), options=LoadOptions(gpu_layers=25, cpu_moe=0)
    ).offload
    assert (put.layers, put.split) == (25, (7, 18))
    unknown = plan(announced(), memory=Memory(28 * GB, (0, 0)), options=LoadOptions(gpu_layers=10, cpu_moe=0)).offload
    assert (unknown.layers, unknown.split) == (10, (5, 5))


def test_a_smaller_kv_cache() -> None:
    plain, small = (
        plan(announced(), memory=Memory(28 * GB), options=LoadOptions(kv_type=kind)) for kind in ("f16", "q8_0")
    )
    # llama.cpp 0.3.36's own numbers for 32k: 768 + 18 MiB, and 408 + 9.56.
    assert (plain.needs.kv, plain.kv_type) == (786 * 2**20, "f16")
    assert (small.needs.kv, small.kv_type) == (786 * 2**20 * 34 // 64, "q8_0")
    tight = Memory(12_900 * MB)
    assert plan(announced(), memory=tight).context_tokens == 16_384
    assert plan(announced(), memory=tight, options=LoadOptions(kv_type="q8_0")).context_tokens == 32_768


def test_a_head_that_q8_0_can_not_hold() -> None:
    from dataclasses import replace

    odd = announced(replace(REAL, head_size=80))
    assert kv_bytes(odd.architecture, 8192)
    with pytest.raises(SettingRefused) as refused:
        plan(odd, memory=Memory(28 * GB), options=LoadOptions(kv_type="q8_0"))
    assert str(refused.value) == (
        "--kv-type q8_0: needs attention heads of a multiple of 32 values, gpt-oss-20b has 80: leave it out"
    )
