"""What was pasted, and the placeholders that stand for it in the input line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ossia.cli.terminal.input.history import Entry
from ossia.cli.terminal.input.typed import without_quotes
from ossia.cli.words import length_of

_NAME = re.compile(r"\[paste \d+: ([\d,]+ (?:characters|lines))\]")
_MAX_CHARS, _MAX_LINES = 1000, 20
_MAX_HELD_CHARS = 64_000_000
"""Of all pastes together; the oldest go first."""


def is_long(text: str) -> bool:
    """Does a placeholder stand for such a text where it is pasted?"""
    return len(text) > _MAX_CHARS or text.count("\n") > _MAX_LINES


class Pastes:
    """Keeps what was pasted. A number is given once, so a placeholder never comes to mean something else."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._count = 0

    def shown(self, text: str) -> str:
        """What enters the line for a pasted text: itself, or a placeholder for a long one.

        A megabyte in the line would slow down every frame. `"[paste 1: 213 lines]"`
        """
        return self.fold(text) if is_long(text) else text

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

    def recognise(self, text: str, entries: Iterable[Entry]) -> None:
        """Learn what of a message of an earlier chat was pasted: the history has its line, with one placeholder.

        Such a paste is mostly too long for the history to hold, but its length stands in the placeholder.
        """
        found: list[str] = []
        for entry in entries:
            before, *pasted = _NAME.split(without_quotes(entry.text))
            if len(pasted) == 2 and text.startswith(before) and text.endswith(pasted[1]):
                middle = text[len(before) : len(text) - len(pasted[1])]
                found += [middle] if length_of(middle) == pasted[0] else []
        if found:
            self.fold(min(found, key=len))  # the line that has most of the message's own words

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
