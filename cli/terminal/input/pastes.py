"""What was pasted, and the placeholders that stand for it in the input line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cli.words import length_of

_NAME = re.compile(r"\[paste \d+: ([\d,]+ (?:characters|lines))\]")
_MAX_CHARS, _MAX_LINES = 1000, 20
_MAX_HELD_CHARS = 64_000_000
"""Of all pastes together; the oldest go first."""


class Pastes:
    """Keeps what was pasted. A number is given once, so a placeholder never comes to mean something else."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._count = 0

    def shown(self, text: str) -> str:
        """What enters the line for a pasted text: itself, or a placeholder for a long one.

        A megabyte in the line would slow down every frame. `"[paste 1: 213 lines]"`
        """
        if len(text) > _MAX_CHARS or text.count("\n") > _MAX_LINES:
            return self.fold(text)
        return text

    def fold(self, text: str) -> str:
        """A new placeholder for `text`."""
        self._count += 1
        name = f"[paste {self._count}: {length_of(text)}]"
        self._kept[name] = text
        held = sum(map(len, self._kept.values()))
        while held > _MAX_HELD_CHARS and len(self._kept) > 1:
            held -= len(self._kept.pop(next(iter(self._kept))))
        return name

    def folded(self, text: str) -> str:
        """The text with each paste in it as its placeholder again: it still isn't the user's own words."""
        for name, pasted in self._kept.items():
            text = text.replace(pasted, name)
        return text

    def expanded(self, shown: str) -> str:
        """The text with each placeholder replaced by what was pasted; one that isn't ours stays as it is."""
        return _NAME.sub(lambda found: self._kept.get(found[0], found[0]), shown)

    def within(self, shown: str) -> dict[str, str]:
        """The placeholders in a text, and what they stand for."""
        names = (shown[start:end] for start, end in self.spans(shown))
        return {name: self._kept[name] for name in names}

    def spans(self, shown: str) -> list[tuple[int, int]]:
        """Where placeholders begin and end in a text."""
        if "[paste " not in shown:
            return []
        return [found.span() for found in _NAME.finditer(shown) if found[0] in self._kept]

    def adopted(self, shown: str, pastes: Mapping[str, str], *, ours: bool) -> str:
        """A line of the history, with placeholders of ours: those from another session are numbered anew.

        `pastes` is what the history kept of them; in place of one that it didn't keep stands a text that says so.
        """

        def ours_for(found: re.Match[str]) -> str:
            name = found[0]
            if ours and name in self._kept:
                return name
            return self.fold(pastes[name]) if name in pastes else f"[a paste of {found[1]}, not kept]"

        return _NAME.sub(ours_for, shown)
