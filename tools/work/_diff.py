"""The difference between two versions of a file, for people."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher

from ossia.tools.decoding import decode, describe

_CONTEXT = 3
_MAX_COMPARED = 60_000_000
"""difflib gets texts as long as pairs of equal lines × lines of the shorter text is at most this in all: 0.6 s.

It is cubic where few kinds of lines alternate: 800 lines `a b a b …` against `a a b b …` took it 3 s, 2,000 took 130 s.
"""
_MAX_CHARS = 400_000

_Block = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff of one file, and how many lines were added and removed in all, even if the text is cut."""

    text: str = ""
    added: int = 0
    removed: int = 0


def unified(before: bytes | None, after: bytes | None, *, name: str, new_name: str | None = None) -> Diff:
    """The difference; its text is `""` for equal contents of one name. None: the file doesn't exist.

    For a binary file it says what it is. A diff of more than 400,000 characters is cut, and says so.
    """
    if before == after and new_name in (None, name):
        return Diff()
    old = f"a/{name}" if before is not None else "/dev/null"
    new = f"b/{new_name or name}" if after is not None else "/dev/null"
    lines: list[str] = [f"--- {old}\n", f"+++ {new}\n"]
    texts = [None if data is None else decode(data) for data in (before, after)]
    if texts[0] is not None and texts[0].guessed and after is not None:  # of what was changed, no other guess
        texts[1] = replace(texts[0], text=after.decode(texts[0].encoding, "surrogateescape"))
    for data, text, verb in ((before, texts[0], "is gone"), (after, texts[1], "comes")):
        if data is not None and text is None:
            lines.append(f"{describe(data)}: {verb}\n")
    a, b = (_lines([] if text is None else _pieces(text.shown)) for text in texts)
    hunks = list(_hunks(a, b))
    added, removed = (sum(hunk.startswith(sign) for hunk in hunks) for sign in "+-")
    return Diff(_bounded("".join((*lines, *hunks))), added, removed)


def _bounded(text: str) -> str:
    if len(text) <= _MAX_CHARS:
        return text
    return f"{text[:_MAX_CHARS]}\n[... {len(text) - _MAX_CHARS} characters of the diff are not shown]\n"


def _pieces(text: str) -> list[str]:
    r"""Split where lines end; `\r\n` leaves its `\r`, so that a change of line ends is one."""
    return re.split(r"\n|(?<=\r)(?!\n)", text)


def _lines(pieces: list[str]) -> list[str]:
    r"""Lines with their ends; a last line without one is marked, as `diff` does."""
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    if pieces and pieces[-1]:
        lines.append(f"{pieces[-1]}\n\\ No newline at end of file\n")
    return lines


def _hunks(a: list[str], b: list[str]) -> Iterator[str]:
    for group in _Matcher(a, b).get_grouped_opcodes(_CONTEXT):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@\n"
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                yield from (f" {line}" for line in a[i1:i2])
            else:
                yield from (f"-{line}" for line in a[i1:i2])
                yield from (f"+{line}" for line in b[j1:j2])


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


class _Matcher(SequenceMatcher[str]):
    """difflib's matcher, but matching blocks are found in bounded time."""

    def __init__(self, a: list[str], b: list[str]) -> None:
        super().__init__(None, a, b, autojunk=False)
        self._texts = a, b

    def get_matching_blocks(self) -> list[Match]:
        a, b = self._texts
        merged: list[Match] = []
        for i, j, size in _blocks(a, b, 0, len(a), 0, len(b), [_MAX_COMPARED]):
            if merged and (merged[-1].a + merged[-1].size, merged[-1].b + merged[-1].size) == (i, j):
                merged[-1] = Match(merged[-1].a, merged[-1].b, merged[-1].size + size)
            elif size:
                merged.append(Match(i, j, size))
        return [*merged, Match(len(a), len(b), 0)]


def _blocks(
    a: list[str], b: list[str], i1: int, i2: int, j1: int, j2: int, left: list[int], *, split: bool = True
) -> Iterator[_Block]:
    """Runs of equal lines in `a[i1:i2]` and `b[j1:j2]`, in order.

    difflib is slow, so it gets only what is left between a common start and a common end; in large texts, only what is
    left between lines that occur exactly once in each. `left[0]`: how much it may still get.
    """
    start = 0
    while start < min(i2 - i1, j2 - j1) and a[i1 + start] == b[j1 + start]:
        start += 1
    end = 0
    while end < min(i2 - i1, j2 - j1) - start and a[i2 - 1 - end] == b[j2 - 1 - end]:
        end += 1
    yield i1, j1, start
    i1, i2, j1, j2 = i1 + start, i2 - end, j1 + start, j2 - end
    kinds, others = Counter(a[i1:i2]), Counter(b[j1:j2])
    cost = sum(n * others[line] for line, n in kinds.items()) * min(i2 - i1, j2 - j1)
    if cost <= left[0]:
        left[0] -= cost
        for i, j, size in SequenceMatcher(None, a[i1:i2], b[j1:j2], autojunk=False).get_matching_blocks():
            yield i1 + i, j1 + j, size
    elif split:
        i, j = i1, j1
        for next_i, next_j in _fixed_points(a, b, i1, i2, j1, j2):
            if i < next_i and j < next_j:
                yield from _blocks(a, b, i, next_i, j, next_j, left, split=False)
            yield next_i, next_j, 1
            i, j = next_i + 1, next_j + 1
        yield from _blocks(a, b, i, i2, j, j2, left, split=False)
    yield i2, j2, end


def _fixed_points(a: list[str], b: list[str], i1: int, i2: int, j1: int, j2: int) -> list[tuple[int, int]]:
    """The longest run of lines that occur once on each side and in the same order: `(place in a, place in b)`."""
    counts_a, counts_b = Counter(a[i1:i2]), Counter(b[j1:j2])
    place_in_b = {b[j]: j for j in range(j1, j2) if counts_b[b[j]] == 1}
    pairs = [(i, place_in_b[a[i]]) for i in range(i1, i2) if counts_a[a[i]] == 1 and a[i] in place_in_b]
    ends: list[int] = []  # for rising runs of each length: the smallest last place in b …
    last: list[int] = []  # … and the pair that it belongs to
    before: list[int] = []  # for each pair the one before it in its run; -1: none
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1], last[length : length + 1] = [j], [number]
    run = []
    number = last[-1] if last else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]
