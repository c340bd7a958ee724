"""Answers to stream: Markdown with every kind of block, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

_SOME = """the llama runs over weights and every token falls on its own line of thought while two cores hum
    漢字 かな 한국어 🙂 🚀 naïve Straße Привет שלום O(n²) x₁"""
_WORDS = _SOME.split()


def document(tokens: int, *, seed: int = 1, count: Callable[[str], int] = lambda text: len(text) // 4) -> str:
    """Markdown of at least `tokens` tokens, as `count` counts them: prose, lists, tables, quotes, code.

    From 4,000 tokens on a code block of 210 lines is among it.
    """
    chance = random.Random(seed)
    parts: list[str] = []
    have = 0
    while have < tokens:
        long_code = tokens >= 4000 and have > tokens // 3 and not any("def f69(" in part for part in parts)
        part = _code(chance, 70) if long_code else _block(chance, len(parts))
        parts.append(part)
        have += count(part)
    return "\n".join(parts)


def answer(text: str) -> str:
    """The step of a script that says it."""
    return f"<|channel|>final<|message|>{text}<|return|>"


def counted(text: str, number: int) -> str:
    """`text` so many times, numbered, as what only repeats itself is stopped: `counted("so ", 2)` is `so 0 so 1 `."""
    return "".join(f"{text}{count} " for count in range(number))


def thought(text: str) -> str:
    """What goes before an `answer`."""
    return f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant"


def words(chance: random.Random, number: int) -> str:
    """A sentence."""
    return " ".join(chance.choice(_WORDS) for _ in range(number)).capitalize() + "."


def _block(chance: random.Random, number: int) -> str:
    match chance.randrange(9):
        case 0:
            return f"## Part {number}\n"
        case 1 | 2 | 3:
            link = "[a link](https://example.org/x?y=1)"
            return f"{words(chance, chance.randrange(15, 60))} With **bold**, `code` and {link}.\n"
        case 4:
            return "".join(f"- {words(chance, 8)}\n" for _ in range(chance.randrange(3, 9)))
        case 5:
            return "".join(f"{n}. {words(chance, 12)}\n\n" for n in range(1, chance.randrange(3, 7)))
        case 6:
            return _code(chance, chance.randrange(2, 40))
        case 7:
            rows = (f"| row {n} | {n * n} | {chance.choice(_WORDS)} |\n" for n in range(chance.randrange(3, 20)))
            return "| name | value | note |\n|---|--:|---|\n" + "".join(rows)
        case _:
            return f"> {words(chance, 30)}\n"


def _code(chance: random.Random, functions: int) -> str:
    bodies = (f"def f{n}(x):\n    return x * {n}  # {words(chance, 3)}\n\n" for n in range(functions))
    return "```python\n" + "".join(bodies) + "```\n"
