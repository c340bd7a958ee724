"""The suite `math`: whole numbers, to be found with python; and AIME's problems from a file of the user's."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Mapping
from itertools import product
from math import comb, gcd, isqrt
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli.eval.task import Judge, Task, Verdict
from ossia.cli.exits import ExitError

if TYPE_CHECKING:
    from ossia.agent.stream.account import Account

_END = "End with the line: Answer: N"
_MAX_BYTES = 4 << 20
_MOST_DIGITS = 100
_STATED = re.compile(r"answer\W{0,20}?(-?\d[\d,]*)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d[\d,]*")


def is_number(expected: int) -> Judge:
    """The last number behind "Answer" must be this one; if there is none, the last number at all."""

    def judge(report: Account) -> Verdict:
        text = report.answer or ""
        found = _STATED.findall(text) or _NUMBER.findall(text)
        said = found[-1].replace(",", "") if found else None
        if said is None:
            return Verdict(False, "there is no number in the answer")
        right = len(said) <= _MOST_DIGITS and int(said) == expected  # Python reads no number of over 4,300
        return Verdict(right, "" if right else f"the answer {said[:_MOST_DIGITS]} isn't {expected}")

    return judge


def tasks(seed: int) -> list[Task]:
    """Two of each kind."""
    chance = random.Random(f"math {seed}")
    return [_task(f"math/{kind}-{n}", *make(chance)) for kind, make in _KINDS.items() for n in (1, 2)]


def _task(name: str, question: str, number: int) -> Task:
    code = ("python", f"print({number})")
    prompt = f"{question} Use python to compute it. {_END}"
    return Task(name, prompt, is_number(number), python=True, calls=(code,), answer=f"Answer: {number}")


# -- kinds: a question, and its answer ---------------------------------------------------------------------------------


def _primes(chance: random.Random) -> tuple[str, int]:
    low, size = chance.randrange(2000, 9000), chance.randrange(800, 1500)
    numbers = range(low, low + size + 1)
    total = sum(n for n in numbers if all(n % d for d in range(2, isqrt(n) + 1)))
    return f"What is the sum of all prime numbers from {low} to {low + size}?", total


def _collatz(chance: random.Random) -> tuple[str, int]:
    most = chance.randrange(2000, 6000)

    def steps(n: int) -> int:
        done = 0
        while n != 1:
            n, done = (n // 2 if n % 2 == 0 else 3 * n + 1), done + 1
        return done

    rule = "halve n if it is even, else take 3n+1"
    return f"Which n below {most} takes the most steps to 1 ({rule})? If several do, the smallest.", max(
        range(1, most), key=steps
    )


def _digits(chance: random.Random) -> tuple[str, int]:
    most, wanted = chance.randrange(20_000, 60_000), chance.randrange(12, 25)
    found = sum(1 for n in range(1, most + 1) if sum(map(int, str(n))) == wanted)
    return f"How many of the numbers from 1 to {most} have digits that add up to {wanted}?", found


def _power(chance: random.Random) -> tuple[str, int]:
    base, exponent = chance.randrange(3, 90), chance.randrange(300, 900)
    digits = sum(map(int, str(base**exponent)))
    return f"What is the sum of the decimal digits of {base}^{exponent}?", digits


def _partitions(chance: random.Random) -> tuple[str, int]:
    coins, total = sorted(chance.sample(range(2, 40), 5)), chance.randrange(200, 400)
    ways = [1] + [0] * total
    for coin in coins:
        for amount in range(coin, total + 1):
            ways[amount] += ways[amount - coin]
    return f"In how many ways can {total} be paid with coins of {', '.join(map(str, coins))}?", ways[total]


def _paths(chance: random.Random) -> tuple[str, int]:
    width, height = chance.randrange(9, 14), chance.randrange(9, 14)
    x, y = chance.randrange(2, 7), chance.randrange(2, 7)
    found = comb(width + height, width) - comb(x + y, x) * comb(width - x + height - y, width - x)
    where = f"from (0,0) to ({width},{height})"
    return f"How many paths lead {where}, one unit right or up at a time, without touching ({x},{y})?", found


def _josephus(chance: random.Random) -> tuple[str, int]:
    people, step = chance.randrange(60, 400), chance.randrange(3, 12)
    last = 0
    for size in range(2, people + 1):
        last = (last + step) % size
    rule = f"counting from 1, whoever is counted as {step} leaves, and the count begins anew with the next"
    return f"{people} people (1 to {people}) stand in a circle; {rule}. Who is the last one left?", last + 1


def _coprime(chance: random.Random) -> tuple[str, int]:
    most = chance.randrange(200, 500)
    found = sum(1 for a, b in product(range(1, most + 1), repeat=2) if a < b and gcd(a, b) == 1)
    return f"How many pairs (a, b) with 1 <= a < b <= {most} have no common divisor but 1?", found


def _recurrence(chance: random.Random) -> tuple[str, int]:
    a, b, mod, at = (
        chance.randrange(2, 9),
        chance.randrange(2, 9),
        chance.randrange(900, 999),
        chance.randrange(400, 800),
    )
    x, y = 1, 2
    for _ in range(at - 1):
        x, y = y, (a * y + b * x) % mod
    return f"f(1)=1, f(2)=2, f(n) = ({a}·f(n-1) + {b}·f(n-2)) mod {mod}. What is f({at})?", x


def _squares(chance: random.Random) -> tuple[str, int]:
    most = chance.randrange(3000, 9000)
    squares = [n * n for n in range(1, isqrt(most) + 1)]
    found = len({a + b for a in squares for b in squares if a + b <= most})
    return f"How many numbers up to {most} are the sum of two squares of positive whole numbers?", found


_KINDS: Mapping[str, Callable[[random.Random], tuple[str, int]]] = {
    "primes": _primes,
    "collatz": _collatz,
    "digits": _digits,
    "power": _power,
    "coins": _partitions,
    "paths": _paths,
    "circle": _josephus,
    "coprime": _coprime,
    "recurrence": _recurrence,
    "squares": _squares,
}


# -- AIME --------------------------------------------------------------------------------------------------------------


def aime(path: Path) -> list[Task]:
    """The problems of a file: JSON lines or CSV, with `problem` (or `question`) and `answer`. Raises ExitError."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise ExitError(f"--aime {path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ExitError(f"--aime {path}: isn't UTF-8 text") from None
    if len(text) > _MAX_BYTES:
        raise ExitError(f"--aime {path}: is larger than {_MAX_BYTES >> 20} MB, which no list of problems is")
    found = [_problem(row, f"--aime {path}: problem {n}", n) for n, row in enumerate(_rows(text, path), 1)]
    if not found:
        raise ExitError(f"--aime {path}: holds no problem")
    return found


def _rows(text: str, path: Path) -> list[Mapping[str, object]]:
    try:
        if not text.lstrip().startswith("{"):
            return list(csv.DictReader(text.splitlines(keepends=True)))
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError, csv.Error) as error:
        raise ExitError(f"--aime {path}: must be JSON lines, or CSV with a head: {error}") from None
    return [row if isinstance(row, dict) else {} for row in rows]


def _problem(row: Mapping[str, object], where: str, number: int) -> Task:
    lower = {str(key).lower(): value for key, value in row.items()}
    question, answer = lower.get("problem", lower.get("question")), lower.get("answer")
    if not isinstance(question, str) or not re.fullmatch(r"\s*-?\d{1,12}\s*", str(answer)):
        raise ExitError(f"{where}: needs `problem` and `answer`, a whole number")
    expected = int(str(answer))
    prompt = f"{question.strip()}\n\n{_END}"
    return Task(f"aime/{number}", prompt, is_number(expected), python=True, answer=f"Answer: {expected}")
