"""What people wrote who had not seen the lessons: ways to ask for what the étude can do, and questions beyond that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def outside() -> tuple[str, ...]:
    """Questions outside of what it knows."""
    return tuple(_lines("outside.txt"))


@cache
def phrasings() -> Mapping[str, tuple[str, ...]]:
    """Phrasings by the key that they have in `wording.PHRASINGS`: `{"sum": ("what do i get for {0}", …), …}`."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in _lines("phrasings_of_others.txt"):
        key, _, phrasing = line.partition("\t")
        found[key].append(phrasing)
    return {key: tuple(choices) for key, choices in found.items()}


def turns() -> list[str]:
    """What is a user's turn as it stands: the questions, and the phrasings that have no value."""
    return [*outside(), *(one for choices in phrasings().values() for one in choices if "{" not in one)]


def _lines(name: str) -> list[str]:
    return (_HERE / name).read_text(encoding="utf-8").splitlines()
