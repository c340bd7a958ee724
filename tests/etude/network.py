"""The gpt-oss architecture in torch, for training: one prompt and its dialogues at a time, on processors with bf16
tiles.

Everything has one of a few shapes, for a reason that was measured: oneDNN compiles a kernel for every new matrix shape
(3.4 ms, where the product itself takes 0.4 ms), and that was two thirds of the first study's training time. So a prompt
is padded to a multiple of 128 tokens, dialogues are packed into rows of 256, 512 or 1024, and every expert's tokens are
padded to a multiple of 128. Tokens of one row that belong to different dialogues do not see each other.

The order of the arithmetic is llama.cpp's (`llama_model_openai_moe_iswa`): YaRN with rounded correction dimensions, an
attention sink per head, alternating sliding windows, top-k routing with the softmax taken over the chosen experts, the
clamped SwiGLU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.etude.export import LAYER
from tests.etude.shape import SLAB, Shape, is_expert
from tests.etude.sheet import SINK_COLUMNS, Patch, Sheet

SWIGLU_SLOPE = 1.702
SWIGLU_LIMIT = 7.0

Weights = dict[str, Tensor]


def random_weights(shape: Shape) -> Weights:
    """Fresh float32 weights by name. `N.up` holds the gates' rows first, then the up projection's."""
    width, hidden = shape.width, shape.hidden
    small = 1 / math.sqrt(2 * shape.layers)
    embedding = torch.randn(shape.vocabulary, width) * 0.5
    weights = {"embedding": embedding, "output": embedding * (2 / math.sqrt(width)), "norm": torch.ones(width)}
    for layer in range(shape.layers):
        rows = shape.query_width + 2 * shape.key_width
        parts = {
            "attention_norm": torch.ones(width),
            "qkv": torch.randn(rows, width) / math.sqrt(width),
            "qkv_bias": torch.zeros(rows),
            "out": torch.randn(width, shape.query_width) * small / math.sqrt(shape.query_width),
            "out_bias": torch.zeros(width),
            "sinks": torch.zeros(shape.heads),
            "experts_norm": torch.ones(width),
            "router": torch.randn(shape.experts, width) / math.sqrt(width),
            "router_bias": torch.zeros(shape.experts),
            "up": torch.randn(shape.experts, 2 * hidden, width) / math.sqrt(width),
            "up_bias": torch.zeros(shape.experts, 2 * hidden),
            "down": torch.randn(shape.experts, width, hidden) * small / math.sqrt(hidden),
            "down_bias": torch.zeros(shape.experts, width),
        }
        weights |= {f"{layer}.{name}": value for name, value in parts.items()}
    return weights


_EXACT = ("embedding", "norm", "router", "router_bias", "sinks")


def prepared(weights: Weights, *, dtype: torch.dtype = torch.bfloat16, quantised: bool = True) -> Weights:
    """What the forward pass takes: cast once a step, the experts rounded to MXFP4; leaves that gather gradients."""
    ready = {}
    for name, value in weights.items():
        used = mxfp4(value) if quantised and is_expert(name) else value
        ready[name] = (used.clone() if name.endswith(_EXACT) else used.to(dtype, copy=True)).requires_grad_()
    return ready


def mxfp4(weight: Tensor) -> Tensor:
    """The values that ggml's `quantize_row_mxfp4_ref` would store: blocks of 32, sixteen values, a power of two each.

    A block's unit is 2 ** (floor(log2(its largest)) - 2); steps: half a unit below two units, one below four, then two.
    """
    return _do(_rounded, weight.reshape(-1, 32)).reshape(weight.shape)


def _rounded(blocks: Tensor) -> Tensor:
    unit = _power_of_two(blocks.abs().amax(1, keepdim=True).clamp(min=1e-30)) * 0.25
    magnitude = torch.minimum(torch.maximum(_power_of_two(blocks), unit), unit * 4)
    magic = magnitude * (0.75 * 2**23)  # adding and taking away 1.5 * 2**23 steps leaves whole steps
    limit = unit * 6
    return torch.minimum(torch.maximum((blocks + magic) - magic, -limit), limit)


def _power_of_two(value: Tensor) -> Tensor:
    """The largest power of two not above each magnitude: the exponent bits alone."""
    return (value.view(torch.int32) & 0x7F800000).view(torch.float32)


def rope_tables(shape: Shape, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin, [tokens, 1, half a head's width], as ggml_rope_ext has them for YaRN with extrapolation 1."""
    half = shape.head_width // 2
    index = torch.arange(half, dtype=torch.float64)
    plain = shape.rope_base ** (-index / half)

    def dimension(turns: float) -> float:
        ratio = shape.rope_original_context / (turns * 2 * math.pi)
        return half * math.log(ratio) / math.log(shape.rope_base)

    low = max(0, math.floor(dimension(32.0)))
    high = min(shape.head_width - 1, math.ceil(dimension(1.0)))
    stretched = ((index - low) / max(0.001, high - low)).clamp(0, 1)
    frequencies = plain / shape.rope_factor * stretched + plain * (1 - stretched)
    magnitude = 1 + 0.1 * math.log(shape.rope_factor)
    angles = positions[:, None].double() * frequencies
    return (angles.cos() * magnitude).float()[:, None], (angles.sin() * magnitude).float()[:, None]


