"""The answers of `ossia eval math`, computed from the questions alone, in other ways than the suite's.

python -m tests.oracle.eval_answers          # 50 seeds
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache

from ossia.cli.eval.sums import tasks


def _primes(low: int, high: int) -> int:
    sieve = bytearray([1]) * (high + 1)
    sieve[:2] = b"\0\0"
    for n in range(2, int(high**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, high + 1, n)))
    return sum(n for n in range(low, high + 1) if sieve[n])


def _collatz(most: int, *_: int) -> int:
    @cache
    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    return min(range(1, most), key=lambda n: (-steps(n), n))


def _digits(_: int, most: int, wanted: int) -> int:
    return sum(sum(n // 10**place % 10 for place in range(6)) == wanted for n in range(1, most + 1))


def _power(base: int, exponent: int) -> int:
    digits = [1]
    for _ in range(exponent):
        carry = 0
        for at, digit in enumerate(digits):
            carry, digits[at] = divmod(digit * base + carry, 10)
        while carry:
            carry, digit = divmod(carry, 10)
            digits.append(digit)
    return sum(digits)


def _coins(total: int, *coins: int) -> int:
    @cache
    def ways(left: int, first: int) -> int:
        if left <= 0 or first == len(coins):
            return left == 0
        return ways(left - coins[first], first) + ways(left, first + 1)

    return ways(total, 0)


def _paths(_: int, __: int, width: int, height: int, x: int, y: int) -> int:
    @cache
    def ways(a: int, b: int) -> int:
        if (a, b) == (x, y) or a > width or b > height:
            return 0
        return 1 if (a, b) == (width, height) else ways(a + 1, b) + ways(a, b + 1)

    return ways(0, 0)


def _circle(people: int, *rest: int) -> int:
    circle, step = list(range(1, people + 1)), rest[-1]
    while len(circle) > 1:
        cut = (step - 1) % len(circle)
        circle = circle[cut + 1 :] + circle[:cut]
    return circle[0]


def _coprime(*numbers: int) -> int:
    most = numbers[1]
    phi = list(range(most + 1))
    for n in range(2, most + 1):
        if phi[n] == n:
            for of in range(n, most + 1, n):
                phi[of] -= phi[of] // n
    return sum(phi[2:])


def _recurrence(*numbers: int) -> int:
    a, _, b, _, mod, at = numbers[4:]
    known = {1: 1, 2: 2}
    for n in range(3, at + 1):
        known[n] = (a * known[n - 1] + b * known[n - 2]) % mod
    return known[at]


def _squares(most: int) -> int:
    def is_sum(n: int) -> bool:
        return any(round((n - a * a) ** 0.5) ** 2 == n - a * a for a in range(1, int((n - 1) ** 0.5) + 1))

    return sum(map(is_sum, range(2, most + 1)))


_KINDS: dict[str, Callable[..., int]] = {
    "primes": _primes, "collatz": _collatz, "digits": _digits, "power": _power, "coins": _coins, "paths": _paths,
    "circle": _circle, "coprime": _coprime, "recurrence": _recurrence, "squares": _squares,
}  # fmt: skip


def misses(seed: int) -> list[str]:
    """The tasks of a seed whose answers differ."""
    sys.setrecursionlimit(20_000)
    found = []
    for task in tasks(seed):
        question = task.prompt.partition(" Use python")[0]
        numbers = map(int, re.findall(r"\d+", question))
        number = _KINDS[task.id[len("math/") : -2]](*numbers)
        if task.answer != f"Answer: {number}":
            found.append(f"seed {seed}: {task.id}: {task.answer}, not {number}: {question}")
    return found


if __name__ == "__main__":
    faults = [fault for seed in range(50) for fault in misses(seed)]
    print("\n".join([*faults, f"50 seeds, {len(faults)} answers differ"]))
    sys.exit(bool(faults))
