"""The difference between two versions of a file, for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher
from itertools import islice, takewhile

from ossia.tools.decoding import decode, describe

_CONTEXT = 3
_WINDOW, _RUN, _MAX_COST = 500, 3, 500_000_000
"""A window grows until it holds a run of equal lines. Beyond the cost, some 3 s, the rest counts as replaced."""
_MAX_CHARS = 400_000


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff of one file, and how many lines were added and removed in all, even if the text is cut."""

    text: str = ""
    added: int = 0
    removed: int = 0


def unified(before: bytes | None, after: bytes | None, *, name: str, new_name: str | None = None) -> Diff:
    """The difference; its text is `""` for equal contents of one name. None: the file doesn't exist.

    A binary file is described. A diff of more than 400,000 characters is cut, and says so. In large texts
    that have little in common more may be shown as changed than was.
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


class _Matcher(SequenceMatcher[str]):
    """difflib's matcher, but it compares a window of lines at a time, and spends no more than `_MAX_COST` in all.

    difflib's time for whole texts grows with lines times changes: 500 changes in 50,000 lines took 6 s.
    """

    def __init__(self, a: list[str], b: list[str]) -> None:
        super().__init__(None, a, b)
        self._texts = a, b

    def get_matching_blocks(self) -> list[Match]:
        a, b = self._texts
        end = _common(reversed(a), reversed(b))
        a, b = a[: len(a) - end], b[: len(b) - end]
        blocks: list[Match] = []
        i = j = 0
        size, left = _WINDOW, _MAX_COST
        while i < len(a) and j < len(b):
            same = _common(islice(a, i, None), islice(b, j, None))
            blocks.append(Match(i, j, same))
            i, j = i + same, j + same
            here, there = a[i : i + size], b[j : j + size]
            left -= _cost(here, there)
            if left < 0:
                break
            found = SequenceMatcher(None, here, there).get_matching_blocks()[:-1]
            if i + size >= len(a) and j + size >= len(b):
                blocks += [Match(i + block.a, j + block.b, block.size) for block in found]
                break
            if max((block.size for block in found), default=0) < _RUN:
                size *= 8
                continue
            *found, last = found  # which may go on behind the window
            blocks += [Match(i + block.a, j + block.b, block.size) for block in found]
            i, j, size = i + last.a, j + last.b, _WINDOW
        ends = [Match(len(a), len(b), end), Match(len(a) + end, len(b) + end, 0)]
        return [*(block for block in blocks if block.size), *(block for block in ends[:1] if end), *ends[1:]]


def _common(a: Iterable[str], b: Iterable[str]) -> int:
    """The number of lines that both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _cost(a: list[str], b: list[str]) -> int:
    """The most that difflib may need: the pairs of equal lines, but for frequent ones, times the lines."""
    counts = Counter(b)
    return sum(counts[line] for line in a if counts[line] <= max(len(b) // 100 + 1, 200)) * min(len(a), len(b))


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"
