"""One prompt and its dialogues as the network takes them: token slots, and who may see whom.

A prompt is padded to a multiple of 128 tokens, and dialogues are packed into rows of 256, 512 or 1024. Those in one
row do not see each other; all see the prompt, which is computed once for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.etude.shape import SLAB

ROW_WIDTHS = (256, 512, 1024)  # tokens a row of dialogues may have
SINK_COLUMNS = 8  # after the keys: one column for the sink, the rest so that a matrix's rows stay aligned


@dataclass(frozen=True, slots=True)
class Patch:
    """A stretch of queries and the keys that they may see.

    `start`: the first query's slot; `keys`: slots, batch by batch, with `SINK_COLUMNS` times the zero slot at each end;
    `mask`: [batch, queries, keys], 0 or -inf, to be added.
    """

    start: int
    batch: int
    queries: int
    keys: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Sheet:
    """Token slots in order: padding, the prompt, rows of dialogues. A dialogue continues the prompt's positions."""

    ids: Tensor
    positions: Tensor
    real: Tensor  # the slots that are no padding
    full: tuple[Patch, ...]
    windowed: tuple[Patch, ...]
    predicted: Tensor  # slots whose next token is to be predicted, padded to a multiple of SLAB
    targets: Tensor  # those tokens; -100 where padded
    owners: Tensor  # which dialogue each target belongs to; -1 where padded


def lay_out(prompt: Sequence[int], dialogues: Sequence[tuple[Sequence[int], Sequence[bool]]]) -> Sheet:
    """Slots for a prompt's ids and for its dialogues' (ids, is each one to be predicted); all must be non-empty.

    Raises ValueError if a dialogue is longer than the widest row.
    """
    slots = _Slots(prompt)
    prompt_slots = len(slots.ids)
    rows = _packed([len(ids) - 1 for ids, _ in dialogues])
    for width, members in rows:
        end = len(slots.ids) + width
        for member in members:
            slots.add(member, *dialogues[member])
        slots.pad(end)
    positions, owner = torch.tensor(slots.positions), torch.tensor(slots.owner)
    spare = -len(slots.predicted) % SLAB
    return Sheet(
        torch.tensor(slots.ids),
        positions,
        (owner >= 0).nonzero()[:, 0],
        _full_patches(prompt_slots, [width for width, _ in rows], positions, owner),
        _windowed_patches(prompt_slots, len(owner), positions, owner),
        torch.tensor(slots.predicted + [0] * spare),
        torch.tensor(slots.targets + [-100] * spare),
        torch.tensor(slots.targets_owner + [-1] * spare),
    )


class _Slots:
    """Grows slot by slot. `owner`: 0 of the prompt's, n + 1 of dialogue n's, -1 of padding (before the prompt, too)."""

    def __init__(self, prompt: Sequence[int]) -> None:
        padding = -len(prompt) % SLAB
        self._prompt = len(prompt)
        self.ids = [0] * padding + list(prompt)
        self.positions = [0] * padding + list(range(len(prompt)))
        self.owner = [-1] * padding + [0] * len(prompt)
        self.predicted: list[int] = []
        self.targets: list[int] = []
        self.targets_owner: list[int] = []

    def add(self, member: int, ids: Sequence[int], trained: Sequence[bool]) -> None:
        start, count = len(self.ids), len(ids) - 1
        self.ids += ids[:-1]
        self.positions += range(self._prompt, self._prompt + count)
        self.owner += [member + 1] * count
        learnt = [place for place in range(count) if trained[place + 1]]
        self.predicted += [start + place for place in learnt]
        self.targets += [ids[place + 1] for place in learnt]
        self.targets_owner += [member] * len(learnt)

    def pad(self, end: int) -> None:
        missing = end - len(self.ids)
        self.ids += [0] * missing
        self.positions += [0] * missing
        self.owner += [-1] * missing


def _packed(lengths: Sequence[int]) -> list[tuple[int, list[int]]]:
    """(width, members) of rows, by width: the longest first, each into the first row with room."""
    rows: list[tuple[int, int, list[int]]] = []
    for member in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        length = lengths[member]
        for index, (width, used, members) in enumerate(rows):
            if used + length <= width:
                rows[index] = (width, used + length, [*members, member])
                break
        else:
            if length > ROW_WIDTHS[-1]:
                raise ValueError(f"a dialogue of {length} tokens: at most {ROW_WIDTHS[-1]} fit a row")
            rows.append((min(width for width in ROW_WIDTHS if length <= width), length, [member]))
    return sorted(((width, members) for width, _, members in rows), key=lambda row: row[0])


def _patch(start: int, queries: Tensor, keys: Tensor, window: int | None, positions: Tensor, owner: Tensor) -> Patch:
    """queries, keys: [batch, slots]. A query sees the prompt and its own dialogue, up to itself."""
    positions, owner = positions.short(), owner.short()  # these are millions of comparisons
    q_position, q_owner = positions[queries][:, :, None], owner[queries][:, :, None]
    k_position, k_owner = positions[keys][:, None], owner[keys][:, None]
    seen = ((k_owner == 0) | (k_owner == q_owner)) & (k_position <= q_position)
    if window is not None:
        seen &= q_position - k_position < window
    mask = torch.full((*seen.shape[:2], seen.shape[2] + SINK_COLUMNS), -math.inf, dtype=torch.bfloat16)
    mask[:, :, :-SINK_COLUMNS].masked_fill_(seen, 0)
    mask[:, :, -SINK_COLUMNS] = 0
    zero_slot = torch.full((len(keys), SINK_COLUMNS), len(positions))
    return Patch(start, len(queries), queries.shape[1], torch.cat((keys, zero_slot), 1).reshape(-1), mask)


def _full_patches(prompt: int, widths: list[int], positions: Tensor, owner: Tensor) -> tuple[Patch, ...]:
    patches = []
    for start in range(0, prompt, 2 * SLAB):
        end = min(prompt, start + 2 * SLAB)
        patches.append(_patch(start, torch.arange(start, end)[None], torch.arange(end)[None], None, positions, owner))
    start = prompt
    for width in sorted(set(widths)):
        count = widths.count(width)
        queries = torch.arange(start, start + count * width).reshape(count, width)
        keys = torch.cat((torch.arange(prompt).expand(count, -1), queries), 1)
        patches.append(_patch(start, queries, keys, None, positions, owner))
        start += count * width
    return tuple(patches)


def _windowed_patches(prompt: int, total: int, positions: Tensor, owner: Tensor) -> tuple[Patch, ...]:
    """Slabs of queries see their own slab and the one before; a dialogue's also the end of the prompt."""
    slabs = torch.arange(total).reshape(-1, SLAB)
    before = slabs.roll(1, 0)
    count = prompt // SLAB
    patches = []
    if count > 1:
        keys = torch.cat((before[1:count], slabs[1:count]), 1)
        patches.append(_patch(SLAB, slabs[1:count], keys, SLAB, positions, owner))
    patches.insert(0, _patch(0, slabs[:1], slabs[:1], SLAB, positions, owner))
    keys = torch.cat((slabs[count - 1].expand(len(slabs) - count, -1), before[count:], slabs[count:]), 1)
    last = _patch(prompt, slabs[count:], keys, SLAB, positions, owner)
    last.mask[0, :, SLAB : 2 * SLAB] = -math.inf  # the slab before the first row is the prompt's end, seen already
    return (*patches, last)