class _Attended(torch.autograd.Function):
    """softmax(queries · keys + mask, with the sink in the first of the last columns) · values.

    queries [n, g * q, width]; keys and values [n, k, width], their last `SINK_COLUMNS` rows zero; mask [b, q, k]; sinks
    [h, g], where n = h * b.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, sinks: Tensor) -> Tensor:
        (batch, count, columns), (kv_heads, group) = mask.shape, sinks.shape
        scores = torch.bmm(queries, keys.mT)
        by_head = scores.view(kv_heads, batch, group, count, columns)
        by_head.add_(mask[None, :, None])
        by_head[..., -SINK_COLUMNS] = sinks[:, None, :, None]
        shares = torch.softmax(scores, -1)
        ctx.save_for_backward(queries, keys, values, shares)
        ctx.sizes = by_head.shape
        return torch.bmm(shares, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, shares = ctx.saved_tensors
        grad = grad.contiguous()
        grad_values = torch.bmm(shares.mT, grad)
        grad_scores = torch._softmax_backward_data(torch.bmm(grad, values.mT), shares, -1, shares.dtype)
        grad_sinks = grad_scores.view(ctx.sizes)[..., -SINK_COLUMNS].float().sum((1, 3))
        return torch.bmm(grad_scores, keys), torch.bmm(grad_scores.mT, queries), grad_values, None, grad_sinks


class _Grouped(torch.autograd.Function):
    """inputs [m, i] cut into one stretch per expert, each times its weight [o, i] plus its bias: [m, o]."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weights: Tensor, biases: Tensor, sizes: list[int]) -> Tensor:
        ctx.save_for_backward(inputs, weights)
        ctx.sizes = sizes
        outputs = inputs.new_empty(len(inputs), weights.shape[1])
        for part, into, weight, bias in zip(inputs.split(sizes), outputs.split(sizes), weights, biases, strict=True):
            if len(part):
                torch.addmm(bias, part, weight.mT, out=into)
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights = ctx.saved_tensors
        grad = grad.contiguous()
        grad_inputs, grad_weights = torch.empty_like(inputs), torch.zeros_like(weights)
        grad_biases = grad.new_zeros(weights.shape[:2])
        parts = (grad.split(ctx.sizes), inputs.split(ctx.sizes), grad_inputs.split(ctx.sizes))
        for index, (out, part, into) in enumerate(zip(*parts, strict=True)):
            if len(out):
                torch.mm(out, weights[index], out=into)
                torch.mm(out.mT, part, out=grad_weights[index])
                torch.sum(out, 0, out=grad_biases[index])
        return grad_inputs, grad_weights, grad_biases, None


# What a step does between its matrix products is bound by memory: compiled into single loops (`compile_small_parts`), a
# norm takes 2.0 ms instead of 12.2, a SwiGLU 4.1 instead of 10, over 2,816 tokens and beside other work.


