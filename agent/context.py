"""The use of the context, part by part, and the room for the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from ossia.agent.kinds import Kind, kind_of
from ossia.agent.request import ContextUse, Part, PartName, Request
from ossia.harmony.messages import Message

_PARTS: Final[Mapping[Kind, PartName]] = {"user": "user", "result": "results", "call": "calls", "thinking": "thinking"}


def reserve_tokens(context_tokens: int, max_tokens: int | None = None) -> int:
    """The tokens to have free before a step: a quarter of the context, but at most 8192, and at most `max_tokens`.

    `reserve_tokens(32_768)` is 8192, `reserve_tokens(2048)` 512, `reserve_tokens(2048, max_tokens=100)` 100.
    """
    reserve = min(8192, context_tokens // 4)
    return reserve if max_tokens is None else min(reserve, max_tokens)


def summary_tokens(context_tokens: int) -> int:
    """The longest summary of older turns: an eighth of the context, 1024 tokens at most."""
    return min(1024, context_tokens // 8)


def context_use(
    request: Request, *, static: Sequence[tuple[PartName, int]], tokens: Sequence[int], used: int, context_tokens: int
) -> ContextUse:
    """The meter's reading. `static` are the parts before the history, `tokens` those of each message of the history."""
    counts: dict[PartName, int] = dict.fromkeys(get_args(PartName), 0)
    for name, count in static:
        counts[name] += count
    for at, (message, count) in enumerate(zip(request.history, tokens, strict=True)):
        counts["summary" if request.summarised and at == 0 else part_of(message)] += count
    counts["system"] += used - sum(counts.values())  # the ids that open the next message
    return ContextUse(
        used_tokens=used,
        total_tokens=context_tokens,
        static_tokens=sum(count for _, count in static),
        reserve_tokens=reserve_tokens(context_tokens, request.max_tokens),
        parts=tuple(Part(name, count) for name, count in counts.items()),
        messages=tuple(tokens),
    )


def part_of(message: Message) -> PartName:
    """The meter's part for a message of the history."""
    return _PARTS.get(kind_of(message), "answers")
