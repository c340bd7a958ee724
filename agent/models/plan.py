"""The plan to load a model: the length of the context, the GPU's share, or that the model is too large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from ossia.agent.errors import OutOfMemory, SettingRefused
from ossia.agent.models.memory import Memory, size_text
from ossia.agent.models.model import ModelFile
from ossia.agent.models.needs import CONTEXTS, Q8_BLOCK, KvType, Needs, Repack, needs_of, reason_against, repacked_bytes
from ossia.agent.models.offload import Offload, offload

_REPACK_SPARE_BYTES: Final = 2_000_000_000  # must stay free for everything else if a second copy is made unasked


@dataclass(frozen=True, slots=True)
class Plan:
    """The loading plan: `Plan(context_tokens=32768, offload=Offload(layers=25, …), use_mmap=True, needs=Needs(…))`.

    `repack`: make the second copy, of `needs.repacked` bytes. `warnings` are lines for the user.
    """

    context_tokens: int
    offload: Offload
    use_mmap: bool
    needs: Needs
    kv_type: KvType = "f16"
    warnings: tuple[str, ...] = ()

    @property
    def gpu_layers(self) -> int:
        return self.offload.layers

    @property
    def repack(self) -> bool:
        return self.needs.repacked > 0

    @property
    def ram_bytes(self) -> int:
        """The bytes in the processor's memory."""
        return self.needs.total - self.offload.weights - self.offload.kv


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The user's options for loading; None: the plan decides.

    `context` "max": the model's own. `gpu_layers`: so many, from the last one back; `cpu_moe`: so many, from the first
    on, whose experts stay with the processor. `repack` "auto": a second copy of the weights is made if it fits with
    2 GB to spare and there is no GPU.
    """

    context: int | Literal["max"] | None = None
    gpu_layers: int | None = None
    cpu_moe: int | None = None
    kv_type: KvType = "f16"
    use_mmap: bool = True
    repack: Repack = "off"


def plan(
    model: ModelFile, *, memory: Memory, options: LoadOptions | None = None, processor: frozenset[str] = frozenset()
) -> Plan:
    """Plan to load `model` into `memory`. By default the context is the largest of 32k, 16k, 8k that fits.

    A context longer than the model's own is cut to it, with a warning. Which weights can be repacked depends on
    `processor`. Nothing is loaded here. Raises `OutOfMemory` if KV cache and buffers don't fit, if the weights don't
    and `use_mmap` is off, or if a copy that was asked for doesn't. With mmap, weights larger than free memory are only
    a warning (they are read from disk again and again). Raises `SettingRefused` for a copy that this build can't make,
    or a KV cache that this model can't have.
    """
    options = options or LoadOptions()
    _check_options(model, options, processor)
    tokens, warnings = _context(model, memory, options, processor)
    needs = needs_of(model, tokens, options.kv_type)
    put = offload(
        model,
        memory,
        context_tokens=tokens,
        kv_type=options.kv_type,
        layers=options.gpu_layers,
        cpu_moe=options.cpu_moe,
    )
    planned = Plan(tokens, put, options.use_mmap, needs, options.kv_type)
    if memory.ram_free is not None:
        warnings += _check_ram(model, planned, memory.ram_free)
    if options.repack == "on" or (options.repack == "auto" and not memory.gpu_free):
        planned = replace(planned, needs=_with_copy(model, planned, memory, options.repack, processor))
    return replace(planned, warnings=tuple(warnings))


def _check_options(model: ModelFile, options: LoadOptions, processor: frozenset[str]) -> None:
    if options.repack == "on" and (reason := reason_against(processor)):
        raise SettingRefused(f"--repack on: {reason}: leave it out")
    head = model.architecture.head_size
    if options.kv_type == "q8_0" and head % Q8_BLOCK:
        raise SettingRefused(
            f"--kv-type q8_0: needs attention heads of a multiple of {Q8_BLOCK} values, {model.name} has {head}: "
            "leave it out"
        )


def _context(
    model: ModelFile, memory: Memory, options: LoadOptions, processor: frozenset[str]
) -> tuple[int, list[str]]:
    own, asked = model.architecture.context_tokens, options.context
    if asked is None:
        copied = options.repack == "on" and not memory.gpu_free
        copy = repacked_bytes(model.tensors.values(), processor) if copied else 0
        return _largest_that_fits(model, memory, options.kv_type, beside=copy), []
    if asked == "max":
        return own, []
    if asked > own:
        return own, [f"{model.name} has a context of {own} tokens at most: --context {asked} is cut to that"]
    return asked, []


def _largest_that_fits(model: ModelFile, memory: Memory, kv_type: KvType, *, beside: int) -> int:
    own = model.architecture.context_tokens
    choices = sorted({min(tokens, own) for tokens in CONTEXTS}, reverse=True)
    room = memory.all_free
    if room is None:
        return choices[0]
    return next((one for one in choices if needs_of(model, one, kv_type).total + beside <= room), choices[-1])


def _check_ram(model: ModelFile, planned: Plan, free: int) -> list[str]:
    needs, put, tokens = planned.needs, planned.offload, planned.context_tokens
    working = needs.kv - put.kv + needs.buffers + needs.own
    if working > free:
        raise OutOfMemory(
            f"a context of {tokens} tokens needs {size_text(working)} on top of the weights, {size_text(free)} are "
            "free: use a smaller --context, or close other programs"
        )
    if planned.ram_bytes <= free:
        return []
    needed = f"{model.name} needs {size_text(planned.ram_bytes)}"
    if not planned.use_mmap:
        raise OutOfMemory(
            f"{needed} with a context of {tokens} tokens, {size_text(free)} are free: leave mmap on, or close other "
            "programs"
        )
    return [f"{needed}, {size_text(free)} are free: it is read from disk while it runs, which is slow"]


def _with_copy(model: ModelFile, planned: Plan, memory: Memory, repack: Repack, processor: frozenset[str]) -> Needs:
    """The needs with the second copy of what the processor multiplies with, if it may be made."""
    layers = model.architecture.layers
    in_ram = (tensor for tensor in model.tensors.values() if not planned.offload.holds(tensor, layers))
    copy = repacked_bytes(in_ram, processor)
    whole = planned.ram_bytes + copy
    if repack == "on" and memory.ram_free is not None and whole > memory.ram_free:
        raise OutOfMemory(
            f"{model.name} needs {size_text(whole)} with a second, repacked copy of its weights, "
            f"{size_text(memory.ram_free)} are free: leave out --repack, or close other programs"
        )
    may = repack == "on" or (memory.ram_free is not None and whole + _REPACK_SPARE_BYTES <= memory.ram_free)
    return replace(planned.needs, repacked=copy) if may else planned.needs
