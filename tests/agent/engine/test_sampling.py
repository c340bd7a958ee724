"""The drawn ids have the distribution that the settings say."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from ossia.agent.engine.base import Sampling
from ossia.agent.engine.guiding import AllBut, Choice, Mask, OneOf
from ossia.agent.engine.sampling import Sampler
from ossia.agent.errors import EngineFailed

Logits = NDArray[np.float32]


def _normal(size: int, seed: int = 0, std: float = 2.0) -> Logits:
    return (np.random.default_rng(seed).standard_normal(size) * std).astype(np.float32)


def _expected(logits: Logits, settings: Sampling) -> NDArray[np.float64]:
    """The distribution, written down again slowly: sort, cut, divide."""
    scores = logits.astype(np.float64) / settings.temperature
    weights = np.exp(scores - scores.max())
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    if settings.top_k:
        order = order[: settings.top_k]
    order = [token for token in order if weights[token] >= settings.min_p * weights.max()]
    total = sum(weights[token] for token in order)
    kept, held = [], 0.0
    for token in order:
        kept.append(token)
        held += weights[token]
        if held >= settings.top_p * total:
            break
    result = np.zeros(len(logits))
    result[kept] = weights[kept] / weights[kept].sum()
    return result


def _chi_square(draws: Counter[int], expected: NDArray[np.float64], count: int) -> tuple[float, float]:
    """The statistic and the value that one in 10,000 right samplers exceeds (Wilson and Hilferty's approximation)."""
    ids = np.argsort(-expected)
    observed, wanted, cells = 0.0, 0.0, []
    for token in ids:  # ids expected less than 10 times share a cell
        observed += draws[int(token)]
        wanted += expected[token] * count
        if wanted >= 10:
            cells.append((observed, wanted))
            observed = wanted = 0.0
    if cells:
        cells[-1] = (cells[-1][0] + observed, cells[-1][1] + wanted)
    free = max(1, len(cells) - 1)
    statistic = sum((have - want) ** 2 / want for have, want in cells)
    return statistic, free * (1 - 2 / (9 * free) + 3.719 * math.sqrt(2 / (9 * free))) ** 3


_SETTINGS = [
    Sampling(),
    Sampling(temperature=0.5),
    Sampling(temperature=1.7),
    Sampling(top_k=5),
    Sampling(top_k=1),
    Sampling(top_p=0.7),
    Sampling(top_p=0.001),
    Sampling(top_p=0.0),
    Sampling(min_p=0.1),
    Sampling(top_k=20, min_p=0.4),
    Sampling(temperature=0.8, top_k=20, top_p=0.9, min_p=0.02),
]


@pytest.mark.parametrize("settings", _SETTINGS, ids=str)
@pytest.mark.parametrize("size", [12, 1024, 3000])  # one column, 64 whole rows, a last row cut short
def test_the_distribution(settings: Sampling, size: int) -> None:
    logits = _normal(size, seed=size)
    expected = _expected(logits, settings)
    seeded = Sampling(settings.temperature, settings.top_p, settings.top_k, settings.min_p, seed=1)
    sampler = Sampler(seeded, size)
    count = 5000

    draws = Counter(sampler.pick(logits) for _ in range(count))

    assert all(expected[token] > 0 for token in draws)
    statistic, limit = _chi_square(draws, expected, count)
    assert statistic < limit


def _mask(ids: NDArray[np.intp], size: int) -> Mask:
    bits = np.zeros(-(-size // 32) * 32, np.uint8)
    bits[ids] = 1
    return Mask(np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32))


def _choices(size: int) -> dict[str, tuple[Choice, NDArray[np.intp]]]:
    """What may come, in each of its forms, and the ids of it."""
    numbers = np.random.default_rng(9)
    half = np.sort(numbers.choice(size, size // 2, replace=False))
    few = np.sort(numbers.choice(size, 5, replace=False))
    banned = frozenset(range(0, size, 3))
    others = np.array([token for token in range(size) if token not in banned])
    return {
        "half in a mask": (_mask(half, size), half),
        "few in a mask": (_mask(few, size), few),
        "a few": (OneOf(few), few),
        "all but a third": (AllBut.of(banned), others),
    }


@pytest.mark.parametrize(
    "settings",
    [Sampling(), Sampling(temperature=0.5), Sampling(top_k=5), Sampling(top_p=0.7), Sampling(0.8, 0.9, 20, 0.02)],
    ids=str,
)
@pytest.mark.parametrize("size", [12, 9001])  # half of 9001 in a mask are drawn among all, the others one by one
@pytest.mark.parametrize("kind", ["half in a mask", "few in a mask", "a few", "all but a third"])
def test_the_distribution_of_what_may_come(settings: Sampling, size: int, kind: str) -> None:
    """The model's own, renormalised: what may not come is out before the cuts."""
    logits = _normal(size, seed=size)
    choice, ids = _choices(size)[kind]
    masked = np.full(size, -np.inf, np.float32)
    masked[ids] = logits[ids]
    expected = _expected(masked, settings)
    seeded = Sampling(settings.temperature, settings.top_p, settings.top_k, settings.min_p, seed=1)
    sampler = Sampler(seeded, size)
    count = 1500

    draws = Counter(sampler.pick(logits, choice) for _ in range(count))

    assert all(expected[token] > 0 for token in draws)
    statistic, limit = _chi_square(draws, expected, count)
    assert statistic < limit


@pytest.mark.parametrize(
    "settings", [Sampling(), Sampling(top_p=0.9), Sampling(top_k=50), Sampling(temperature=0)], ids=str
)
@pytest.mark.parametrize("form", ["mask", "all but", "one of"])
def test_one_id_of_gpt_oss_vocabulary_that_the_model_would_never_write(settings: Sampling, form: str) -> None:
    size, only = 201_088, 123_456
    logits = _normal(size, seed=5)
    logits[only], logits[7] = -60.0, 30.0  # all the probability lies elsewhere
    choice = {
        "mask": _mask(np.array([only]), size),
        "all but": AllBut(np.delete(np.arange(size), only), frozenset(range(size)) - {only}),
        "one of": OneOf.of([only]),
    }[form]
    sampler = Sampler(Sampling(settings.temperature, settings.top_p, settings.top_k, seed=1), size)
    assert {sampler.pick(logits, choice) for _ in range(5)} == {only}


@pytest.mark.parametrize(
    "settings", [Sampling(), Sampling(top_p=0.9), Sampling(top_k=2), Sampling(temperature=0)], ids=str
)
def test_what_may_not_come_never_comes_however_likely(settings: Sampling) -> None:
    logits = np.array([0.0, 12.0, 1.0, 11.0], np.float32)
    sampler = Sampler(Sampling(settings.temperature, settings.top_p, settings.top_k, seed=3), 4)
    assert {sampler.pick(logits, AllBut.of(frozenset({1, 3}))) for _ in range(300)} <= {0, 2}


def test_no_guide_draws_as_before_it() -> None:
    logits = _normal(3000)
    guided, plain = (Sampler(Sampling(seed=4), 3000) for _ in range(2))
    free = AllBut.of(frozenset())
    assert [guided.pick(logits, free) for _ in range(50)] == [plain.pick(logits) for _ in range(50)]


@pytest.mark.parametrize(
    ("logits", "wants"),
    [
        ([9.0, 9.0, 0.0, 0.0], False),  # what may come is as likely
        ([0.0, 0.0, 9.0, 0.0], True),  # something else is nearly sure
        ([0.0, 0.0, 9.0, 9.0], True),  # two others share it
        ([0.0, 1.0, 4.0, 4.0], False),  # 2 % are enough
    ],
)
def test_whether_the_model_wants_something_else(logits: list[float], wants: bool) -> None:
    sampler = Sampler(Sampling(temperature=0), 4)
    assert sampler.wants_others(np.array(logits, np.float32), np.array([0, 1])) is wants


def test_a_model_that_knows_nothing_wants_nothing_else() -> None:
    assert not Sampler(Sampling(), 20_000).wants_others(_normal(20_000), np.array([3, 4, 5]))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_distribution_over_gpt_oss_vocabulary(temperature: float) -> None:
    logits = _normal(201_088, seed=2)
    logits[np.random.default_rng(3).integers(0, 201_088, 30)] += np.linspace(6, 11, 30, dtype=np.float32)
    weights = np.exp(logits.astype(np.float64) / temperature)
    expected = weights / weights.sum()
    sampler = Sampler(Sampling(temperature, seed=1), len(logits))
    count = 5000

    draws = Counter(sampler.pick(logits) for _ in range(count))

    statistic, limit = _chi_square(draws, expected, count)
    assert statistic < limit


@pytest.mark.parametrize("size", [7, 100, 20_011])
def test_equal_logits_are_equally_likely_wherever_they_stand(size: int) -> None:
    sampler = Sampler(Sampling(seed=1), size)
    logits = np.full(size, -3.0, np.float32)
    places = min(size, 50)
    expected = np.bincount(np.arange(size) * places // size) / size
    count = 5000

    draws = Counter(sampler.pick(logits) * places // size for _ in range(count))

    statistic, limit = _chi_square(draws, expected, count)
    assert statistic < limit


def test_one_likely_id_is_drawn_nearly_always() -> None:
    logits = _normal(20_011)
    logits[13_007] = 40.0  # then the other rows are tried in vain
    sampler = Sampler(Sampling(seed=1), len(logits))
    assert {sampler.pick(logits) for _ in range(300)} == {13_007}


def test_the_cuts_are_exact_on_a_large_vocabulary() -> None:
    logits = _normal(20_011, seed=4)
    for settings in (Sampling(top_k=40), Sampling(top_k=5000), Sampling(top_p=0.05), Sampling(min_p=0.7)):
        allowed = set(np.flatnonzero(_expected(logits, settings)).tolist())
        sampler = Sampler(Sampling(1.0, settings.top_p, settings.top_k, settings.min_p, seed=3), len(logits))
        assert {sampler.pick(logits) for _ in range(300)} <= allowed


@pytest.mark.parametrize("settings", [Sampling(top_k=3), Sampling(top_p=0.5), Sampling(top_k=3, top_p=0.99)], ids=str)
def test_among_equals_the_lowest_ids_stay(settings: Sampling) -> None:
    logits = np.array([0, 0, 0, 0, 1, 0], np.float32)
    sampler = Sampler(Sampling(1.0, settings.top_p, settings.top_k, seed=3), 6)
    assert {sampler.pick(logits) for _ in range(200)} == {0, 1, 4}


def test_greedy_takes_the_largest_and_the_lowest_id_among_equals() -> None:
    logits = _normal(3000)
    logits[[70, 2500]] = 99.0
    assert Sampler(Sampling(temperature=0, top_k=5, top_p=0.1), 3000).pick(logits) == 70
    assert Sampler(Sampling(temperature=1e-9), 3000).pick(logits) == 70


def test_ids_are_plain_ints() -> None:
    for settings in (Sampling(temperature=0), Sampling(), Sampling(top_k=3)):
        assert type(Sampler(settings, 50).pick(_normal(50))) is int


def test_a_seed_repeats_and_the_logits_are_left_as_they_are() -> None:
    logits = _normal(3000)
    before = logits.copy()
    samplers = [Sampler(Sampling(temperature=0.9, seed=seed), 3000) for seed in (5, 5, 6, None, None)]
    samplers.append(Sampler(Sampling(temperature=0.9, seed=5), 3000, salt=1))
    samplers.append(Sampler(Sampling(temperature=0.9, seed=5, attempt=1), 3000))
    drawn = [[sampler.pick(logits) for _ in range(20)] for sampler in samplers]
    assert drawn[0] == drawn[1]
    assert len({tuple(ids) for ids in drawn}) == 6
    assert (logits == before).all()


@pytest.mark.parametrize("settings", _SETTINGS, ids=str)
def test_extreme_logits(settings: Sampling) -> None:
    logits = np.full(3000, -np.inf, np.float32)
    logits[2999] = 3e38
    logits[5] = -3e38
    sampler = Sampler(settings, 3000)
    assert {sampler.pick(logits) for _ in range(50)} == {2999}


@pytest.mark.parametrize("settings", [Sampling(), Sampling(top_p=0.9), Sampling(min_p=0.1)], ids=str)
@pytest.mark.parametrize("temperature", [1e39, 1e308])
def test_a_temperature_beyond_float32_makes_all_possible_ids_alike(settings: Sampling, temperature: float) -> None:
    logits = np.array([-np.inf, 0, -np.inf, 9] * 50, np.float32)
    sampler = Sampler(Sampling(temperature, settings.top_p, min_p=settings.min_p, seed=1), 200)
    draws = Counter(sampler.pick(logits) % 4 for _ in range(300))
    assert set(draws) == {1, 3} and min(draws.values()) > 100


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_broken_logits_are_the_engines_failure(broken: float) -> None:
    logits = np.full(20, -np.inf, np.float32)
    logits[7] = broken
    for settings in (Sampling(temperature=0), Sampling()):
        with pytest.raises(EngineFailed, match="broken"):
            Sampler(settings, 20).pick(logits)


@pytest.mark.parametrize(
    "settings", [Sampling(temperature=-1), Sampling(top_p=math.nan), Sampling(min_p=-0.1), Sampling(top_k=-1)], ids=str
)
def test_settings_that_mean_nothing(settings: Sampling) -> None:
    with pytest.raises(ValueError, match="must be "):
        Sampler(settings, 20)
