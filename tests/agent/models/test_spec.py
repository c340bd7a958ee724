"""From a model's specification to its plan, and to llama.cpp's settings."""

from __future__ import annotations

from typing import Any

import pytest

from ossia.agent.engine.llama import LlamaSettings, llama_settings
from ossia.agent.models.memory import Memory
from ossia.agent.models.needs import Repack
from ossia.agent.models.plan import LoadOptions, Plan, on_gpu, plan
from ossia.agent.models.spec import ModelSpec
from tests.support.announced import announced

GB = 10**9


def _planned(memory: Memory, **spec: Any) -> Plan:
    return plan(announced(), memory=memory, options=ModelSpec(**spec).load_options(1.0))


def test_llama_cpp_gets_the_whole_plan() -> None:
    planned = _planned(Memory(28 * GB, (5 * GB, 3 * GB)), context=8192, kv_type="q8_0", repack="off")
    assert llama_settings(planned, threads=3) == LlamaSettings(
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
    memory = Memory(28 * GB, (24 * GB,))
    planned = _planned(memory, context=8192, gpu_layers=25, cpu_moe=4)
    assert on_gpu(planned) == "25 layers on the GPU, the experts of the first 4 on the CPU"
    assert on_gpu(_planned(memory, gpu_layers=3)) == "3 layers on the GPU"


@pytest.mark.parametrize(
    ("spec", "own_temperature", "repack"),
    [
        (ModelSpec(stays=True), 1.0, "auto"),
        (ModelSpec(), 1.0, "off"),  # a single answer
        (ModelSpec(stays=True), 0.0, "off"),  # the model's own
        (ModelSpec(stays=True, temperature=0.0), 1.0, "off"),
        (ModelSpec(stays=True, temperature=1.0), 0.0, "auto"),
        (ModelSpec(stays=True, seed=1), 1.0, "off"),
        (ModelSpec(seed=1, repack="on"), 1.0, "on"),
        (ModelSpec(stays=True, repack="off"), 1.0, "off"),
    ],
)
def test_weights_are_repacked_for_a_chat_that_need_not_be_had_again(
    spec: ModelSpec, own_temperature: float, repack: Repack
) -> None:
    assert spec.load_options(own_temperature) == LoadOptions(repack=repack)


def test_the_lanes_are_planned() -> None:
    assert ModelSpec(lanes=4).load_options(1.0).lanes == 4
    assert _planned(Memory(40 * GB), lanes=4).lanes == 4
