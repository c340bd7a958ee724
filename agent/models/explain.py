"""Why a plan is as it is, in words: what was chosen, and what was left out."""

from __future__ import annotations

from ossia.agent.models.memory import Memory, size_text
from ossia.agent.models.model import ModelFile
from ossia.agent.models.needs import CONTEXTS, KvType, kv_bytes, needs_of
from ossia.agent.models.offload import offload
from ossia.agent.models.plan import Plan, Wishes
from ossia.agent.models.repack import reason_against

Row = tuple[str, str]
"""What it is about, and a sentence: `("context", "32,768 tokens, the longest of 32k, 16k and 8k that fits")`."""


def explain(
    model: ModelFile, memory: Memory, planned: Plan, wishes: Wishes, processor: frozenset[str]
) -> tuple[Row, ...]:
    """The rows about context, GPUs, experts, KV cache, the second copy of the weights, and memory, in this order.

    `memory`, `wishes` and `processor` are what the plan was made of.
    """
    return (
        ("context", _context(model, memory, planned, wishes)),
        *_gpus(model, memory, planned, wishes),
        *_experts(model, memory, planned, wishes),
        ("KV cache", _kv(model, planned)),
        ("weights", _weights(memory, planned, wishes, processor)),
        ("memory", _memory(memory, planned)),
    )


def _context(model: ModelFile, memory: Memory, planned: Plan, wishes: Wishes) -> str:
    tokens, own = planned.context_tokens, model.architecture.context_tokens
    said = f"{tokens:,} of the model's {own:,} tokens"
    if isinstance(wishes.context, int) and wishes.context > own:
        return f"{said}; {wishes.context:,} were asked for"
    if wishes.context is not None:
        return f"{said}, as asked for"
    longer = min((one for one in (*CONTEXTS, own) if tokens < one <= own), default=None)
    if longer is None:
        return said
    if tokens == CONTEXTS[0]:
        return f"{said}; more when asked for (--context)"
    needed, free = needs_of(model, longer, planned.kv_type).total, memory.all_free or 0
    return f"{said}; {longer:,} would need {size_text(needed)}, {size_text(free)} are free"


def _gpus(model: ModelFile, memory: Memory, planned: Plan, wishes: Wishes) -> list[Row]:
    put, whole = planned.offload, model.architecture.layers + 1
    if not memory.gpu_free:
        asked = (("--gpu-layers", wishes.gpu_layers), ("--n-cpu-moe", wishes.cpu_moe))
        idle = ", ".join(flag for flag, count in asked if count)
        none = "none that llama.cpp can use: the processor does everything"
        return [("GPU", f"{none}; without effect: {idle}" if idle else none)]
    layers = (
        f"all {whole} layers, the output's among them" if put.layers == whole else f"{put.layers} of {whole} layers"
    )
    layers += ", as asked for" if wishes.gpu_layers is not None else ""
    if not put.layers and wishes.gpu_layers is None:
        return [("GPU", f"nothing: even the output layer needs more than {size_text(max(memory.gpu_free))}")]
    if memory.shared:
        held = (
            f"{size_text(sum(put.gpu_bytes))} of the shared memory, {size_text(sum(memory.gpu_free))} are meant for it"
        )
        return [("GPU", f"{layers}: {held}")]
    if len(memory.gpu_free) == 1:
        return [("GPU", f"{layers}: {size_text(sum(put.gpu_bytes))} of {size_text(memory.gpu_free[0])}")]
    each = zip(put.split, put.gpu_bytes, memory.gpu_free, strict=True)
    rows = [f"{count} layers: {size_text(used)} of {size_text(free)}" for count, used, free in each]
    return [("GPUs", layers), *((f"GPU {number}", row) for number, row in enumerate(rows))]


def _experts(model: ModelFile, memory: Memory, planned: Plan, wishes: Wishes) -> list[Row]:
    """About experts that are kept off the GPU, or layers that are."""
    put, layers = planned.offload, model.architecture.layers
    if not memory.gpu_free or not put.layers:
        return []

    def needed(count: int, kept: int) -> str:
        asked = offload(
            model,
            memory,
            context_tokens=planned.context_tokens,
            kv_type=planned.kv_type,
            layers=count,
            cpu_moe=kept,
        )
        return size_text(sum(asked.gpu_bytes))

    if put.cpu_moe and put.layers == layers + 1:
        kept = f"those of the first {put.cpu_moe} of {layers} layers stay with the processor"
        why = (
            "as asked for"
            if wishes.cpu_moe is not None
            else f"with them {needed(layers + 1, 0)} would be needed on the GPU"
        )
        return [("experts", f"{kept}; {why}")]
    if put.layers <= layers and wishes.gpu_layers is None:
        kept_all = needed(layers + 1, layers)
        return [("experts", f"with the processor; even without them, all layers would need {kept_all} on the GPU")]
    return []


def _kv(model: ModelFile, planned: Plan) -> str:
    said = f"{size_text(planned.needs.kv)} as {planned.kv_type}"
    if planned.kv_type == "q8_0":
        return f"{said}, with flash attention"
    small: KvType = "q8_0"
    less = size_text(kv_bytes(model.architecture, planned.context_tokens, small))
    return f"{said}, with flash attention where the device has it; --kv-type q8_0: {less}"


def _weights(memory: Memory, planned: Plan, wishes: Wishes, processor: frozenset[str]) -> str:
    size = size_text(planned.needs.weights)
    if planned.repack:
        return f"{size}, and {size_text(planned.needs.repacked)} for a copy in the processor's order"
    if wishes.repack == "off":
        return f"{size}, not repacked"
    reason = "the GPU does most" if memory.gpu_free else reason_against(processor) or "there is no room for a copy"
    return f"{size}, not repacked: {reason}"


def _memory(memory: Memory, planned: Plan) -> str:
    free = "an unknown amount is" if memory.ram_free is None else f"{size_text(memory.ram_free)} are"
    return f"{size_text(planned.ram_bytes)}; {free} free"
