"""Draws the next id from the logits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ossia.agent.engine.base import Sampling
from ossia.agent.engine.guiding import AllBut, Choice, Mask, OneOf
from ossia.agent.errors import EngineFailed

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Ids = NDArray[np.intp]

_ROWS = 64
"""The logits are viewed as a table with this many rows: 201,088 of them then have 3,142 columns."""

_TRIES = 128
"""The ids tried at once. Even in the worst case (1 try in `_ROWS` succeeds) one is taken in 7 of 8 draws."""

_AHEAD = 16
"""The draws to prepare random numbers for at once. Right after a token the processor's caches hold no data of the
sampler, and then the cost is the number of different things to do."""

_BLOCK = 16_384  # logits that are weighed at a time: 64 KiB, which the processor's cache holds

_MOST_MISSES = 128
"""After this many draws of ids that may not come, those that may are looked at one by one (0.5 ms for all)."""

_FEW = 256  # up to so many ids are looked at one by one, which is faster than drawing among all

_NOTHING = 1e-9
"""A smaller share of the whole weight moves no cut: the weights themselves are rounded to a ten-millionth."""

_HARDLY, _SURE, _LEADERS = 0.01, 0.5, 8
"""The model wants something else if the ids that may come have less than the first share of the probability, and the
`_LEADERS` likeliest ids more than the second. (A model that knows nothing spreads it over all ids, and wants none.)"""

_GREEDY_BELOW = 1e-6  # a lower temperature would separate logits that are equal in float32
_HOTTEST = 1e38  # logits all count the same long before that, and float32 ends soon after


class Sampler:
    """Draws ids for one generation: `Sampler(Sampling(seed=7), size=201_088).pick(logits)` → `4913`.

    First ids that may not come (`allowed`) are left out; then temperature, top-k, min-p (which compares with the
    likeliest id) and top-p (which counts within what is left) are applied in this order. Without a guide every id can
    be drawn, even reserved ones: the model gives those almost no probability. With a seed, the same logits give the
    same ids; `salt` makes another series of draws from it for each step of a turn. Raises `ValueError` for meaningless
    settings (a negative temperature, NaN).
    """

    def __init__(self, settings: Sampling, size: int, *, salt: int = 0) -> None:
        settings = settings.of(1.0)
        _check(settings)
        self._settings = settings
        self._temperature = min(settings.temperature or 0.0, _HOTTEST)
        self._size = size
        self._cuts = 0 < settings.top_k < size or settings.top_p < 1.0 or settings.min_p > 0.0
        series = (salt, settings.attempt) if settings.attempt else (salt,)
        self._random = np.random.default_rng(None if settings.seed is None else (settings.seed, *series))
        self._columns = -(-size // _ROWS)
        self._rows = -(-size // self._columns)  # the last one may be cut short
        self._tries = self._prepared_tries()
        # Reused for each id: the system would have to map new memory first.
        self._largest = np.empty(self._columns, np.float32)
        self._ends = np.empty(self._columns, np.float64)

    def pick(self, logits: _Floats, allowed: Choice = None) -> int:
        """The next id, of those that may come. `logits`: (size,) float32, read only, not kept.

        Raises `EngineFailed` when the largest logit isn't a finite number.
        """
        if isinstance(allowed, OneOf):
            return self._pick_of(logits, allowed.ids)
        if isinstance(allowed, Mask) and allowed.count <= _FEW:
            return self._pick_of(logits, allowed.listed(self._size))
        if self._temperature < _GREEDY_BELOW:
            best = int(logits.argmax())  # a NaN counts as the largest
            _require_finite(float(logits[best]))
            if allowed is None or _may_come(best, allowed):
                return best
            best = int(allowed.within(logits).argmax())
            _require_finite(float(logits[best]))
            return best
        maxima = self._maxima(logits)
        top = float(np.maximum.reduce(maxima))
        _require_finite(top)
        if not self._cuts:
            return self._pick_of_all(logits, maxima, top, allowed)
        return self._pick_cut(logits, maxima, top, allowed)

    def wants_others(self, logits: _Floats, ids: _Ids) -> bool:
        """True if the model gives these ids hardly any probability, and a few others most of it. At temperature 1."""
        best = int(logits.argmax())
        if best in ids:
            return False
        top = float(logits[best])
        starts = range(0, self._size, _BLOCK)
        total = sum(float(np.exp(logits[start : start + _BLOCK] - np.float32(top)).sum()) for start in starts)
        leaders = min(_LEADERS, self._size)
        share, wanted = (
            float(np.exp(few - np.float32(top)).sum()) / total
            for few in (logits[ids], np.partition(logits, -leaders)[-leaders:])
        )
        return share < _HARDLY and wanted > _SURE

    def _maxima(self, logits: _Floats) -> _Floats:
        """The largest logit of each column, until the next call; NaN where one is NaN."""
        rows, rest = divmod(self._size, self._columns)
        whole = self._size - rest
        maxima = self._largest
        np.maximum.reduce(logits[:whole].reshape(rows, self._columns), axis=0, out=maxima)
        if rest:
            np.maximum(maxima[:rest], logits[whole:], out=maxima[:rest])
        return maxima

    def _pick_of_all(self, logits: _Floats, maxima: _Floats, top: float, allowed: AllBut | Mask | None) -> int:
        """Draws by the softmax of all logits, without computing it: rejection sampling never looks at most weights.

        A column is drawn by the weight of its largest logit, a row uniformly. The id there is accepted with the
        probability of its weight divided by that largest one; otherwise both are drawn again. So an id's chance is
        maximum / (sum of maxima) · 1 / rows · weight / maximum: its weight over something that is the same for every
        id. With 201,088 ids this takes 0.06 ms; computing all the weights takes 0.2 to 0.3. If an id may not come, it
        is drawn again, at most `_MOST_MISSES` times.
        """
        ends = np.subtract(maxima, top, out=self._ends, dtype=np.float64)  # no difference overflows in float64
        if self._temperature != 1.0:
            ends /= self._temperature
        np.add.accumulate(np.exp(ends, out=ends), out=ends)
        misses = 0
        while misses < _MOST_MISSES:
            chance, starts, heights = next(self._tries)
            columns = ends.searchsorted(chance * ends[-1], side="right")
            ids = starts + columns
            depths = np.subtract(logits.take(ids, mode="clip"), maxima.take(columns), dtype=np.float64)
            taken = depths >= heights
            if self._rows * self._columns > self._size:
                taken &= ids < self._size
            first = int(taken.argmax())
            if taken[first]:
                drawn = int(ids[first])
                if allowed is None or (isinstance(allowed, AllBut) and drawn not in allowed.known):
                    return drawn
                others = ids[taken]  # each a draw of its own
                fitting = others[allowed.holds(others)]
                if len(fitting):
                    return int(fitting[0])
                misses += len(others)
        assert allowed is not None
        return self._pick_of(logits, allowed.listed(self._size))

    def _prepared_tries(self) -> Iterator[tuple[_Doubles, _Ids, _Doubles]]:
        """Endless random numbers, for `_TRIES` ids at a time: 0.0 to 1.0, to choose the column; where the row begins;
        and how far below its column's maximum a logit may be and still be accepted (0.0 or less)."""
        while True:
            chance = self._random.random((3, _AHEAD, _TRIES))
            starts = (chance[1] * self._rows).astype(np.intp) * self._columns
            yield from zip(chance[0], starts, np.log1p(-chance[2]) * self._temperature, strict=True)

    @np.errstate(over="ignore")  # to -inf, which is a weight of 0
    def _pick_of(self, logits: _Floats, ids: _Ids) -> int:
        """Draws one of these ids, looking at each of them."""
        settings, values = self._settings, logits[ids]
        best = int(values.argmax())
        top = float(values[best])
        _require_finite(top)
        if self._temperature < _GREEDY_BELOW or len(ids) == 1:
            return int(ids[best])
        if 0 < settings.top_k < len(ids):
            kept = _largest(values, settings.top_k)
            ids, values = ids[kept], values[kept]
        weights = self._weights(values, top)
        if settings.min_p > 0.0:
            kept = np.flatnonzero(weights >= min(settings.min_p, 1.0))
            ids, weights = ids[kept], weights[kept]
        if settings.top_p < 1.0:
            kept = _nucleus(weights, settings.top_p * float(weights.sum(dtype=np.float64)))
            ids, weights = ids[kept], weights[kept]
        return int(ids[self._drawn(weights)])

    def _pick_cut(self, logits: _Floats, maxima: _Floats, top: float, allowed: AllBut | Mask | None) -> int:
        """Draws with top-k, min-p and top-p; what may not come is left out before them."""
        if allowed is None:
            return self._pick_among(logits, maxima, top)
        if isinstance(allowed, AllBut):
            heaviest = math.exp(min(0.0, (float(logits[allowed.ids].max(initial=-math.inf)) - top) / self._temperature))
            if heaviest * len(allowed.ids) < _NOTHING:
                drawn = self._pick_among(logits, maxima, top)
                return drawn if drawn not in allowed.known else self._pick_of(logits, allowed.listed(self._size))
        within = allowed.within(logits)
        maxima = self._maxima(within)
        top = float(np.maximum.reduce(maxima))
        _require_finite(top)
        return self._pick_among(within, maxima, top)

    @np.errstate(over="ignore")  # to -inf, which is a weight of 0
    def _pick_among(self, logits: _Floats, maxima: _Floats, top: float) -> int:
        settings = self._settings
        if 0 < settings.top_k < self._size or settings.min_p > 0.0:
            ids = self._largest_ids(logits, maxima, top)
            weights = self._weights(logits[ids], top)
            wanted = settings.top_p * float(weights.sum(dtype=np.float64))
        else:
            ids, weights, wanted = self._likely(logits, top)
        if settings.top_p < 1.0:
            chosen = _nucleus(weights, wanted)
            weights, ids = weights[chosen], ids[chosen]
        return int(ids[self._drawn(weights)])

    def _drawn(self, weights: _Floats) -> int:
        """The index of one of the weights, drawn in proportion to them."""
        ends = weights.cumsum(dtype=np.float64)
        return int(ends.searchsorted(self._random.random() * ends[-1], side="right"))

    def _largest_ids(self, logits: _Floats, maxima: _Floats, top: float) -> _Ids:
        """The ids that top-k and min-p leave; ascending, unless top-k has cut."""
        top_k, min_p, floor = self._settings.top_k, self._settings.min_p, -math.inf
        if 0 < top_k <= len(maxima):  # at least k logits reach the k-th largest maximum, and few others do
            floor = float(np.partition(maxima, len(maxima) - top_k)[len(maxima) - top_k])
        if min_p > 0.0:
            floor = max(floor, top + self._temperature * math.log(min(min_p, 1.0)))
        ids = np.flatnonzero(logits >= np.float32(floor))
        return ids[_largest(logits[ids], top_k)] if 0 < top_k < len(ids) else ids

    def _likely(self, logits: _Floats, top: float) -> tuple[_Ids, _Floats, float]:
        """The likeliest ids, at least as many as top-p needs; their weights; the sum that top-p needs."""
        starts = range(0, self._size, _BLOCK)
        total = sum(float(self._weights(logits[start : start + _BLOCK], top).sum()) for start in starts)
        wanted = self._settings.top_p * total
        # Usually the ids with at least 8 times the mean weight are enough. All those below the second floor together
        # weigh at most half of what top-p leaves out (the other half allows for rounding).
        for means in (8.0, (1.0 - self._settings.top_p) / 2):
            floor = min(top, top + self._temperature * math.log(means * total / self._size))
            ids = np.flatnonzero(logits >= np.float32(floor))
            weights = self._weights(logits[ids], top)
            if float(weights.sum(dtype=np.float64)) >= wanted:
                break
        return ids, weights, wanted

    def _weights(self, logits: _Floats, top: float) -> _Floats:
        """The weights of these logits; the largest logit has 1.0."""
        scores: _Floats = logits - np.float32(top)
        if self._temperature != 1.0:
            np.divide(scores, np.float32(self._temperature), out=scores)
        return np.exp(scores, out=scores)


