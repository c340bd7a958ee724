"""The parts of a repository: a package with some modules, their tests, and the files that a job is about."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from ossia.cli.eval.workbench import RUNNER

PACKAGES = ("granary", "harbour", "orchard", "foundry", "atelier", "lantern", "quarry", "tannery")
NOUNS = ("crate", "ticket", "parcel", "recipe", "sensor", "badge", "voucher", "barrel", "ledger", "spool")


@dataclass(frozen=True, slots=True)
class Job:
    """A job on a repository. `before` and `after` are the files that it is about, as they are and as a right solution
    leaves them; a file that is in one of the two only is deleted or made. `hidden` is the test that judges.

    All texts are templates: `$pkg` is the package, `$noun` and `$Noun` a thing, `$n` a number.
    """

    prompt: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    hidden: str
    crlf: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filled:
    """A job with its names filled in, in a whole repository; `after` has only what differs, None: deleted."""

    prompt: str
    files: Mapping[str, str]
    after: Mapping[str, str | None]
    hidden: str
    crlf: frozenset[str]


def filled(job: Job, chance: random.Random, *, package: str, noun: str) -> Filled:
    """The job with its names, among modules that it isn't about."""
    names = {"pkg": package, "noun": noun, "Noun": noun.capitalize(), "n": str(chance.randrange(3, 9))}

    def fill(text: str) -> str:
        return Template(text).safe_substitute(names)

    before = {fill(name): fill(text) for name, text in job.before.items()}
    after: dict[str, str | None] = {fill(name): fill(text) for name, text in job.after.items()}
    after |= dict.fromkeys(name for name in before if name not in after)
    others = chance.sample(sorted(_MODULES), chance.randrange(1, len(_MODULES)))
    files = {"README.md": fill(_README), "run_tests.py": RUNNER, f"{package}/__init__.py": fill(_INIT)}
    for name in others:
        code, test = _MODULES[name]
        files |= {f"{package}/{name}.py": code, f"tests/test_{name}.py": fill(test)}
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    crlf = frozenset(map(fill, job.crlf))
    return Filled(fill(job.prompt), files | before, changed, fill(job.hidden), crlf)


def patch(files: Mapping[str, str], after: Mapping[str, str | None]) -> str:
    """The change in the form of `repo_browser.apply_patch`."""
    lines = ["*** Begin Patch"]
    for name, text in after.items():
        old = files.get(name)
        if text is None:
            lines.append(f"*** Delete File: {name}")
        elif old is None:
            lines += [f"*** Add File: {name}", *(f"+{line}" for line in text.splitlines())]
        else:
            lines += [f"*** Update File: {name}", "@@"]
            lines += [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in text.splitlines()]
    return "\n".join([*lines, "*** End Patch"])


_README = """\
# $pkg

Keeps track of every $noun. Run the tests with: python3 run_tests.py
(pytest runs them too, where it is installed.)
"""
_INIT = '"""Keeps track of every $noun."""\n'

_MODULES: Mapping[str, tuple[str, str]] = {
    "money": (
        '"""Amounts in cents."""\n\n\ndef parse(text):\n    """`parse("12.50")` is 1250."""\n'
        '    whole, _, rest = text.partition(".")\n    return int(whole) * 100 + int((rest + "00")[:2])\n\n\n'
        'def show(cents):\n    return f"{cents // 100}.{cents % 100:02}"\n',
        "from $pkg.money import parse, show\n\n\ndef test_round_trip():\n"
        '    assert show(parse("12.50")) == "12.50"\n    assert parse("7") == 700\n',
    ),
    "words": (
        '"""Words of a text."""\n\nimport re\n\n\ndef words(text):\n    return re.findall(r"[a-z]+", text.lower())\n'
        "\n\ndef count(text):\n    found = {}\n"
        "    for word in words(text):\n        found[word] = found.get(word, 0) + 1\n"
        "    return found\n",
        'from $pkg.words import count\n\n\ndef test_count():\n    assert count("A b a") == {"a": 2, "b": 1}\n',
    ),
    "grid": (
        '"""A grid of cells."""\n\n\nclass Grid:\n    def __init__(self, width, height, fill=0):\n'
        "        self.rows = [[fill] * width for _ in range(height)]\n\n    def neighbours(self, x, y):\n"
        "        near = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]\n"
        "        return [(a, b) for a, b in near if 0 <= b < len(self.rows) and 0 <= a < len(self.rows[0])]\n",
        "from $pkg.grid import Grid\n\n\ndef test_a_corner_has_two_neighbours():\n"
        "    assert sorted(Grid(3, 3).neighbours(0, 0)) == [(0, 1), (1, 0)]\n",
    ),
    "units": (
        '"""Units of length and weight."""\n\nFACTORS = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0}\n\n\n'
        "def to_metres(value, unit):\n    return value * FACTORS[unit]\n",
        "from $pkg.units import to_metres\n\n\ndef test_kilometres():\n    assert to_metres(2, 'km') == 2000\n",
    ),
    "stack": (
        '"""A stack with a limit."""\n\n\nclass Full(Exception):\n    """There is no room."""\n\n\nclass Stack:\n'
        "    def __init__(self, limit):\n        self.items, self.limit = [], limit\n\n"
        "    def push(self, item):\n        if len(self.items) >= self.limit:\n"
        "            raise Full(self.limit)\n        self.items.append(item)\n",
        "from $pkg.stack import Full, Stack\n\n\ndef test_it_is_full():\n    stack = Stack(1)\n    stack.push(1)\n"
        "    try:\n        stack.push(2)\n    except Full:\n        return\n    raise AssertionError('not full')\n",
    ),
    "roman": (
        '"""Roman numerals."""\n\nPARTS = [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]\n\n\n'
        'def roman(number):\n    text = ""\n    for value, sign in PARTS:\n        while number >= value:\n'
        "            text, number = text + sign, number - value\n    return text\n",
        'from $pkg.roman import roman\n\n\ndef test_roman():\n    assert roman(14) == "XIV"\n',
    ),
    "tree": (
        '"""A tree of names."""\n\n\ndef depth(tree):\n    """`depth({"a": {"b": {}}})` is 2."""\n'
        "    return 1 + max(map(depth, tree.values())) if tree else 0\n",
        'from $pkg.tree import depth\n\n\ndef test_depth():\n    assert depth({"a": {"b": {}}}) == 2\n',
    ),
    "spans": (
        '"""Spans of numbers, both ends included."""\n\n\ndef merge(spans):\n    merged = []\n'
        "    for low, high in sorted(spans):\n        if merged and low <= merged[-1][1] + 1:\n"
        "            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))\n        else:\n"
        "            merged.append((low, high))\n    return merged\n",
        "from $pkg.spans import merge\n\n\ndef test_merge():\n    assert merge([(5, 6), (1, 3), (4, 4)]) == [(1, 6)]\n",
    ),
}
"""Modules that no job is about: their code and their test."""
