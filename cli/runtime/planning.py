"""From settings to a plan of how a model is loaded, and to what llama.cpp is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ossia.agent.engine.llama import LlamaSettings
    from ossia.agent.models.memory import Memory
    from ossia.agent.models.model import ModelFile
    from ossia.agent.models.needs import Repack
    from ossia.agent.models.plan import LoadOptions, Plan
    from ossia.cli.settings.table import Settings


def plan_for(settings: Settings, model: ModelFile, memory: Memory, *, stays: bool) -> Plan:
    """How `model` is loaded by these settings; `stays`: it will answer again and again, as in a chat.

    Raises what `agent.models.plan.plan` does.
    """
    from ossia.agent.engine.llama import processor_features
    from ossia.agent.models.plan import plan

    options = load_options(settings, model, stays=stays)
    return plan(model, memory=memory, options=options, processor=processor_features())


def load_options(settings: Settings, model: ModelFile, *, stays: bool) -> LoadOptions:
    """What the settings ask of the plan."""
    from ossia.agent.models.plan import LoadOptions

    return LoadOptions(
        context=settings.context,
        gpu_layers=settings.gpu_layers,
        cpu_moe=settings.n_cpu_moe,
        kv_type=settings.kv_type,
        repack=_repack(settings, model.temperature, stays=stays),
    )


def native_settings(planned: Plan, *, threads: int | None) -> LlamaSettings:
    """What llama.cpp is told of the plan."""
    from ossia.agent.engine.llama import LlamaSettings
    from ossia.agent.models.needs import BATCH_TOKENS

    return LlamaSettings(
        context_tokens=planned.context_tokens,
        gpu_layers=planned.gpu_layers,
        cpu_moe=planned.offload.cpu_moe,
        split=planned.offload.split,
        kv_type=planned.kv_type,
        threads=threads,
        batch_tokens=BATCH_TOKENS,
        use_mmap=planned.use_mmap,
        repack=planned.repack,
    )


def on_gpu(planned: Plan) -> str:
    """`"25 layers on the GPU"`, `"25 layers on the GPU, the experts of the first 9 on the CPU"`."""
    experts = planned.offload.cpu_moe
    kept = f", the experts of the first {experts} on the CPU" if experts and planned.gpu_layers else ""
    return f"{planned.gpu_layers} layers on the GPU{kept}"


def _repack(settings: Settings, own_temperature: float, *, stays: bool) -> Repack:
    """How to repack. "auto" becomes "off" for a single answer, which isn't worth the copy, and for repeatable ones.

    With a seed or greedy sampling the same answer is expected again; a repacked copy rounds differently, and whether
    there is one would depend on how much memory is free.
    """
    temperature = own_temperature if settings.temperature is None else settings.temperature
    if settings.repack == "auto" and (not stays or settings.seed is not None or temperature == 0):
        return "off"
    return settings.repack