def _may_come(token: int, allowed: AllBut | Mask) -> bool:
    if isinstance(allowed, AllBut):
        return token not in allowed.known
    return bool(allowed.words[token >> 5] >> (token & 31) & 1)


def _check(settings: Sampling) -> None:
    for name in ("temperature", "top_p", "min_p"):
        value = getattr(settings, name)
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
    if settings.top_k < 0:
        raise ValueError(f"top_k must be 0 (off) or more, not {settings.top_k!r}")


def _require_finite(top: float) -> None:
    if not math.isfinite(top):
        raise EngineFailed(f"the model's logits are broken (the largest is {top}): is the file damaged?")


def _largest(values: _Floats, k: int) -> _Ids:
    """The indices of the `k` largest values, the first ones among equals; in no order."""
    return _first(values, float(np.partition(values, len(values) - k)[len(values) - k]), k)


def _nucleus(weights: _Floats, wanted: float) -> _Ids:
    """The indices of the fewest largest weights whose sum reaches `wanted`; at least one, in no order."""
    falling = np.sort(weights)[::-1]  # not argsort: 0.4 ms instead of 20 where 90,000 remain
    count = min(int(falling.cumsum(dtype=np.float64).searchsorted(wanted, side="left")) + 1, len(falling))
    return _first(weights, float(falling[count - 1]), count)


def _first(values: _Floats, floor: float, count: int) -> _Ids:
    """The indices of the `count` largest values, whose smallest is `floor`; the first ones among equals."""
    above = np.flatnonzero(values > floor)
    return np.concatenate((above, np.flatnonzero(values == floor)[: count - len(above)]))