def _norm(state: Tensor, scale: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    return functional.rms_norm(state, (state.shape[-1],), scale, epsilon).to(dtype)


def _swiglu(both: Tensor) -> Tensor:
    """gpt-oss's: the gate below 7, the other half within ±7 and plus one."""
    gate, up = both.float().chunk(2, -1)
    gate, up = gate.clamp(max=SWIGLU_LIMIT), up.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT)
    return (gate * torch.sigmoid(SWIGLU_SLOPE * gate) * (up + 1)).to(both.dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Its two halves as the parts of complex numbers, turned."""
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def _mix(said: Tensor, shares: Tensor) -> Tensor:
    return (said.float() * shares[..., None]).sum(1)


_small_parts: dict[Callable[..., Tensor], Callable[..., Tensor]] = {}


def compile_small_parts() -> None:
    """Make what follows faster, for a run that is long enough: it takes a C++ compiler and about a minute."""
    for part in (_norm, _swiglu, _rotate, _mix, _rounded):
        _small_parts[part] = torch.compile(part, dynamic=True)


def _do(part: Callable[..., Tensor], *arguments: object) -> Tensor:
    return _small_parts.get(part, part)(*arguments)


def logits(weights: Weights, shape: Shape, sheet: Sheet, balance: list[Tensor] | None = None) -> Tensor:
    """[predicted, vocabulary], float32. Adds each layer's load-balance loss (1 when even) to `balance`."""
    state = functional.embedding(sheet.ids, weights["embedding"])
    cos, sin = rope_tables(shape, sheet.positions)
    for layer in range(shape.layers):
        part = {name: weights[f"{layer}.{name}"] for name in LAYER}
        patches = sheet.windowed if layer % 2 == 0 else sheet.full
        state = state + _attention(part, shape, state, patches, cos, sin).float()
        state = _add_experts(part, shape, state, sheet.real, balance)
    chosen = state.index_select(0, sheet.predicted)
    normed = _do(_norm, chosen, weights["norm"], shape.epsilon, weights["output"].dtype)
    return functional.linear(normed, weights["output"]).float()


def _attention(
    part: Weights, shape: Shape, state: Tensor, patches: tuple[Patch, ...], cos: Tensor, sin: Tensor
) -> Tensor:
    group, kv_heads, width = shape.heads // shape.kv_heads, shape.kv_heads, shape.head_width
    normed = _do(_norm, state, part["attention_norm"], shape.epsilon, part["qkv"].dtype)
    mixed = functional.linear(normed, part["qkv"], part["qkv_bias"])
    rotated, values = mixed.split([shape.query_width + shape.key_width, shape.key_width], -1)
    rotated = _do(_rotate, rotated.reshape(len(state), -1, width), cos, sin)
    queries, keys = rotated.split([shape.heads, kv_heads], 1)
    queries = (queries * (1 / math.sqrt(width))).transpose(0, 1)  # [heads, tokens, width]
    zero = keys.new_zeros(kv_heads, 1, width)
    keys = torch.cat((keys.transpose(0, 1), zero), 1)
    values = torch.cat((values.reshape(len(state), kv_heads, width).transpose(0, 1), zero), 1)
    seen = []
    for patch in patches:
        asked = queries[:, patch.start : patch.start + patch.batch * patch.queries]
        asked = asked.reshape(kv_heads, group, patch.batch, patch.queries, width).transpose(1, 2)
        batches = kv_heads * patch.batch
        answer = _Attended.apply(
            asked.reshape(batches, group * patch.queries, width),
            keys.index_select(1, patch.keys).reshape(batches, -1, width),
            values.index_select(1, patch.keys).reshape(batches, -1, width),
            patch.mask if keys.dtype == torch.bfloat16 else patch.mask.to(keys.dtype),
            part["sinks"].reshape(kv_heads, group),
        )
        answer = answer.reshape(kv_heads, patch.batch, group, patch.queries, width).permute(1, 3, 0, 2, 4)
        seen.append(answer.reshape(-1, shape.query_width))
    return functional.linear(torch.cat(seen), part["out"], part["out_bias"])


def _add_experts(part: Weights, shape: Shape, state: Tensor, real: Tensor, balance: list[Tensor] | None) -> Tensor:
    """The state plus what its experts say; padding is left as it is."""
    normed = _do(_norm, state.index_select(0, real), part["experts_norm"], shape.epsilon, torch.float32)
    scores = functional.linear(normed, part["router"], part["router_bias"])
    best = scores.topk(shape.experts_used, -1)
    shares = best.values.softmax(-1)
    if balance is not None:
        load = torch.bincount(best.indices.reshape(-1), minlength=shape.experts) / best.indices.numel()
        balance.append((scores.softmax(-1).mean(0) * load).sum() * shape.experts)
    source, places, sizes = _dispatch(best.indices, shape)
    gathered = normed.to(part["up"].dtype).index_select(0, source)
    hidden = _do(_swiglu, _Grouped.apply(gathered, part["up"], part["up_bias"], sizes))
    said = _Grouped.apply(hidden, part["down"], part["down_bias"], sizes)
    chosen = said.index_select(0, places.reshape(-1)).reshape(*places.shape, -1)
    return state.index_add(0, real, _do(_mix, chosen, shares))


def _dispatch(experts: Tensor, shape: Shape) -> tuple[Tensor, Tensor, list[int]]:
    """For choices [tokens, used]: the token of each padded place, the place of each choice, each expert's places."""
    flat = experts.reshape(-1)
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat, minlength=shape.experts)
    sizes = (counts + SLAB - 1) // SLAB * SLAB
    shift = (sizes.cumsum(0) - sizes) - (counts.cumsum(0) - counts)
    place = torch.arange(len(flat)) + shift[flat[order]]
    source = torch.zeros(int(sizes.sum()), dtype=torch.long)
    source[place] = order // shape.experts_used
    places = torch.empty_like(order)
    places[order] = place
    return source, places.reshape(experts.shape), sizes.tolist()
