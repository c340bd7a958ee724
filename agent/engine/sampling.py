"""Drawing the next id from the logits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from agent.engine.base import Sampling
from agent.errors import EngineFailed

_Floats = NDArray[np.float32]
_Ids = NDArray[np.intp]

_BLOCK = 1024
"""Weights are summed in blocks of this many: one pass over 201,088 of them finds the block, a second one the id."""

_GREEDY_BELOW = 1e-6  # float32 logits don't tell apart what such a temperature would


class Sampler:
    """Draws ids for one generation: `Sampler(Sampling(seed=7), size=201_088).pick(logits)` → `4913`.

    The order is temperature, top-k, min-p, top-p: min-p compares with the likeliest id, top-p counts within what top-k
    and min-p left. Every id of the vocabulary can be drawn, reserved ones too: the model gives those next to nothing,
    and masking them would only make its distribution another one. With a seed, the same logits give the same ids;
    `salt` makes another series of draws of one seed, so that the steps of a turn don't all repeat the same one.
    Raises `ValueError` for settings that mean nothing (a negative temperature, NaN).
    """

    def __init__(self, settings: Sampling, size: int, *, salt: int = 0) -> None:
        _check(settings)
        self._settings = settings
        self._size = size
        self._random = np.random.default_rng(None if settings.seed is None else (settings.seed, salt))
        blocks = -(-size // _BLOCK)
        self._padded: _Floats = np.zeros(blocks * _BLOCK, np.float32)  # the padding stays 0: it is never drawn

    def pick(self, logits: _Floats) -> int:
        """The next id. `logits`: (size,) float32, read only, not kept.

        Raises `EngineFailed` when the largest logit isn't a finite number.
        """
        best = int(logits.argmax())  # a NaN counts as the largest
        top = float(logits[best])
        if not math.isfinite(top):
            raise EngineFailed(f"the model's logits are broken (the largest is {top}): is the file damaged?")
        temperature = self._settings.temperature
        if temperature < _GREEDY_BELOW:
            return best
        scores = self._padded[: self._size]
        with np.errstate(over="ignore"):  # to -inf, which is a weight of 0
            np.subtract(logits, np.float32(top), out=scores)
            if temperature != 1.0:
                np.divide(scores, np.float32(temperature), out=scores)
        return self._pick_among(scores) if self._cuts else self._pick_of_all(scores)

    @property
    def _cuts(self) -> bool:
        settings = self._settings
        return 0 < settings.top_k < self._size or settings.top_p < 1.0 or settings.min_p > 0.0

    def _pick_of_all(self, scores: _Floats) -> int:
        weights = np.exp(scores, out=scores)
        return self._draw(self._padded, weights)

    def _pick_among(self, scores: _Floats) -> int:
        settings = self._settings
        ids: _Ids | None = None
        if 0 < settings.top_k < self._size:
            ids = _largest(scores, settings.top_k)
        if settings.min_p > 0.0:
            floor = np.float32(math.log(min(settings.min_p, 1.0)))
            ids = np.flatnonzero(scores >= floor) if ids is None else ids[scores[ids] >= floor]
        if settings.top_p < 1.0:
            ids = _nucleus(scores, ids, settings.top_p)
        assert ids is not None
        weights = np.exp(scores[ids])
        padded = np.zeros(-(-len(weights) // _BLOCK) * _BLOCK, np.float32)
        padded[: len(weights)] = weights
        return int(ids[self._draw(padded, padded[: len(weights)])])

    def _draw(self, padded: _Floats, weights: _Floats) -> int:
        """An index, each with the probability of its share of `weights` (which `padded` begins with; the rest is 0)."""
        sums = padded.reshape(-1, _BLOCK).sum(axis=1).cumsum(dtype=np.float64)
        target = self._random.random() * float(sums[-1])
        block = min(int(sums.searchsorted(target, side="right")), len(sums) - 1)
        before = float(sums[block - 1]) if block else 0.0
        start = block * _BLOCK
        inside = weights[start : start + _BLOCK].cumsum(dtype=np.float64)
        # The block's float32 sum may exceed its float64 one by a rounding: then the last id with any weight is meant.
        index = min(int(inside.searchsorted(target - before, side="right")), int(inside.searchsorted(inside[-1])))
        return start + index


def _check(settings: Sampling) -> None:
    for name in ("temperature", "top_p", "min_p"):
        value = getattr(settings, name)
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"expected {name} to be a number from 0, got {value!r}")
    if settings.top_k < 0:
        raise ValueError(f"expected top_k to be 0 (off) or more, got {settings.top_k!r}")


def _largest(scores: _Floats, k: int) -> _Ids:
    """The ids of the `k` largest scores; among equal ones the lowest ids. In no order."""
    # The k-th largest of the blocks' maxima is a floor that at least k scores reach and few others do: partitioning
    # those few instead of all 201,088 takes a tenth of the time.
    starts = np.arange(0, len(scores), 128)
    ids: _Ids = np.arange(len(scores))
    if len(starts) >= k:
        maxima = np.maximum.reduceat(scores, starts)
        ids = np.flatnonzero(scores >= np.partition(maxima, len(maxima) - k)[len(maxima) - k])
    values = scores[ids]
    return _first(ids, values, float(np.partition(values, len(values) - k)[len(values) - k]), k)


def _nucleus(scores: _Floats, ids: _Ids | None, top_p: float) -> _Ids:
    """The fewest likeliest ids (of `ids`; None: of all) that hold `top_p` of the probability; at least one."""
    values = scores if ids is None else scores[ids]
    weights = np.exp(values)
    wanted = top_p * float(weights.sum(dtype=np.float64))
    # Mostly few ids hold nearly everything, and only those above a floor that together hold enough need sorting.
    floor = -4.0
    while float(weights[values >= floor].sum(dtype=np.float64)) < wanted and floor > -128.0:
        floor *= 2
    chosen = np.flatnonzero(values >= floor)
    weights = weights[chosen]
    ids = chosen if ids is None else ids[chosen]
    falling = np.sort(weights)[::-1]  # not argsort: 0.4 ms instead of 20 where 90,000 remain
    count = min(int(falling.cumsum(dtype=np.float64).searchsorted(wanted, side="left")) + 1, len(falling))
    return _first(ids, weights, float(falling[count - 1]), count)


def _first(ids: _Ids, values: _Floats, floor: float, count: int) -> _Ids:
    """The `count` ids with the largest values, of which `floor` is the smallest; the lowest ids among equal ones."""
    above = ids[values > floor]
    return np.concatenate((above, ids[values == floor][: count - len(above)]))
